#!/usr/bin/env python3
"""Injects into a process on another suite's C library whose threads allocate all the time, and ejects.

    inject_glibc.py --heapsnap PROGRAM --targets FOLDER --roots FOLDER --suite NAME [--compiler CC] [--lone]
                    [--rounds N]

The process is the truth target (tests/targets/truth_target.c), which knows its own blocks, in a chroot with the
suite's libc6. What is checked: the stacks of what it allocates meanwhile, its heap before and after, its code
before and after, and that it finds each of its blocks undamaged in the end. Exit code 77: skipped, with the reason.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

import truth_process
from tracked_process import output_of
from truth_heap import Export, compare
from truth_process import RunningTarget, Skip, TargetChoice

SOME_ALLOCATIONS = 5000
PATIENCE = 60


class Injections:
    def __init__(self, heapsnap, target, work):
        self.heapsnap, self.target, self.work = heapsnap, target, work
        self.snapshots = []

    def run(self, *words):
        return output_of([self.heapsnap, *words])

    def code(self):
        """Bytes of what is mapped executable from files, but for the tracker."""
        found = {}
        with open(f"/proc/{self.target.pid}/mem", "rb", buffering=0) as memory:
            for line in self.target.maps().splitlines():
                words = line.split()
                if "x" not in words[1] or len(words) < 6 or not words[5].startswith("/") or "heapsnap" in words[5]:
                    continue
                begin, end = (int(word, 16) for word in words[0].split("-"))
                memory.seek(begin)
                found[begin] = memory.read(end - begin)
        return found

    def stacks(self):
        """Of the live blocks, when enough was recorded."""
        deadline = time.monotonic() + PATIENCE
        while True:
            listing = json.loads(self.run("stacks", self.target.pid, "-j", "--all"))
            if sum(stack["allocations"] for stack in listing["stacks"]) >= SOME_ALLOCATIONS:
                return listing
            assert time.monotonic() < deadline, f"hardly anything was recorded: {listing['tracker']}"

    def check_stacks(self, listing):
        churn = 0
        for stack in listing["stacks"]:
            functions = [frame.get("function", "") for frame in stack["frames"]]
            if "churn_once" in functions:
                churn += 1
                assert stack["end"] == "complete", stack
                assert {"run_worker", "main"} & set(functions), functions
                # Entered by way of the allocator's own function, so the innermost is who called that.
                assert functions[0] == "churn_once", functions
        assert churn >= 2, listing["stacks"]  # malloc and realloc
        assert not listing["tracker"]["limits"] and listing["tracker"]["dropped_blocks"] == 0, listing["tracker"]

    def take_heap(self):
        path = self.work / f"heap{len(self.snapshots)}.hsnap"
        self.run("attach", self.target.pid, "-q", "--freeze", "fork", "--literal-name", "-o", path)
        self.snapshots.append(path)

    def check_heaps(self):
        """When the target, which takes all processor time it can get, has ended."""
        for path in self.snapshots:
            export = Export(self.run("export", "--format", "ndjson", path))
            lines = list(compare(self.target.truth, export, True).lines())
            assert not lines, f"{path.name}:\n" + "\n".join(lines)

    def once(self, code):
        print(self.run("inject", self.target.pid), end="")
        listing = self.stacks()
        self.take_heap()
        assert self.code() != code, "nothing is hooked"
        print(self.run("eject", self.target.pid), end="")
        assert self.code() == code, "code is not as it was"
        self.take_heap()
        self.check_stacks(listing)


def survive(arguments, choice, work):
    with RunningTarget(choice, work, "plain", 1, {}, churn=True, lone=arguments.lone) as target:
        injections = Injections(arguments.heapsnap, target, work)
        code = injections.code()
        for _ in range(arguments.rounds):
            injections.once(code)
        code = target.end()
        assert code == 0, f"the target ended with {code}"
        injections.check_heaps()
    if choice.root:
        print("libc6", (choice.root / "glibc-version").read_text().strip())


def main():
    parser = argparse.ArgumentParser()
    for name in ("--heapsnap", "--targets", "--roots"):
        parser.add_argument(name, required=True, type=pathlib.Path)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lone", action="store_true", help="the process has one thread only")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("skipped: a chroot into the suite's files needs root")
        return truth_process.SKIPPED
    with tempfile.TemporaryDirectory(prefix="heapsnap-inject.") as folder:
        work = pathlib.Path(folder)
        try:
            choice = TargetChoice(arguments.suite, arguments.targets.resolve(), arguments.roots.resolve(),
                                  arguments.compiler, work)
        except Skip as reason:
            print(f"skipped: {reason}")
            return truth_process.SKIPPED
        try:
            survive(arguments, choice, work)
        finally:
            choice.clean_up()
    return 0


if __name__ == "__main__":
    sys.exit(main())
