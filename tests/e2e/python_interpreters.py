#!/usr/bin/env python3
"""Objects of all interpreters of a Python process, against what each says of itself:

    python_interpreters.py HEAPSNAP VERSION
    python_interpreters.py HEAPSNAP SUITE ROOTS    of another Debian suite, in a root folder that ROOTS keeps

Two of four have arenas of their own, one has the main one's. Of the process, a snapshot and, where there is gcore, a core."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from python_heap import find_python

HERE = os.path.dirname(os.path.abspath(__file__))
COUNT = 10_000
# What the process itself makes between its counts and its end.
LATER_OBJECTS = 600
LATER_BYTES = 256 << 10
# The second one has its objects in the first one's arenas.
WITH_ARENAS = ("0", "2", "3")


class Target:
    def __init__(self, python):
        self.log = tempfile.TemporaryFile("w+")
        with open(f"{HERE}/python_interpreters_process.py", encoding="utf-8") as script:
            self.process = subprocess.Popen([*python, "-c", script.read(), str(COUNT)], text=True, cwd="/",
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        self.pid = str(self.process.pid)
        self.counts = {}
        self.tracked = 0
        for line in self.process.stdout:
            name, *numbers = line.split()
            if name == "ready":
                self.cache = int(numbers[0])
                break
            self.counts[name] = int(numbers[0])
            self.tracked += int(numbers[1])
        self.log.seek(0)
        said = re.split(r"^== (\d)$", self.log.read(), flags=re.MULTILINE)
        assert len(self.counts) == 4, said[-1][-2000:]
        self.stats = dict(zip(said[1::2], said[2::2]))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.communicate()
        self.log.close()

    def sum_of(self, name):
        """Of the allocators, which several may have in common."""
        return sum(int(re.search(rf"^(?:# )?{name} .*= +([\d,]+)$", self.stats[one], re.MULTILINE)[1].replace(",", ""))
                   for one in WITH_ARENAS)


def run(heapsnap, *words, codes=(0,)):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode in codes, (words, done.stdout, done.stderr)
    return done.stdout


def check_objects(heapsnap, what, target):
    printed = json.loads(run(heapsnap, "objects", what, "-j"))
    runtime, = printed["runtimes"]
    assert (runtime["why_not"], runtime["interpreters"]) == ("", 4), runtime
    assert runtime["damaged_pages"] == runtime["unread_bytes"] == 0, runtime
    counts = {row["type"]: row["count"] for row in printed["objects"]}
    assert {name: counts.get(name) for name in target.counts} == target.counts, counts
    tracked = sum(row["tracked"] for row in printed["objects"])
    assert abs(tracked - target.tracked) <= LATER_OBJECTS, (tracked, target.tracked)
    assert runtime["areas"] == target.sum_of("arenas allocated current"), runtime
    used = target.sum_of("bytes in allocated blocks")
    assert abs(runtime["used_bytes"] - used) <= LATER_BYTES, (runtime["used_bytes"], used)
    return runtime["objects"], counts


def check_owners(heapsnap, what, target):
    owners = json.loads(run(heapsnap, "owners", what, "-j", "--depth", "4", "--limit", "0", "--min-share", "0"))["owners"]
    found = {}
    for node in owners:
        found.setdefault(node["root"], node)
    # Variables of the same name are one owner.
    orders = found["__main__.ORDERS"]
    assert orders["retained_bytes"] > 4 * COUNT * 48, orders
    text = json.dumps(orders)
    assert all(f'"{name}"' in text for name in target.counts), text[:3000]
    cache, = (node for root, node in found.items() if root.startswith("cache in serve() at <"))
    assert cache["kind"] == "local" and cache["tid"] == int(target.pid), cache
    assert cache["retained_bytes"] > COUNT * 48, cache
    paths = json.loads(run(heapsnap, "why", hex(target.cache), what, "-j"))["paths"]
    assert any(path["root"].startswith("cache in serve()") for path in paths), paths


def main():
    heapsnap = sys.argv[1]
    with Target(find_python(sys.argv[2:])) as target, tempfile.TemporaryDirectory() as folder:
        live = check_objects(heapsnap, target.pid, target)
        check_owners(heapsnap, target.pid, target)
        print(f"a process: {live[0]} objects of 4 interpreters")
        snapshot = f"{folder}/a.hsnap"
        run(heapsnap, "attach", target.pid, "-q", "--references", "yes", "-o", snapshot)
        assert check_objects(heapsnap, snapshot, target) == live
        check_owners(heapsnap, snapshot, target)
        print("its snapshot: the same")
        if shutil.which("gcore"):
            core = f"{folder}/core.{target.pid}"
            subprocess.run(["gcore", "-o", f"{folder}/core", target.pid], check=True, capture_output=True)
            assert check_objects(heapsnap, core, target) == live
            check_owners(heapsnap, core, target)
            print("a core: the same")
        target.process.communicate()
        assert target.process.returncode == 0, "the process was harmed"
    return 0


if __name__ == "__main__":
    sys.exit(main())
