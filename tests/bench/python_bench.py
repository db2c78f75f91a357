#!/usr/bin/env python3
"""How fast the objects of a Python process become rows of a snapshot: python_bench.py HEAPSNAP [--millions 2,10]

Without references; with and without --runtimes, in turns: objects a second of heapsnap's CPU time and of the time from
the freeze to the closed file, and how long the process stood still. PYTHON is the interpreter to look at."""

import argparse
import os
import re
import subprocess
import sys
import tempfile

from capture_bench import median, run

OBJECTS = """
import sys
class Row:
    __slots__ = ("number",)
    def __init__(self, number):
        self.number = number
kept = [Row(number) for number in range(int(sys.argv[1]) // 2)]
print("ready", flush=True)
sys.stdin.read()
"""


def captured(heapsnap, pid, snapshot, runtimes):
    done = run([heapsnap, "attach", str(pid), "-q", "-v", "-f", "--references", "no", "--runtimes", runtimes, "-o",
                snapshot])
    done["file"] = float(re.search(r"in ([\d.]+) s from freeze to closed file", done["errors"])[1])
    report = subprocess.run([heapsnap, "report", snapshot, "-j"], capture_output=True, text=True, check=True).stdout
    done["pause"] = int(re.search(r'"pause_ns":(\d+)', report)[1]) / 1e6
    found = re.search(r'"objects":(\d+)', report)
    done["objects"] = int(found[1]) if found else 0
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heapsnap")
    parser.add_argument("--millions", default="2,10")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    python = os.environ.get("PYTHON", "/usr/bin/python3")
    for millions in map(int, arguments.millions.split(",")):
        with subprocess.Popen([python, "-c", OBJECTS, str(millions * 1_000_000)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as target, tempfile.TemporaryDirectory() as folder:
            if target.stdout.readline() != "ready\n":
                sys.exit(f"{python} did not start")
            plain, walked = [], []
            for _ in range(arguments.runs):
                plain.append(captured(arguments.heapsnap, target.pid, f"{folder}/a.hsnap", "no"))
                walked.append(captured(arguments.heapsnap, target.pid, f"{folder}/a.hsnap", "auto"))
            target.stdin.close()
        objects = walked[0]["objects"]
        cpu = median(walked, "cpu") - median(plain, "cpu")
        print(f"{objects:,} objects: {objects / cpu / 1e6:.1f} M/s of CPU time ({cpu:.2f} s more than without), "
              f"{objects / median(walked, 'file') / 1e6:.1f} M/s from the freeze to the closed file, "
              f"paused {median(walked, 'pause'):.1f} ms (without: {median(plain, 'pause'):.1f} ms), "
              f"peak {median(walked, 'peak') / 2**20:.0f} MiB", flush=True)


main()
