#!/usr/bin/env python3
"""What frames of an interpreter cost a program that does real work:

    interpreter_frames_bench.py HEAPSNAP [--runs 9] [--sample 512KiB] [--python /usr/bin/python3] [--every]

Each round runs the program plain, with the tracker, and with the tracker and --interpreter-frames, one after the other,
in an order that turns. Printed are the medians of CPU seconds, and of the quotients of each round: the tracker against
plain, and frames against the tracker. --every: of every allocation, not only of samples."""

import argparse
import os
import statistics
import subprocess
import sys

# Parses and compiles a part of the standard library, walks its syntax trees, and takes JSON and text apart: deep stacks, large
# and small blocks.
PROGRAM = """
import ast, difflib, json, os, re, sys, tokenize, io
folder = os.path.dirname(os.__file__)
names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))[:int(sys.argv[1])]
found = {}
for name in names:
    text = open(os.path.join(folder, name), encoding="utf-8").read()
    tree = ast.parse(text)
    compile(tree, name, "exec")
    found[name] = {"functions": [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)],
                   "dump": ast.dump(tree)[:50000],
                   "tokens": [token.string for token in tokenize.generate_tokens(io.StringIO(text).readline)]}
for _ in range(3):
    found = json.loads(json.dumps(found))
words = re.sub(r"\\w+", lambda match: match[0].upper(), json.dumps(found))
list(difflib.unified_diff(words[:60000].split(","), words[1000:61000].split(",")))
"""
WAYS = ("plain", "tracker", "frames")


def seconds(command, environment):
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heapsnap")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--sample", default="512KiB")
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--files", default="40", help="of the standard library")
    parser.add_argument("--malloc", action="store_true", help="PYTHONMALLOC=malloc: each object is a block")
    options = parser.parse_args()
    program = [options.python, "-c", PROGRAM, options.files]
    run = [options.heapsnap, "run"] + ([] if options.every else ["--sample", options.sample])
    commands = {"plain": program, "tracker": [*run, "--", *program],
                "frames": [*run, "--interpreter-frames", "--", *program]}
    environment = {"PYTHONMALLOC": "malloc"} if options.malloc else {}
    # The same process, heapsnap's own CPU time included, which is that of its start.
    own = seconds([*run, "--", options.python, "-c", ""], environment) - seconds([options.python, "-c", ""], environment)
    times = {way: [] for way in WAYS}
    for number in range(options.runs):
        for way in WAYS[number % 3:] + WAYS[:number % 3]:
            times[way].append(seconds(commands[way], environment))
            print(f"  {way} {times[way][-1]:.3f}", file=sys.stderr)
    for way in WAYS:
        print(f"{way:8} {statistics.median(times[way]):.3f} s")
    print(f"heapsnap's own start {own:.3f} s, counted in the last two")
    for inner, outer in (("tracker", "plain"), ("frames", "tracker"), ("frames", "plain")):
        quotients = sorted(a / b for a, b in zip(times[inner], times[outer]))
        print(f"{inner} / {outer}: {statistics.median(quotients):.3f} ({quotients[0]:.3f} to {quotients[-1]:.3f})")


main()
