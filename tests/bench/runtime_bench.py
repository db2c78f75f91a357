#!/usr/bin/env python3
"""How fast the objects of a Python or Ruby process become rows of a snapshot:

    runtime_bench.py HEAPSNAP [--of python,ruby] [--millions 2,10] [--runs 5]

In turns: without them (--runtimes no), with them, and with the references between them. Printed are objects a second of
the time from the freeze to the closed file and of heapsnap's CPU time, each by the least of the runs (a busy machine
adds to both), how long the process stood still, and heapsnap's peak memory. PYTHON and RUBY are the interpreters to
look at."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

from capture_bench import run

PROGRAMS = {
    # Two objects each: the row and its number.
    "python": (os.environ.get("PYTHON", "/usr/bin/python3"), "-c", """
import sys
class Row:
    __slots__ = ("number",)
    def __init__(self, number):
        self.number = number
kept = [Row(number) for number in range(int(sys.argv[1]) // 2)]
print("ready", flush=True)
sys.stdin.read()
"""),
    # The same, with a text in place of the number.
    "ruby": (os.environ.get("RUBY", "/usr/bin/ruby"), "--disable-gems", "-e", """
class Row
  def initialize(number)
    @text = number.to_s
  end
end
KEPT = Array.new(Integer(ARGV[0]) / 2) { |number| Row.new(number) }
3.times { GC.start }
$stdout.puts('ready')
$stdout.flush
$stdin.read
"""),
}
WAYS = {
    "without": ("--references", "no", "--runtimes", "no"),
    "objects": ("--references", "no", "--runtimes", "auto"),
    "references": ("--references", "yes", "--runtimes", "auto"),
}


def captured(heapsnap, pid, snapshot, words):
    done = run([heapsnap, "attach", str(pid), "-q", "-v", "-f", *words, "-o", snapshot])
    done["file"] = float(re.search(r"in ([\d.]+) s from freeze to closed file", done["errors"])[1])
    report = json.loads(subprocess.run([heapsnap, "report", snapshot, "-j"], capture_output=True, check=True).stdout)
    done["pause"] = report["freeze"]["pause_ns"] / 1e6
    done["objects"] = sum(one["objects"] for one in report.get("runtimes", ()))
    return done


def least(runs, key):
    return min(entry[key] for entry in runs)


def measure(heapsnap, kind, millions, runs):
    with subprocess.Popen([*PROGRAMS[kind], str(millions * 1_000_000)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as target, tempfile.TemporaryDirectory() as folder:
        if target.stdout.readline() != "ready\n":
            sys.exit(f"{PROGRAMS[kind][0]} did not start")
        taken = {way: [] for way in WAYS}
        for _ in range(runs):
            for way, words in WAYS.items():
                taken[way].append(captured(heapsnap, target.pid, f"{folder}/a.hsnap", words))
        target.stdin.close()
    objects = taken["objects"][0]["objects"]
    print(f"{kind}: {objects:,} objects; paused {least(taken['without'], 'pause'):.1f} ms without them")
    for way in ("objects", "references"):
        one = taken[way]
        print(f"  {way}: {objects / least(one, 'file') / 1e6:.1f} M/s from the freeze to the closed file "
              f"({least(one, 'file'):.2f} s), {objects / least(one, 'cpu') / 1e6:.1f} M/s of CPU time "
              f"({least(one, 'cpu'):.2f} s; {least(taken['without'], 'cpu'):.2f} s without), "
              f"paused {least(one, 'pause'):.1f} ms, peak {max(each['peak'] for each in one) / 2**20:.0f} MiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heapsnap")
    parser.add_argument("--of", default="python,ruby")
    parser.add_argument("--millions", default="2,10")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    for kind in arguments.of.split(","):
        for millions in map(int, arguments.millions.split(",")):
            measure(arguments.heapsnap, kind, millions, arguments.runs)


main()
