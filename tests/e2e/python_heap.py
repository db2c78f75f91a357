#!/usr/bin/env python3
"""`heapsnap objects` against what Python says of itself:

    python_heap.py HEAPSNAP                  of Debian's python3.11
    python_heap.py HEAPSNAP VERSION          of another one: of pyenv, or on the path; of an old one that it is refused
    python_heap.py HEAPSNAP SUITE ROOTS      of the one of another Debian suite, in a root folder that ROOTS keeps

With Python's own pools and with malloc for everything; of the process, of a snapshot and, where there is gcore, of a
core; that the rows of the report are the arenas, and what is refused."""

import ast
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import distribution_root

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3.11"  # of this Debian
# What the process itself makes between its count and its end: the count's own lists and strings.
LATER_OBJECTS = 300
LATER_BYTES = 64 << 10


class Target:
    def __init__(self, python, count, **environment):
        self.log = tempfile.TemporaryFile("w+")
        with open(f"{HERE}/python_process.py", encoding="utf-8") as script:
            self.process = subprocess.Popen([*python, "-c", script.read(), str(count)], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                            env={**os.environ, **environment})
        self.said = ast.literal_eval(self.process.stdout.readline())
        assert self.process.stdout.readline() == "ready\n"
        self.log.seek(0)
        self.stats = self.log.read()
        self.pid = str(self.process.pid)

    def grow(self):
        self.process.stdin.write("more\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "more\n"

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


class Found:
    """What `heapsnap objects -j` prints."""

    def __init__(self, heapsnap, what):
        done = subprocess.run([heapsnap, "objects", what, "-j"], capture_output=True, text=True)
        assert done.returncode == 0, (what, done.returncode, done.stderr)
        printed = json.loads(done.stdout)
        self.runtime, = printed["runtimes"]
        self.pages = printed["pages"]
        self.classes = {row["type"]: row for row in printed["objects"]}
        assert len(self.classes) == len(printed["objects"])
        # Only a snapshot with references has it.
        self.retained = {name: row.pop("retained_bytes", None) for name, row in self.classes.items()}
        assert all(row["runtime"] == "python" for row in printed["objects"] + printed["pages"])


def about(ours, said, slack, what):
    assert abs(ours - said) <= slack, (what, ours, said)


def check_objects(found, said):
    runtime = found.runtime
    # Before 3.11 only the file's name says which it is.
    major, minor = map(int, said["version"].split(".")[:2])
    version = said["version"] if minor > 10 else f"{major}.{minor}"
    assert runtime["version"] == version and runtime["why_not"] == "", runtime
    assert runtime["interpreters"] == 1 and runtime["damaged_pages"] == runtime["unread_bytes"] == 0, runtime
    assert sum(row["count"] for row in found.classes.values()) == runtime["objects"]
    for name, (count, size) in said["counts"].items():
        row = found.classes[name]
        assert row["count"] == count, (name, row, count)
        # sys.getsizeof() takes instances of classes that are derived from str and int for those of their bases,
        # and leaves out the array of an instance's attributes, or counts the least of it.
        if name in ("Name", "Whole"):
            continue
        has_array = name in ("Order", "depot.models.Order", "Derived") or name.startswith("Made")
        if minor >= 14 and name in ("Table", "Row", "Numbers", "Buffer", "Samples", "Queue"):
            # All that have no items have such an array, which __sizeof__ of the built-in types leaves out.
            assert size < row["bytes"] + row["owned_bytes"] <= size + (31 * 8 + 32) * count, (name, row, size)
        elif not has_array:
            assert row["bytes"] + row["owned_bytes"] == size, (name, row, size)
        elif minor < 13:
            assert row["bytes"] == size, (name, row, size)
        else:
            # They are behind the instance: 30 at most, the order in which they came, and how many there are.
            assert size + 3 * 8 * count < row["bytes"] <= size + (31 * 8 + 32) * count, (name, row, size)
            assert row["owned_bytes"] == 0, (name, row, size)
    # The figures add up, and what is left over is rounding up, and buffers of no one object.
    in_slots = sum(row["bytes"] + row["owned_bytes"] - row["malloc_bytes"] for row in found.classes.values())
    assert in_slots + runtime["slot_rest_bytes"] == runtime["used_bytes"], (in_slots, runtime)
    used_slots = sum(row["used_slots"] for row in found.pages)
    assert runtime["slot_rest_bytes"] <= 15 * used_slots + runtime["other_slot_bytes"], (used_slots, runtime)
    # Types call themselves "weakref.ReferenceType"; __name__ is the last word.
    tracked = {}
    for name, row in found.classes.items():
        tracked[name.split(".")[-1]] = tracked.get(name.split(".")[-1], 0) + row["tracked"]
    for name, count in said["tracked"].items():
        slack = 0 if name in said["counts"] else LATER_OBJECTS
        about(tracked.get(name, 0), count, slack, name)


def check_pools(found, target):
    runtime = found.runtime
    assert runtime["areas"] == target.bytes_of("arenas allocated current")
    about(runtime["used_bytes"], target.bytes_of("bytes in allocated blocks"), LATER_BYTES, "used")
    about(runtime["free_bytes"], target.bytes_of("bytes in available blocks"), LATER_BYTES, "free")
    about(runtime["free_page_bytes"], target.bytes_of("unused pools * "), LATER_BYTES, "free pools")
    about(runtime["overhead_bytes"],
          target.bytes_of("bytes lost to pool headers") + target.bytes_of("bytes lost to quantization"),
          LATER_BYTES, "overhead")
    assert runtime["alignment_bytes"] == target.bytes_of("bytes lost to arena alignment")
    parts = ("used_bytes", "free_bytes", "overhead_bytes", "free_page_bytes", "alignment_bytes")
    assert sum(runtime[part] for part in parts) == runtime["area_bytes"], runtime
    assert sum(row["used_slots"] * row["slot_bytes"] for row in found.pages) == runtime["used_bytes"]
    assert sum(row["free_slots"] * row["slot_bytes"] for row in found.pages) == runtime["free_bytes"]


def check_report(heapsnap, snapshot, runtime):
    """The rows are all of the arenas that is resident, and with the others all of the resident memory."""
    report = json.loads(subprocess.run([heapsnap, "report", snapshot, "-j"], capture_output=True, text=True,
                                       check=True).stdout)
    rss = report["rss"]
    assert report["runtimes"] == [runtime], report["runtimes"]
    rows = {name: row["resident"] for name, row in rss["rows"].items()}
    assert sum(rows.values()) == rss["resident"], rss
    about(rss["resident"], rss["process_rss"], rss["process_rss"] // 100, "resident")
    arenas = rows["python_objects"] + rows["python_pools"] + rows["python_arenas"]
    # Of the arenas, only what was never touched is not resident.
    assert runtime["used_bytes"] * 0.98 <= rows["python_objects"] <= runtime["used_bytes"], rows
    assert arenas <= runtime["area_bytes"], rows
    assert rows["other_anonymous"] < (1 << 20) + arenas // 50, rows
    assert report["next_step"]["commands"] == [f"heapsnap objects {snapshot}"], report["next_step"]
    return rows


def check_growth(heapsnap, target, snapshot, found, folder):
    """What the process makes next, by class; and that what is shared says the same."""
    target.grow()
    later = f"{folder}/later.hsnap"
    subprocess.run([heapsnap, "attach", target.pid, "-q", "-o", later], check=True)
    diff = json.loads(subprocess.run([heapsnap, "diff", snapshot, later, "--by", "class", "-j"], capture_output=True,
                                     text=True, check=True).stdout)
    rows = {row["name"]: row for row in diff["sections"][0]["rows"]}
    assert rows["Order"]["blocks"] == [found.classes["Order"]["count"], found.classes["Order"]["count"] + 1000], rows
    text = subprocess.run([heapsnap, "diff", snapshot, later], capture_output=True, text=True, check=True).stdout
    assert re.search(r"^Growth by class of a language runtime's objects$", text, re.MULTILINE), text
    assert re.search(r"^ +Order .*\+1,000$", text, re.MULTILINE), text
    shared = f"{folder}/shared.hsnap"
    subprocess.run([heapsnap, "share", snapshot, "-o", shared], check=True, capture_output=True)
    of_shared = Found(heapsnap, shared)
    assert (of_shared.classes, of_shared.pages) == (found.classes, found.pages)
    subprocess.run([heapsnap, "share", snapshot, "-f", "--no-names", "-o", shared], check=True, capture_output=True)
    assert "Order" not in Found(heapsnap, shared).classes


def check_text(heapsnap, snapshot, found):
    text = subprocess.run([heapsnap, "objects", snapshot, "--limit", "3", "--sort", "count", "--width", "60"],
                          capture_output=True, text=True, check=True).stdout
    most = sorted(found.classes.values(), key=lambda row: -row["count"])[:3]
    shown = re.findall(r"^ .* ([\d,]+) +[\d.]+ [KMG]?i?B +(?:[\d.]+ [KMG]?i?B +)?(\S+)$", text, re.MULTILINE)
    assert [(int(count.replace(",", "")), name) for count, name in shown] == \
        [(row["count"], row["type"]) for row in most], (shown, text)
    assert " by rounding up to multiples of 16 bytes" in " ".join(text.split()), text
    assert f"{len(found.classes) - 3:,} more classes" in text and "--limit 0" in text, text
    assert max(map(len, text.splitlines())) <= 60, text


def check_refusals(heapsnap, python, folder):
    with Target(python, 10, PYTHONMALLOC="debug") as target:
        done = subprocess.run([heapsnap, "objects", target.pid], capture_output=True, text=True)
        assert done.returncode == 5 and "PYTHONMALLOC=debug" in done.stderr, done
        snapshot = f"{folder}/debug.hsnap"
        screen = subprocess.run([heapsnap, "attach", target.pid, "-o", snapshot], capture_output=True, text=True,
                                check=True).stdout
        assert "the heap of Python was not read: none of its blocks" in " ".join(screen.split()), screen
        for arguments, why in ((["--runtimes", "no"], "the snapshot was taken with --runtimes no"),
                               (["--freeze", "stop"], "would have been stopped for longer")):
            subprocess.run([heapsnap, "attach", target.pid, "-q", "-f", "-o", snapshot, *arguments], check=True)
            done = subprocess.run([heapsnap, "objects", snapshot], capture_output=True, text=True)
            assert done.returncode == 5 and why in " ".join(done.stderr.split()), done


def find_python(arguments):
    """The command that runs it."""
    if len(arguments) == 2:
        suite, roots = arguments
        return ["chroot", distribution_root.make(pathlib.Path(roots), suite), "/usr/bin/python3"]
    if not arguments:
        found = glob.glob(PYTHON)
    else:
        name = f"python{arguments[0]}"
        found = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{arguments[0]}.*/bin/{name}")))
        found += filter(None, [shutil.which(name)])
    if not found:
        print(f"there is no Python {arguments[0] if arguments else 3.11} here")
        sys.exit(77)
    return found[:1]


def check_tracked(heapsnap, python):
    """That its small objects have no stack is said, with what gives them one."""
    script = ("import os; print(os.getpid(), flush=True); input(); kept = [object() for _ in range(50000)]; "
              "print('made', flush=True); input()")
    # Of another root folder, the dynamic loader finds no tracker that is in this one.
    is_apart = python[0] == "chroot"
    begin = [] if is_apart else [heapsnap, "run", "--"]
    tracked = {}
    for allocator in ("pymalloc", "malloc"):
        with subprocess.Popen([*begin, *python, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=dict(os.environ, PYTHONMALLOC=allocator)) as process:
            pid = process.stdout.readline().strip()
            if is_apart:
                subprocess.run([heapsnap, "inject", pid], check=True, capture_output=True)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "made\n"
            screen = subprocess.run([heapsnap, "stacks", pid], capture_output=True, text=True, check=True).stdout
            rows = subprocess.run([heapsnap, "stacks", pid, "-j"], capture_output=True, text=True, check=True).stdout
            process.communicate("\n")
        assert "no stack is known, unless it was started with PYTHONMALLOC=malloc" in " ".join(screen.split()), screen
        tracked[allocator] = json.loads(rows)["live_blocks"]
    assert tracked["malloc"] >= tracked["pymalloc"] + 50000, tracked
    print("tracked:", tracked)


def check_unknown(heapsnap, python, version):
    """One that is too old is named, and refused."""
    with subprocess.Popen([*python, "-c", "import sys; print('ready'); sys.stdout.flush(); sys.stdin.read()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        done = subprocess.run([heapsnap, "objects", str(process.pid)], capture_output=True, text=True)
        process.stdin.close()
    words = " ".join(done.stderr.split())
    assert done.returncode == 5 and f"has no objects of Python {version}" in words, done
    assert f"heapsnap does not know how Python {version} lays out its memory" in words, done
    print(done.stderr)


def main():
    heapsnap, *arguments = sys.argv[1:]
    python = find_python(arguments)
    if arguments[:1] in (["2.7"], ["3.6"], ["3.8"]):
        check_unknown(heapsnap, python, arguments[0])
        return
    rounds = 4000 if os.environ.get("HEAPSNAP_LONG") == "1" else 1000
    with Target(python, rounds) as target, tempfile.TemporaryDirectory() as folder:
        live = Found(heapsnap, target.pid)
        check_objects(live, target.said)
        check_pools(live, target)
        print(f"a process: {live.runtime['objects']} objects of {len(live.classes)} types in "
              f"{live.runtime['areas']} arenas")
        snapshot = f"{folder}/a.hsnap"
        subprocess.run([heapsnap, "attach", target.pid, "-q", "-o", snapshot], check=True)
        found = Found(heapsnap, snapshot)
        assert (found.runtime, found.classes, found.pages) == (live.runtime, live.classes, live.pages)
        print("its snapshot: the same; rows", check_report(heapsnap, snapshot, live.runtime))
        check_text(heapsnap, snapshot, live)
        subprocess.run([heapsnap, "attach", target.pid, "-q", "--freeze", "stop", "--runtimes", "yes", "-f", "-o",
                        snapshot], check=True)
        assert Found(heapsnap, snapshot).classes == live.classes
        print("read while it was stopped: the same")
        if shutil.which("gcore"):
            core = f"{folder}/core.{target.pid}"
            subprocess.run(["gcore", "-o", f"{folder}/core", target.pid], check=True, capture_output=True)
            assert Found(heapsnap, core).classes == live.classes
            subprocess.run([heapsnap, "core", core, "-q", "-f", "-o", snapshot], check=True)
            of_core = Found(heapsnap, snapshot)
            assert (of_core.runtime, of_core.classes) == (live.runtime, live.classes)
            print("a core: the same")
        subprocess.run([heapsnap, "attach", target.pid, "-q", "-f", "-o", snapshot], check=True)
        check_growth(heapsnap, target, snapshot, live, folder)
        print("grown by 1,000 of a class, and shared without names")
    with Target(python, 1000, PYTHONMALLOC="malloc") as target:
        found = Found(heapsnap, target.pid)
        check_objects(found, target.said)
        assert found.runtime["areas"] == 0, found.runtime
        print(f"malloc alone: {found.runtime['objects']} objects")
    with tempfile.TemporaryDirectory() as folder:
        check_refusals(heapsnap, python, folder)
    check_tracked(heapsnap, python)
    print("refused in words: PYTHONMALLOC=debug, what was not asked for, what would have held it")


if __name__ == "__main__":
    main()
