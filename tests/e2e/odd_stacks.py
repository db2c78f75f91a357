#!/usr/bin/env python3
"""Programs on stacks that one would not expect are served like others: copied by a fork, injected, ejected.

    odd_stacks.py KIND HEAPSNAP TARGETS [--times N]

KIND is one of tests/targets/odd_stack.cpp, or ruby: a program that runs in a Fiber. Afterwards what lies on
their stacks is whole, and the main stack has not grown with each time. Exits 77 where ruby is missing.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile

RUBY = """
fiber = Fiber.new { $stdout.puts 'ready'; $stdout.flush; $stdin.read; exit 0 }
fiber.resume
"""


def start(kind, targets):
    if kind != "ruby":
        return [f"{targets}/odd_stack", kind]
    if not shutil.which("ruby"):
        print("skipped: ruby is not installed")
        sys.exit(77)
    return ["ruby", "-e", RUBY]


def stack_size(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
        begin, end = re.search(r"(\w+)-(\w+) .*\[stack\]", maps.read()).groups()
    return int(end, 16) - int(begin, 16)


def act(heapsnap, pid, folder):
    """Gives what went wrong."""
    snapshot = f"{folder}/snapshot.hsnap"
    for command in (["attach", "-f", "--freeze", "fork", "-o", snapshot, str(pid)], ["inject", str(pid)],
                    ["trim", "--no-estimate", str(pid)], ["eject", str(pid)]):
        done = subprocess.run([heapsnap, *command], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            return f"{command[0]}: {done.stderr}"
    report = subprocess.run([heapsnap, "report", "--json", snapshot], capture_output=True, text=True, check=True)
    freeze = json.loads(report.stdout)["freeze"]
    if freeze["method"] != "fork":
        return f"it was not copied: {freeze}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("heapsnap")
    parser.add_argument("targets")
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    target = subprocess.Popen(start(arguments.kind, arguments.targets), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    wrong = None
    with tempfile.TemporaryDirectory(prefix="heapsnap-stacks-") as folder:
        if target.stdout.readline() != "ready\n":
            wrong = "the target did not start"
        size = None
        for _ in range(arguments.times):
            wrong = wrong or act(arguments.heapsnap, target.pid, folder)
            if size is None:
                size = stack_size(target.pid)
        if not wrong and stack_size(target.pid) != size:
            wrong = f"the main stack has grown from {size} to {stack_size(target.pid)} bytes"
    target.stdin.close()
    if target.wait(60) != 0 and not wrong:
        wrong = f"the target ended with {target.returncode}"
    if wrong:
        print("FAILED:", wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
