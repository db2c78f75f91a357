#!/usr/bin/env python3
"""Who keeps the memory of a Ruby program that holds it in local variables: ruby_locals.py HEAPSNAP [FOLDER VERSION...]

Each program keeps what it has made in one variable: of the main program, a method, a block, a thread, a fiber, in an
argument that is passed down, in one that a block has kept, in the object whose method runs, in Thread.current. The first row of owners
names that, with the method, file and line, and why begins there: of the process, a snapshot, and, where there is
gcore, a core."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from ruby_target import RubyTarget, rubies

COUNT = 20_000
PROGRAMS = ("main", "method_local", "block_local", "argument", "captured", "beside_thread", "thread_local", "fiber_local",
            "self", "many_lines", "kept_by_thread", "kept_by_worker")


def run(heapsnap, *words):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def check(heapsnap, what, said, tid):
    owners = json.loads(run(heapsnap, "owners", what, "-j", "--depth", "6"))["owners"]
    first = owners[0]
    assert first["root"] == said["name"] and first["kind"] == "local", \
        (said["name"], [(node["root"], node["kind"], node["retained_bytes"]) for node in owners[:5]])
    assert first["tid"] == tid, (first["tid"], tid)
    # An order, its array, and two strings of more than 100 bytes.
    assert first["retained_bytes"] > COUNT * 300, first
    assert '"Order"' in json.dumps(first), first
    others = [node for node in owners[1:] if node["kind"] == "local" and node["retained_bytes"] > 200_000]
    assert not others, [(node["root"], node["retained_bytes"]) for node in others]
    paths = json.loads(run(heapsnap, "why", hex(said["address"]), what, "-j", "--limit", "20"))["paths"]
    # A fiber that waits has a stack for functions in C, too, with what is left over there.
    locals_only = [path for path in paths if path["kind"] == "local" or "fiber_local" not in said["name"]]
    assert locals_only[0]["root"] == said["name"], paths


def check_program(heapsnap, ruby, root, program):
    with tempfile.TemporaryDirectory() as folder, RubyTarget(ruby, root, "ruby_locals_process.rb", program, COUNT) as target:
        pid, said = target.pid, target.said
        tid = int(pid)
        if program in ("thread_local", "kept_by_worker"):
            tid, = (int(one) for one in os.listdir(f"/proc/{pid}/task")
                    if open(f"/proc/{pid}/task/{one}/comm", encoding="utf-8").read() == "worker\n")
        path = f"{folder}/a.hsnap"
        run(heapsnap, "attach", pid, "-q", "--references", "yes", "-o", path)
        check(heapsnap, path, said, tid)
        check(heapsnap, pid, said, tid)
        # gcore leaves out mappings with guard regions (Linux 6.13), where Ruby 3.4 has the stacks of its fibers.
        with open(f"/proc/{pid}/smaps", encoding="utf-8") as file:
            has_guards = program == "fiber_local" and " gu " in file.read()
        if shutil.which("gcore") and not has_guards:
            subprocess.run(["gcore", "-o", f"{folder}/core", pid], check=True, capture_output=True)
            check(heapsnap, f"{folder}/core.{pid}", said, tid)
        print(f"{program}: {said['name']}")


def main():
    heapsnap, *words = sys.argv[1:]
    for name, ruby, root in rubies(words):
        print(f"Ruby {name}:")
        for program in PROGRAMS:
            check_program(heapsnap, ruby, root, program)


if __name__ == "__main__":
    main()
