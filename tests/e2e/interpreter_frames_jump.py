#!/usr/bin/env python3
"""A signal handler that jumps out of an allocation while an interpreter's frames are recorded: later allocations do not
wait for what it has left behind.

    interpreter_frames_jump.py HEAPSNAP JUMPING_ALLOCATOR"""

import subprocess
import sys

from interpreter_frames import output_of
from python_heap import find_python

JUMPS = 100
PROGRAM = f"""
import ctypes, os, sys
library = ctypes.PyDLL(sys.argv[1])  # with Python's lock
def jump(number):
    assert library.allocate_and_jump(20 + number * 7 % 300) == 1
def deeper(number):
    sorted([number], key=lambda _: sorted([number], key=lambda one: jump(one) or 1))
print(os.getpid(), flush=True)
sys.stdin.readline()
for number in range({JUMPS}):
    deeper(number)
    bytes(900)
kept = [bytes(700 + i) for i in range(100)]
print("jumped", flush=True)
sys.stdin.readline()
"""


def main():
    heapsnap, library = sys.argv[1:]
    python = find_python([])
    with subprocess.Popen([*python, "-c", PROGRAM, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        pid = process.stdout.readline().strip()
        output_of(heapsnap, "inject", "--interpreter-frames", pid)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "jumped\n"
        # What the jumps have left locked, if anything, another start makes anew.
        output_of(heapsnap, "eject", pid)
        output_of(heapsnap, "inject", "--interpreter-frames", pid)
        process.communicate("\n", timeout=60)
        assert process.returncode == 0, process.returncode


main()
