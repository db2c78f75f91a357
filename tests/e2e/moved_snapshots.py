#!/usr/bin/env python3
"""What a snapshot says of references is in it: read in a root folder that has heapsnap, the libraries that heapsnap needs,
the snapshots, and nothing of the targets, it says the same, byte for byte.

    moved_snapshots.py HEAPSNAP KNOWN_LEAKS LEAK_HOLDER CONTAINER_HOLDER TYPE_COUNTER TYPE_PLUGIN GROWING_HOLDER

Skipped where this process may not change its root folder."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import reference_sources

SKIPPED = 77
PROGRAM = "/heapsnap"


def make_root(root, heapsnap):
    """With the program, the libraries that it is linked with, and a folder for snapshots."""
    listed = subprocess.run(["ldd", heapsnap], capture_output=True, text=True, check=True).stdout
    libraries = re.findall(r"(/\S+) \(0x", listed)
    assert libraries, listed
    for library in libraries:
        place = root / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    shutil.copy(heapsnap, root / PROGRAM.lstrip("/"))
    (root / "snapshots").mkdir()


class Programs:
    """Targets at work; each is a list of words to start it with."""

    def __init__(self, heapsnap, folder):
        self.heapsnap, self.folder = heapsnap, folder
        self.names = []

    def keep(self, name, taken):
        os.rename(taken, self.folder / name)
        self.names.append(name)

    def take(self, name, *words, core=False, steps=()):
        """Once it is ready; again after each of the steps, as NAME.1 and so on."""
        with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            self.wait(process)
            self.keep(f"{name}.hsnap", reference_sources.take_snapshot(self.heapsnap, process.pid, folder))
            if core and shutil.which("gcore"):
                taken = reference_sources.take_core(process.pid, folder)
                of_core = os.path.join(folder, "core.hsnap")
                subprocess.run([self.heapsnap, "core", taken, "-q", "--references", "yes", "-o", of_core], check=True)
                self.keep(f"{name}.core.hsnap", of_core)
            for step in steps:
                process.stdin.write(f"{step}\n")
                process.stdin.flush()
                self.wait(process)
                self.keep(f"{name}.{step}.hsnap", reference_sources.take_snapshot(self.heapsnap, process.pid, folder))
            process.stdin.close()

    @staticmethod
    def wait(process):
        for line in process.stdout:
            if line.strip() == "ready":
                return
        raise AssertionError("the program has ended")


class Answers:
    """What heapsnap prints, here and in the other root folder."""

    def __init__(self, heapsnap, root):
        self.heapsnap, self.root = heapsnap, root
        self.count = 0

    def __call__(self, *words):
        here, there = (subprocess.run(argv, cwd=cwd, preexec_fn=prepare, capture_output=True, text=True)
                       for argv, cwd, prepare in (([self.heapsnap, *words], self.root / "snapshots", None),
                                                  ([PROGRAM, *words], None, self.move)))
        assert here.returncode in (0, 1) and here.stdout, (words, here.returncode, here.stderr)
        assert (there.returncode, there.stderr) == (here.returncode, here.stderr), (words, there.returncode, there.stderr)
        assert there.stdout == here.stdout, (words, here.stdout[:3000], there.stdout[:3000])
        self.count += 1
        return here.stdout

    def move(self):
        os.chroot(self.root)
        os.chdir("/snapshots")


def check(answers, names):
    for name in names:
        leaks = json.loads(answers("leaks", name, "-j", "--all"))
        owners = json.loads(answers("owners", name, "-j", "--depth", "20", "--min-share", "0"))
        types = json.loads(answers("types", name, "-j"))
        answers("owners", name, "-j", "--by", "type")
        answers("report", name, "-j")
        for command in ("leaks", "owners", "types", "report"):
            answers(command, name, "--color", "never")
        assert owners["owners"] and types["types"], name
        for block in leaks["leaks"][:5]:
            answers("why", block["addr"], name, "-j")
        # One that is held by something: where a thread's stack begins is known to be one.
        assert all(step["addr"] for step in held_path(answers, name)), name
    return answers.count


def held_path(answers, name):
    """Of the largest block in use, where something holds it."""
    largest = json.loads(answers("report", name, "-j"))["largest_used"]
    for block in largest:
        held = json.loads(answers("why", block["addr"], name, "-j"))
        if held["paths"]:
            return held["paths"][0]["steps"]
    raise AssertionError((name, "nothing holds any of the largest blocks", largest))


def main():
    heapsnap, leaks, leak_holder, containers, counter, plugin, growing = sys.argv[1:]
    if os.geteuid() != 0:
        print("skipped: chroot(2) takes root")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        make_root(root, heapsnap)
        programs = Programs(heapsnap, root / "snapshots")
        programs.take("leaks", leaks, leak_holder, core=True)
        programs.take("containers", containers, core=True)
        programs.take("types", counter, plugin)
        names = list(programs.names)
        programs.take("growing", growing, "0", steps=(1, 2))
        answers = Answers(heapsnap, root)
        check(answers, names)
        grown = programs.names[len(names):]
        assert json.loads(answers("diff", *grown, "-j"))["same_process"]
        answers("diff", *grown, "--color", "never")
    print(f"{answers.count} answers are the same for {len(programs.names)} snapshots")
    return 0


if __name__ == "__main__":
    sys.exit(main())
