#!/usr/bin/env python3
"""lib/runtime against what Ruby says of itself: ruby_heap.py PROBE [FOLDER VERSION...]

Of Debian's ruby of this system, in a copy of the process and, where there is gcore, in a core; then while four
threads make garbage, stop for stop. With a FOLDER the Rubies of other suites are unpacked there, and run
in a chroot."""

import os
import shutil
import subprocess
import sys
import tempfile

from ruby_target import RubyTarget, rubies

HERE = os.path.dirname(os.path.abspath(__file__))
# What the process itself makes between its count and its end: what it takes to fork and to print.
LATER_OBJECTS = 200
COUNT = 3000
STOPS = 300 if os.environ.get("HEAPSNAP_LONG") else 25


class Heap:
    """What the probe prints."""

    def __init__(self, probe, what):
        done = subprocess.run([probe, what], capture_output=True, text=True)
        assert done.returncode == 0, (what, done.returncode, done.stderr)
        self.text = done.stdout
        self.runtime, self.classes, self.types, self.slots, self.areas = {}, {}, {}, [], []
        for line in done.stdout.splitlines():
            word, _, rest = line.partition(" ")
            if word == "class":
                *numbers, name = rest.split(" ", 5)
                assert name not in self.classes, line
                self.classes[name] = [int(number) for number in numbers]
            elif word == "type":
                *numbers, name = rest.split(" ", 5)
                self.types[tuple(name.split(" ", 1))] = [int(number) for number in numbers]
            elif word == "slots":
                self.slots.append([int(number) for number in rest.split()])
            elif word == "area":
                self.areas.append(rest.split())
            else:
                self.runtime[word] = int(rest) if rest.isdigit() else rest

    def count(self, name):
        return self.classes.get(name, [0])[0]

    def count_type(self, name):
        """As ObjectSpace.count_objects: with dead ones."""
        return sum(row[0] + row[1] for key, row in self.types.items() if key[0] == name)


def about(ours, said, what, slack=LATER_OBJECTS):
    assert said <= ours + slack and ours <= said + slack, (what, ours, said)


def check_sums(heap):
    """What holds whatever the process does."""
    one = heap.runtime
    assert one["why_not"] == "" and one["interpreters"] == 1, one
    parts = ("used", "free", "overhead", "free_pages", "alignment", "unread")
    assert sum(one[part] for part in parts) == one["area_bytes"], one
    assert sum(row[0] for row in heap.classes.values()) == one["objects"], one
    assert sum(row[0] for row in heap.types.values()) == one["objects"], one
    assert sum(row[1] for row in heap.types.values()) == one["unswept_slots"], one
    assert sum(used for _, _, used, _, _ in heap.slots) == one["objects"] + one["unswept_slots"], one
    assert sum(size * used for size, _, used, _, _ in heap.slots) == one["used"], one
    assert one["other_slots"] == one["unread"] == 0, one
    ends = [[int(word, 16) for word in area[:2]] for area in heap.areas]
    assert all(before[1] <= after[0] for before, after in zip(ends, ends[1:])), "areas overlap"
    assert sum(end - begin for begin, end in ends) == one["area_bytes"], one


def check_counts(heap, said):
    one = heap.runtime
    assert one["version"] == said["version"] and one["damaged_pages"] == 0, one
    assert one["collector"] == "" and one["unswept_slots"] == 0, one
    assert sum(pages for _, pages, _, _, _ in heap.slots) == said["pages"], (heap.slots, said["pages"])
    objects = said["objects"]
    slots = sum(used + free for _, _, used, free, _ in heap.slots)
    assert slots == objects["TOTAL"], (slots, objects["TOTAL"])
    about(sum(free for _, _, _, free, _ in heap.slots), objects["FREE"], "FREE")
    for name, count in objects.items():
        if name not in ("TOTAL", "FREE"):
            about(heap.count_type(name.removeprefix("T_")), count, name)
    for name, count in said["classes"].items():
        # Of classes, the process leaves out the singleton ones.
        if name == "Class":
            assert heap.count(name) >= count, (heap.count(name), count)
        else:
            about(heap.count(name), count, name, 0 if name in said["sizes"] or name.startswith("#") else LATER_OBJECTS)
    known = [name for name in heap.classes if not name.startswith("(")]
    for name in known:
        about(heap.count(name), said["classes"].get(name, 0), name, 400 if name == "Class" else LATER_OBJECTS)
    for name, size in said["sizes"].items():
        _, _, own, owned, _ = heap.classes[name]
        assert own + owned == size, (name, own, owned, size)
    for name, count in said["imemo"].items():
        # It counts itself while these go and come.
        if name in ("imemo_env", "imemo_iseq", "imemo_cref"):
            about(heap.types[("IMEMO", name.removeprefix("imemo_"))][0], count, name)
    for name, part in (("Proc", "proc"), ("Thread::Mutex", "mutex"), ("Thread", "VM/thread")):
        ours, _, _, owned, in_malloc = heap.types[("DATA", part)]
        about(ours, said["data"][name], name)
        assert owned == in_malloc and owned >= 8 * ours, (part, ours, owned, in_malloc)


def check_churn(probe, target):
    collectors, dead = {}, 0
    for _ in range(STOPS):
        heap = Heap(probe, target.pid)
        check_sums(heap)
        assert heap.count("Kept") == COUNT, heap.text[:2000]
        assert heap.classes["Kept"][2] == COUNT * 40, heap.classes["Kept"]
        assert heap.runtime["damaged_pages"] <= 1, heap.runtime
        state = heap.runtime["collector"] or "at rest"
        collectors[state] = collectors.get(state, 0) + 1
        dead += heap.runtime["unswept_slots"] != 0
    states = ", ".join(f"{count} {state}" for state, count in sorted(collectors.items()))
    print(f"stopped {STOPS} times, the collector {states}; {dead} times with dead objects that were not swept")


def check(probe, ruby, root):
    with RubyTarget(ruby, root, "ruby_process.rb", COUNT) as target, tempfile.TemporaryDirectory() as folder:
        heap = Heap(probe, target.pid)
        check_sums(heap)
        check_counts(heap, target.said)
        print(f"Ruby {heap.runtime['version']}: {heap.runtime['objects']} objects of {len(heap.classes)} classes in "
              f"{target.said['pages']} pages")
        if shutil.which("gcore"):
            subprocess.run(["gcore", "-o", f"{folder}/core", target.pid], check=True, capture_output=True)
            assert Heap(probe, f"{folder}/core.{target.pid}").text == heap.text
            print("a core: the same")
    with RubyTarget(ruby, root, "ruby_process.rb", COUNT, "churn") as target:
        check_churn(probe, target)


def main():
    probe, *words = sys.argv[1:]
    for _, ruby, root in rubies(words):
        check(probe, ruby, root)


main()
