#!/usr/bin/env python3
"""lib/runtime against what Python says of itself: python_heap.py PROBE

Of Debian's python3.11, with its own pools and with malloc for everything; in a copy of the process and, where
there is gcore, in a core; and what is refused."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3.11"
# What the process itself makes between its count and its end: the count's own lists and strings.
LATER_OBJECTS = 300
LATER_BYTES = 64 << 10


class Target:
    def __init__(self, count, **environment):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([PYTHON, f"{HERE}/python_process.py", str(count)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        env={**os.environ, **environment})
        self.said = json.loads(self.process.stdout.readline())
        assert self.process.stdout.readline() == "ready\n"
        self.log.seek(0)
        self.stats = self.log.read()
        self.pid = str(self.process.pid)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.communicate()
        self.log.close()

    def bytes_of(self, name):
        """A line of sys._debugmallocstats(), the last of that name."""
        found = re.findall(rf"^(?:# |\d+ )?{re.escape(name)}.*= +([\d,]+)$", self.stats, re.MULTILINE)
        assert found, (name, self.stats[-3000:])
        return int(found[-1].replace(",", ""))


def read(probe, what):
    """The members of the runtime, and by type: count, tracked, bytes, owned, malloc."""
    done = subprocess.run([probe, what], capture_output=True, text=True)
    assert done.returncode == 0, (what, done.returncode, done.stderr)
    runtime, classes = {}, {}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "class":
            *numbers, name = rest.split(" ", 5)
            assert name not in classes, line
            classes[name] = [int(number) for number in numbers]
        else:
            runtime[word] = int(rest) if rest.isdigit() else rest
    return runtime, classes


def about(ours, said, slack, what):
    assert abs(ours - said) <= slack, (what, ours, said)


def check_objects(found, said):
    runtime, classes = found
    assert runtime["version"].startswith("3.11.") and runtime["why_not"] == "", runtime
    assert runtime["interpreters"] == 1 and runtime["damaged_pools"] == runtime["unread"] == 0, runtime
    assert sum(row[0] for row in classes.values()) == runtime["objects"]
    for name, (count, size) in said["counts"].items():
        ours, _, own, owned, _ = classes[name]
        assert ours == count, (name, ours, count)
        # sys.getsizeof() leaves out the array of an instance's attributes, and takes instances of classes that
        # are derived from str and int for those of their bases.
        if name in ("Name", "Whole"):
            continue
        has_array = name in ("Order", "Derived") or name.startswith("Made")
        assert own + (0 if has_array else owned) == size, (name, classes[name], size)
    # Types call themselves "weakref.ReferenceType"; __name__ is the last word.
    tracked = {}
    for name, row in classes.items():
        tracked[name.split(".")[-1]] = tracked.get(name.split(".")[-1], 0) + row[1]
    for name, count in said["tracked"].items():
        slack = 0 if name in said["counts"] else LATER_OBJECTS
        about(tracked.get(name, 0), count, slack, name)


def check_pools(found, target):
    runtime, _ = found
    assert runtime["arenas"] == target.bytes_of("arenas allocated current")
    about(runtime["used"], target.bytes_of("bytes in allocated blocks"), LATER_BYTES, "used")
    about(runtime["free"], target.bytes_of("bytes in available blocks"), LATER_BYTES, "free")
    about(runtime["free_pools"], target.bytes_of("unused pools * 16384 bytes"), LATER_BYTES, "free pools")
    about(runtime["overhead"],
          target.bytes_of("bytes lost to pool headers") + target.bytes_of("bytes lost to quantization"),
          LATER_BYTES, "overhead")
    assert runtime["alignment"] == target.bytes_of("bytes lost to arena alignment")
    parts = ("used", "free", "overhead", "free_pools", "alignment")
    assert sum(runtime[part] for part in parts) == runtime["arena_bytes"], runtime


def main():
    probe, = sys.argv[1:]
    if not os.path.exists(PYTHON):
        print(f"{PYTHON} is not installed")
        sys.exit(77)
    with Target(4000) as target, tempfile.TemporaryDirectory() as folder:
        live = read(probe, target.pid)
        check_objects(live, target.said)
        check_pools(live, target)
        print(f"a copy: {live[0]['objects']} objects of {len(live[1])} types in {live[0]['arenas']} arenas")
        if shutil.which("gcore"):
            subprocess.run(["gcore", "-o", f"{folder}/core", target.pid], check=True, capture_output=True)
            assert read(probe, f"{folder}/core.{target.pid}") == live
            print("a core: the same")
    with Target(1000, PYTHONMALLOC="malloc") as target:
        found = read(probe, target.pid)
        check_objects(found, target.said)
        assert found[0]["arenas"] == 0, found[0]
        print(f"malloc alone: {found[0]['objects']} objects")
    with Target(10, PYTHONMALLOC="debug") as target:
        runtime, classes = read(probe, target.pid)
        assert "PYTHONMALLOC=debug" in runtime["why_not"] and not classes, runtime
        print("refused:", runtime["why_not"])


main()
