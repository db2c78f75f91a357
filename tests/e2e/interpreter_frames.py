#!/usr/bin/env python3
"""Frames of Python's functions in call stacks, against what Python itself says of them:

    interpreter_frames.py HEAPSNAP                  of Debian's python3.11
    interpreter_frames.py HEAPSNAP VERSION          of another one: of pyenv, or on the path
    interpreter_frames.py HEAPSNAP SUITE ROOTS      of the one of another Debian suite

By inject and by run, with samples and of every allocation; of the process, of a child that it forked and of a snapshot;
after its code was deleted; ejected and injected again, and after a heapsnap that was killed."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from python_heap import find_python

HERE = pathlib.Path(__file__).parent
PROCESS = HERE / "interpreter_frames_process.py"
HEADER = 33  # of a bytes object
LOOP = "_PyEval_EvalFrameDefault"


class Program:
    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.blocks = {}
        self.pid = self.until_ready()

    def until_ready(self):
        for line in self.process.stdout:
            said = json.loads(line)
            if "ready" in said:
                return str(said["ready"])
            self.blocks[said["size"]] = [tuple(frame) for frame in said["stack"]]
        raise AssertionError(f"it ended: {self.process.wait()}")

    def call(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.until_ready()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        self.process.stdout.read()
        code = self.process.wait(timeout=60)
        if error == (None, None, None):
            assert code == 0, code


def python_program(python, *before):
    """It runs below `before`, which leads to it."""
    # -P: modules of this folder are called like some of Python's.
    return Program(*before, *python, "-P", "-c", PROCESS.read_text(encoding="utf-8"))


def output_of(*argv, code=0):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == code, (argv, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout if code == 0 else done.stderr


def stacks_of(heapsnap, what):
    """Frames by the size of the one block that has it, innermost first, and what is said besides."""
    printed = json.loads(output_of(heapsnap, "stacks", "-j", "--limit", "0", what))
    found = {}
    for stack in printed["stacks"]:
        for size in stack["sizes"]:
            found.setdefault(size["size"], []).append(stack["frames"])
    return found, printed


def python_frames(frames):
    return [(frame["function"], frame["file"], frame["line"]) for frame in frames
            if frame.get("language") == "python"]


def check(heapsnap, what, blocks, how):
    assert blocks, how
    found, printed = stacks_of(heapsnap, what)
    for size, expected in blocks.items():
        stacks = found.get(size + HEADER, [])
        assert len(stacks) == 1, (how, size, len(stacks), expected, sorted(found)[:50], printed["tracker"])
        frames, = stacks
        assert python_frames(frames) == expected, (how, size, python_frames(frames), expected)
        # Each loop is where its functions are.
        rest = [frame for frame in frames if frame.get("function") == LOOP]
        assert not rest, (how, size, frames)
        assert not any("address" in frame for frame in frames if "language" in frame)
    return found


def check_places(found, blocks):
    """Native frames lie between those of Python where C has called Python."""
    for size, stack in blocks.items():
        frames, = found[size + HEADER]
        names = [frame.get("function") if frame.get("language") == "python" else None for frame in frames]
        first, *others = [name for name, _, _ in stack]
        assert names.index(first) > 0, names  # what allocates
        for caller, callee in (("Shop.handle", "key"), ("sub", "Shop.replace"), ("Shop.handle", "generate")):
            if callee not in names or caller not in names:
                continue
            inner, outer = names.index(callee), names.index(caller)
            assert inner < outer and None in names[inner:outer], (size, caller, callee, names)
        if first == "deep":
            assert None not in names[names.index("deep"):names.index("several")], names


def check_native(found):
    if 70_001 not in found:
        return
    without, = found[70_001]
    assert python_frames(without) == [], without
    with_lock, = found[71_001]
    assert python_frames(with_lock)[0][0] == "native", with_lock


def check_inject(heapsnap, python, options, how):
    with python_program(python) as program:
        printed = output_of(heapsnap, "inject", "--interpreter-frames", *options, program.pid)
        assert "with the frames of Python" in printed, printed
        program.call("several")
        found = check(heapsnap, program.pid, program.blocks, how)
        check_places(found, program.blocks)
        program.call("deleted")
        program.call("replaced")
        program.call("made")
        program.call("threads")
        check(heapsnap, program.pid, program.blocks, f"{how}, threads")
        program.call("native")
        if not options:
            check_native(stacks_of(heapsnap, program.pid)[0])
            check_groups(heapsnap, program)
            check_snapshot(heapsnap, program)
        check_child(heapsnap, program, how)
        check_again(heapsnap, program, options, how)


def check_groups(heapsnap, program):
    printed = json.loads(output_of(heapsnap, "stacks", "-j", "--by", "function", "--limit", "0", program.pid))
    charged = {group["name"]: group["live_bytes"] for group in printed["groups"]}
    assert charged["big"] >= sum(size + HEADER for size in program.blocks), charged
    assert "bytes_new" not in charged or charged["bytes_new"] == 0, charged
    kept = json.loads(output_of(heapsnap, "stacks", "-j", "--by", "function", "--limit", "0", "--pass-over", "big",
                                program.pid))
    charged = {group["name"]: group["live_bytes"] for group in kept["groups"]}
    assert charged.get("big", 0) == 0 and charged["key"] > 0 and charged["deep"] > 0, charged
    text = output_of(heapsnap, "stacks", "--limit", "0", program.pid)
    assert "Shop.handle" in text and "<string>:" in text, text[:3000]
    modules = json.loads(output_of(heapsnap, "stacks", "-j", "--by", "module", program.pid))
    assert any(group["name"] == "<string>" for group in modules["groups"]), modules["groups"]


def check_snapshot(heapsnap, program):
    with tempfile.TemporaryDirectory() as folder:
        for options in ([], ["--no-symbols"]):
            path = f"{folder}/a.hsnap"
            output_of(heapsnap, "attach", program.pid, "-f", *options, "-o", path)
            check(heapsnap, path, program.blocks, f"snapshot {options}")
        shared = f"{folder}/shared.hsnap"
        output_of(heapsnap, "share", path, "-o", shared)
        check(heapsnap, shared, {size: [(name, os.path.basename(file), line) for name, file, line in stack]
                                 for size, stack in program.blocks.items()}, "shared")
        output_of(heapsnap, "share", path, "--no-names", "-f", "-o", shared)
        _, printed = stacks_of(heapsnap, shared)
        names = {frame.get("function") for stack in printed["stacks"] for frame in stack["frames"]
                 if frame.get("language") == "python"}
        assert names and not any("Shop" in name for name in names if name), names
        output_of(heapsnap, "export", "--format", "pprof", path, "-o", f"{folder}/a.pb.gz")


def check_child(heapsnap, program, how):
    parents = dict(program.blocks)
    program.blocks = {}
    child = program.call("fork")
    assert child != program.pid
    check(heapsnap, child, program.blocks, f"{how}, child")
    program.blocks = parents
    program.call("wait")


def check_again(heapsnap, program, options, how):
    # What it says next is to record what it did.
    ejected = output_of(heapsnap, "eject", program.pid)
    assert ejected.endswith(f"    heapsnap inject --interpreter-frames --sample 512KiB {program.pid}\n"), ejected
    assert ejected.count("heapsnap inject ") == 1, ejected
    program.call("several")
    program.blocks = {}
    # One that is killed in the middle leaves a process that runs, and can be injected.
    for _ in range(3):
        killed = subprocess.Popen([heapsnap, "inject", "--interpreter-frames", *options, program.pid],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0, 0.3))
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    output_of(heapsnap, "inject", "--interpreter-frames", *options, program.pid)
    program.call("several")
    check(heapsnap, program.pid, program.blocks, f"{how}, again")
    # Without the option, frames are native again; with it, Python's.
    output_of(heapsnap, "inject", *options, program.pid)
    told = set(program.blocks)
    program.call("several")
    found, _ = stacks_of(heapsnap, program.pid)
    assert not any(python_frames(frames) for size in set(program.blocks) - told
                   for frames in found[size + HEADER]), how


def check_run(heapsnap, python, before):
    with python_program(python, heapsnap, "run", "--interpreter-frames", *before) as program:
        # Told while it started, or soon.
        until = time.monotonic() + 30
        while time.monotonic() < until:
            program.blocks = {}
            program.call("several")
            found, _ = stacks_of(heapsnap, program.pid)
            if all(any(python_frames(one) for one in found.get(size + HEADER, [])) for size in program.blocks):
                break
        check(heapsnap, program.pid, program.blocks, f"run {before}")


def check_refusals(heapsnap):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        said = output_of(heapsnap, "inject", "--interpreter-frames", other.pid, code=5)
        assert "there is no Python and no Ruby" in said, said
        other.stdin.close()
    said = output_of(heapsnap, "run", "--interpreter-frames", "--follow-children", "--", "true", code=2)
    assert "only COMMAND itself" in said, said
    done = subprocess.run([heapsnap, "run", "--interpreter-frames", "--", "true"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0 and "no frames of an interpreter were recorded" in done.stderr, done


def main():
    heapsnap, *arguments = sys.argv[1:]
    python = find_python(arguments)
    check_inject(heapsnap, python, [], "every allocation")
    check_inject(heapsnap, python, ["--sample", "1KiB"], "samples")
    if python[0] != "chroot":
        check_run(heapsnap, python, ["--"])
        check_run(heapsnap, python, ["--", "sh", "-c", 'exec "$@"', "sh"])
    if not arguments:
        check_refusals(heapsnap)


if __name__ == "__main__":
    main()
