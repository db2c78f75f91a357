#!/usr/bin/env python3
"""Each block in a mapping of its own is found, and nothing else, in places that make that hard; and a thread with an
old return address into malloc in its frame is not said to be inside; one that a signal interrupted in malloc is led to
the end of both. mapped_blocks.py CASE HEAPSNAP TARGET"""

import json
import os
import subprocess
import sys
import tempfile

import healthy_programs

ATTACHES = {"looped": 4, "handled": 10}  # some meet it in its system call, or outside of malloc
SKIPPED = 77


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (command, done.returncode, done.stderr)
    return done.stdout


def check(heapsnap, pid, how, blocks):
    with tempfile.TemporaryDirectory() as folder:
        snapshot = os.path.join(folder, "blocks.hsnap")
        report = json.loads(run(heapsnap, "attach", str(pid), "--freeze", how, "-j", "-o", snapshot))
        lines = run(heapsnap, "export", snapshot, "--format", "ndjson", "-o", "-").splitlines()
    assert report["freeze"]["method"] == how, report["freeze"]
    wrong = healthy_programs.false_statements(report)
    assert not wrong, (how, wrong)
    chunks = [json.loads(line) for line in lines]
    found = sorted(int(chunk["addr"], 16) for chunk in chunks if chunk.get("state") == "mmapped")
    assert found == sorted(blocks), (how, [hex(block) for block in set(found) ^ set(blocks)])


def main():
    case, heapsnap, target = sys.argv[1:]
    with subprocess.Popen([target, case], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            blocks = []
            while (line := process.stdout.readline().strip()).startswith("0x"):
                blocks.append(int(line, 16))
            if line != "ready":
                print("skipped:", line)
                return SKIPPED
            for how in ("fork",) if case in ("returned", "handled") else ("fork", "stop"):
                for _ in range(ATTACHES.get(case, 1)):
                    check(heapsnap, process.pid, how, blocks)
        finally:
            process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
