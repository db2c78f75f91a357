#!/usr/bin/env python3
"""Python processes that make and drop objects in 4 threads, with the collector at work, are stopped again and again:

    python_churn.py HEAPSNAP STOPS

Each walk is consistent: what it says adds up, at most one pool is in the middle of a change (the interpreter's lock lets
one thread at a time change any), and objects that nobody drops are all there. The process goes on."""

import json
import os
import subprocess
import sys

from python_heap import PYTHON

KEPT = 20_000
CHURN = f"""
import gc, sys, threading
class Kept:
    def __init__(self, number):
        self.number = number
class Dropped:
    def __init__(self, other):
        self.other, self.items = other, [other] * 9
        self.circle = self
kept = [Kept(number * 1000) for number in range({KEPT})]
done = 0
def churn():
    global done
    while not stop:
        made = [Dropped({{number: str(number)}}) for number in range(3000)]
        del made[::2]
        done += 1
stop = False
threads = [threading.Thread(target=churn) for _ in range(4)]
for thread in threads: thread.start()
print("ready", flush=True)
for line in sys.stdin:
    print(done, flush=True)
stop = True
for thread in threads: thread.join()
"""


def check(heapsnap, pid):
    """How many pools were in the middle of a change."""
    done = subprocess.run([heapsnap, "objects", pid, "-j"], capture_output=True, text=True)
    assert done.returncode == 0, done
    printed = json.loads(done.stdout)
    runtime, = printed["runtimes"]
    classes = {row["type"]: row for row in printed["objects"]}
    assert classes["Kept"]["count"] == KEPT, classes
    assert sum(row["count"] for row in classes.values()) == runtime["objects"]
    parts = ("used_bytes", "free_bytes", "overhead_bytes", "free_page_bytes", "alignment_bytes", "unread_bytes")
    assert abs(sum(runtime[part] for part in parts) - runtime["area_bytes"]) <= 16 << 10, runtime
    assert runtime["damaged_pages"] <= 1 and runtime["unread_bytes"] <= 16 << 10, runtime
    return runtime["damaged_pages"]


def main():
    heapsnap, stops = sys.argv[1], int(sys.argv[2])
    if not os.path.exists(PYTHON):
        print(f"{PYTHON} is not installed")
        sys.exit(77)
    with subprocess.Popen([PYTHON, "-c", CHURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        def rounds():
            process.stdin.write("\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        assert process.stdout.readline() == "ready\n"
        before = rounds()
        changing = sum(check(heapsnap, str(process.pid)) for _ in range(stops))
        assert rounds() > before
        process.stdin.close()
        assert process.wait() == 0
    print(f"{stops} stops, {changing} of them in the middle of a change of a pool")


main()
