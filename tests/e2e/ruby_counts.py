#!/usr/bin/env python3
"""heapsnap objects --count-objects against what Ruby counts itself: ruby_counts.py HEAPSNAP [FOLDER VERSION...]

Of a process, a snapshot and, where there is gcore, a core: slots, objects by built-in type (ObjectSpace.count_objects)
and by class, of the namespaces that were asked for."""

import json
import shutil
import subprocess
import sys
import tempfile

from ruby_target import RubyTarget, rubies

COUNT = 1000
# What the process itself makes between its count and its end: what it takes to fork and to print.
LATER_OBJECTS = 200


def run(heapsnap, *words, code=0):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def count(heapsnap, what, *names):
    options = [word for name in names for word in ("--count-objects", name)]
    return json.loads(run(heapsnap, "objects", *options, what))


def check_counts(counts, said):
    assert list(counts) == ["total_slots", "free_slots", "basic_types", "user_types"], counts
    objects = dict(said["objects"])
    assert counts["total_slots"] == objects.pop("TOTAL"), (counts, said["objects"])
    assert abs(counts["free_slots"] - objects.pop("FREE")) <= LATER_OBJECTS, (counts, said["objects"])
    assert sum(counts["basic_types"].values()) + counts["free_slots"] == counts["total_slots"], counts
    assert counts["basic_types"].keys() == {name for name, number in objects.items() if number}, (counts, objects)
    for name, number in counts["basic_types"].items():
        assert abs(number - objects[name]) <= LATER_OBJECTS, (name, number, objects[name])
    # Of these it makes none meanwhile.
    for name in ("T_STRUCT", "T_FLOAT", "T_BIGNUM", "T_RATIONAL", "T_COMPLEX", "T_MATCH"):
        assert counts["basic_types"][name] == objects[name], (name, counts, objects)


def check_classes(heapsnap, what, said):
    counts = count(heapsnap, what, "Space,Order", "Kept")
    check_counts(counts, said)
    expected = {name: number for name, number in said["classes"].items()
                if name in ("Space", "Order", "Kept") or name.startswith(("Space::", "Order::", "Kept::"))}
    assert counts["user_types"] == expected and {"Space::Inner", "Space::Outer::Deep"} <= expected.keys(), (counts, expected)
    assert count(heapsnap, what, "Spac")["user_types"] == {}


def check(heapsnap, name, ruby, root):
    with RubyTarget(ruby, root, "ruby_process.rb", COUNT) as target, tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a.hsnap"
        run(heapsnap, "attach", target.pid, "-q", "-o", path)
        check_classes(heapsnap, path, target.said)
        check_classes(heapsnap, target.pid, target.said)
        if shutil.which("gcore"):
            subprocess.run(["gcore", "-o", f"{folder}/core", target.pid], check=True, capture_output=True)
            check_classes(heapsnap, f"{folder}/core.{target.pid}", target.said)
        print(f"Ruby {name}: {target.said['objects']['TOTAL']} slots, {len(target.said['objects']) - 2} types")


def check_refusal(heapsnap):
    with subprocess.Popen([sys.executable, "-c", "print('ready', flush=True); input()"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        said = run(heapsnap, "objects", "--count-objects", "Order", str(process.pid), code=5)
        assert "has no objects of Ruby" in said, said
        said = run(heapsnap, "objects", "--count-objects", ",", str(process.pid), code=2)
        assert "it names no class" in said, said
        process.communicate("\n")


def main():
    heapsnap, *words = sys.argv[1:]
    for name, ruby, root in rubies(words):
        check(heapsnap, name, ruby, root)
    check_refusal(heapsnap)


if __name__ == "__main__":
    main()
