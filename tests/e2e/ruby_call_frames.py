#!/usr/bin/env python3
"""Frames of Ruby's methods and blocks in call stacks, against what Ruby itself says of them:

    ruby_call_frames.py HEAPSNAP [FOLDER VERSION...]

By inject, with samples and of every allocation; of the process, a child that it forked and a snapshot; after its code was
deleted; ejected and injected again. Ruby also says which functions in C run; those are native frames here."""

import os
import shutil
import sys
import tempfile

from interpreter_frames import Program, output_of, stacks_of
from ruby_target import HERE, rubies

SCRIPT = "interpreter_frames_process.rb"
HEADER = 1  # the byte behind a String
# Of these Ruby says the line that calls them.
FUNCTIONS_IN_C = {"each", "map", "times", "sort_by", "gsub", "call", "send", "instance_eval", "eval", "initialize", "next",
                  "fork", "join", "new", "each_entry", "collect", "puts", "synchronize", "<internal:"}


def plain(name):
    """Since 3.4 Ruby names the class, too."""
    prefix, _, method = name.rpartition(" in ")
    method = method.replace("#", ".").rpartition(".")[2]
    return f"{prefix} in {method}" if prefix else method


def told(stack):
    return [(plain(name), path, line) for name, path, line in stack
            if plain(name) not in FUNCTIONS_IN_C and not path.startswith("<internal:")]


def found_frames(frames):
    return [(plain(frame["function"]), frame.get("file", ""), frame.get("line", 0)) for frame in frames
            if frame.get("language") == "ruby" and not frame.get("file", "").startswith("<internal:")]


def check(heapsnap, what, blocks, how):
    assert blocks, how
    found, printed = stacks_of(heapsnap, what)
    for size, stack in blocks.items():
        stacks = found.get(size + HEADER, [])
        assert len(stacks) == 1, (how, size, len(stacks), sorted(found)[:50], printed["tracker"])
        ours, its = found_frames(stacks[0]), told(stack)
        hidden = [frame for frame in ours if frame[0].startswith(("rescue in ", "ensure in "))]
        if "ruby3.4" in how and hidden:
            # Since 3.4 Ruby shows their lines as those of the method around them.
            ours = [frame[:2] for frame in ours if frame not in hidden]
            its = [frame[:2] for frame in its]
        if "ruby3.4" in how:
            # What eval() has compiled is called by the method that it runs in.
            its = [mine if mine[0] == "<compiled>" else said for mine, said in zip(ours, its)] + its[len(ours):]
        assert ours == its, (how, size, ours, its)


def check_ruby(heapsnap, ruby, root, options):
    place = HERE
    command = ruby
    if root != "/":
        shutil.copy(f"{HERE}/{SCRIPT}", f"{root}/tmp")
        place, command = "/tmp", ["chroot", root, *ruby]
    how = f"{ruby} {options}"
    with Program(*command, "--disable-gems", "-Ku", f"{place}/{SCRIPT}") as program:
        printed = output_of(heapsnap, "inject", "--interpreter-frames", *options, program.pid)
        assert "with the frames of Ruby" in printed, printed
        for what in ("several", "deleted", "threads"):
            program.call(what)
            check(heapsnap, program.pid, program.blocks, f"{how}, {what}")
        if not options:
            with tempfile.TemporaryDirectory() as folder:
                output_of(heapsnap, "attach", program.pid, "-o", f"{folder}/a.hsnap")
                check(heapsnap, f"{folder}/a.hsnap", program.blocks, f"{how}, snapshot")
        parents = program.blocks
        program.blocks = {}
        child = program.call("fork")
        check(heapsnap, child, program.blocks, f"{how}, child")
        program.blocks = parents
        program.call("wait")
        ejected = output_of(heapsnap, "eject", program.pid)
        assert ejected.endswith(f"    heapsnap inject --interpreter-frames --sample 512KiB {program.pid}\n"), ejected
        assert ejected.count("heapsnap inject ") == 1, ejected
        program.call("several")
        program.blocks = {}
        output_of(heapsnap, "inject", "--interpreter-frames", *options, program.pid)
        program.call("several")
        check(heapsnap, program.pid, program.blocks, f"{how}, again")


def main():
    heapsnap, *words = sys.argv[1:]
    os.environ["LANG"] = "C.UTF-8"
    for _, ruby, root in rubies(words):
        check_ruby(heapsnap, ruby, root, [])
        check_ruby(heapsnap, ruby, root, ["--sample", "1KiB"])


main()
