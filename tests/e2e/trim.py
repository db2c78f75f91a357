#!/usr/bin/env python3
"""What heapsnap foretells of malloc_trim(0) is what comes back: from several arenas, with holes of all sizes.

    trim.py HEAPSNAP

The target is this script itself (trim.py --target): threads allocate, write to every block, free every other
one at random, and stay.
"""

import ctypes
import random
import re
import subprocess
import sys
import threading

THREADS = 3
BLOCKS = 4000
LARGEST = 20000
MIB = 1 << 20
# The thread that trims has a stack and caches of its own; and Python does not stand still.
TOLERATED = MIB


def hold_memory(seed, held, done):
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    choose = random.Random(seed)
    blocks = []
    for _ in range(BLOCKS):
        size = choose.randint(16, LARGEST)
        block = libc.malloc(size)
        ctypes.memset(block, 1, size)
        blocks.append(block)
    choose.shuffle(blocks)
    for block in blocks[BLOCKS // 2:]:
        libc.free(block)
    held.wait()
    done.wait()


def be_target():
    held = threading.Barrier(THREADS + 1)
    done = threading.Event()
    for seed in range(THREADS):
        threading.Thread(target=hold_memory, args=(seed, held, done)).start()
    held.wait()
    print("ready", flush=True)
    sys.stdin.read()
    done.set()


def anonymous(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return int(re.search(r"RssAnon:\s+(\d+) kB", status.read())[1]) << 10


def given_back_by(told):
    number, unit = re.search(r"([\d.]+) (B|KiB|MiB) given back", told).groups()
    return float(number) * {"B": 1, "KiB": 1024, "MiB": MIB}[unit]


def main():
    target = subprocess.Popen([sys.executable, __file__, "--target"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    if target.stdout.readline() != "ready\n":
        print("FAILED: the target did not start")
        return 1
    before = anonymous(target.pid)
    told = subprocess.run([sys.argv[1], "trim", str(target.pid)], capture_output=True, text=True,
                          check=True).stdout
    left = anonymous(target.pid)
    came_back = before - left
    # All that can come back has done so; malloc_trim() gives up the same pages again, and says so.
    again = subprocess.run([sys.argv[1], "trim", "--no-estimate", str(target.pid)], capture_output=True, text=True,
                           check=True).stdout
    print(told, again, f"by /proc: {came_back / MIB:.1f} MiB came back", sep="")
    target.stdin.close()
    if target.wait() != 0:
        print("FAILED: the target ended with", target.returncode)
        return 1
    predicted = float(re.search(r"([\d.]+) MiB predicted", told)[1]) * MIB
    given_back = float(re.search(r"([\d.]+) MiB given back", told)[1]) * MIB
    wrong = [what for what, holds in [
        ("too little to say anything", predicted > 20 * MIB),
        ("not what was predicted", abs(came_back - predicted) <= TOLERATED + predicted / 50),
        ("not what is said to have come back", abs(came_back - given_back) <= TOLERATED),
        ("what is said to be left is not what /proc shows",
         abs(float(re.search(r"([\d.]+) MiB after", told)[1]) * MIB - left) <= TOLERATED),
        ("a second trim that gives nothing back says that it does",
         "0 B given back" not in again or "anonymous memory did not shrink" in again),
        ("the second trim gives back what is gone", given_back_by(again) <= TOLERATED),
        ("the prediction's pause is not told", "paused for" in told and "for the prediction" in told),
        ("a pause that was not made is told", "for the prediction" not in again),
        ("no next step", f"\n    heapsnap watch {target.pid} --count 10\n" in told
         and told.endswith(f"    heapsnap attach {target.pid}\n")),
        ("a next step for what was not given back", "heapsnap watch" not in again and "What next" in again),
    ] if not holds]
    for what in wrong:
        print("FAILED:", what)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "--target":
        be_target()
    else:
        sys.exit(main())
