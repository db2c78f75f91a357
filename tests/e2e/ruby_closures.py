#!/usr/bin/env python3
"""Who keeps the memory of a Ruby program that holds it in a variable of a closure: ruby_closures.py HEAPSNAP [FOLDER VERSION...]

The closure is in a constant, a hash, a method that define_method has made or a binding; it was called last before, so that the
stack of the interpreter still leads to what it holds. The first row of owners names the constant, and no step of the way
from there may be stale: of the process, a snapshot, and, where there is gcore, a core. A variable of a block that runs on is
its thread's all the same, and what a variable was before it was captured may be left over."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from ruby_target import RubyTarget, rubies

COUNT = 20_000
PROGRAMS = ("constant", "hash", "last", "nested", "many_variables", "method", "binding", "thread_block", "was_captured")


def run(heapsnap, *words):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def check(heapsnap, what, said):
    owners = json.loads(run(heapsnap, "owners", what, "-j", "--depth", "14"))["owners"]
    first = owners[0]
    assert first["root"] == said["name"] and first["kind"] == said["kind"], \
        (said["name"], [(node.get("root"), node.get("kind"), node["retained_bytes"]) for node in owners[:5]])
    # An order, its array, and two strings of more than 100 bytes.
    assert first["retained_bytes"] > COUNT * 300, first
    assert '"Order"' in json.dumps(first), first
    paths = json.loads(run(heapsnap, "why", hex(said["address"]), what, "-j", "--limit", "40"))["paths"]
    path = next((path for path in paths if path["root"] == said["name"]), None)
    assert path, (said["name"], [path["root"] for path in paths])
    is_stale = any(step["may_be_stale"] for step in path["steps"])
    assert is_stale == said["name"].startswith("perhaps"), path
    if said["kind"] == "global":
        types = [step.get("type") for step in path["steps"]]
        assert "Captured variables" in types, types


def check_program(heapsnap, ruby, root, program):
    with tempfile.TemporaryDirectory() as folder, \
            RubyTarget(ruby, root, "ruby_closures_process.rb", program, COUNT) as target:
        path = f"{folder}/a.hsnap"
        run(heapsnap, "attach", target.pid, "-q", "--references", "yes", "-o", path)
        check(heapsnap, path, target.said)
        check(heapsnap, target.pid, target.said)
        if shutil.which("gcore"):
            subprocess.run(["gcore", "-o", f"{folder}/core", target.pid], check=True, capture_output=True)
            check(heapsnap, f"{folder}/core.{target.pid}", target.said)
        print(f"{program}: {target.said['name']}")


def main():
    heapsnap, *words = sys.argv[1:]
    programs = os.environ["PROGRAMS"].split() if "PROGRAMS" in os.environ else PROGRAMS
    for name, ruby, root in rubies(words):
        print(f"Ruby {name}:")
        for program in programs:
            check_program(heapsnap, ruby, root, program)


if __name__ == "__main__":
    main()
