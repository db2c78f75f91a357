#!/usr/bin/env python3
"""What references cost: references_bench.py HEAPSNAP LINKED_BLOCKS [LINKED_BLOCKS_LSAN] [--millions 1,5,20] [--runs 3]

For each shape of linked_blocks, in turns: a capture without references and one with them, then `leaks` and `owners` of the
file. Printed are the least wall and CPU seconds of the runs (a busy machine adds to both), of a capture also the least and
the median from the freeze to the written file and the blocks a second that the least is, the file's bytes a block and the
pause. With a build of linked_blocks by -fsanitize=leak, the CPU of LeakSanitizer's check at its end comes beside
it, paired in each run: with the check less without it.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SHAPES = ("list", "tree", "hash", "random")


def run(command, codes=(0,), **options):
    """Wall and CPU seconds of a command that ends with one of these codes."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               **options)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in codes:
        sys.exit(f"{' '.join(command)} failed ({process.returncode})")
    return {"wall": time.monotonic() - started, "cpu": usage.ru_utime + usage.ru_stime}


def least(runs, key):
    return min(entry[key] for entry in runs)


def capture(heapsnap, pid, path, references):
    taken = run([heapsnap, "attach", str(pid), "-qf", "--freeze", "fork", "--references", references, "-o", path])
    # Its time of the last change is that of the kernel's last tick: up to 4 ms too early.
    file = os.stat(path)
    report = json.loads(subprocess.run([heapsnap, "report", path, "-j"], capture_output=True, check=True).stdout)
    return taken | {"pause": report["freeze"]["pause_ns"] / 1e6, "bytes": file.st_size,
                    "from_freeze": (file.st_mtime_ns - nanoseconds_of(report["taken_at"])) / 1e9}


def nanoseconds_of(time_text):
    """Since the epoch, of a time of JSON: 2026-11-30T05:06:43.418329317Z"""
    seconds = datetime.datetime.fromisoformat(time_text[:19] + "+00:00").timestamp()
    return int(seconds) * 1_000_000_000 + int(time_text[20:29])


def lsan_check(program, shape, blocks):
    """CPU seconds of LeakSanitizer's check of the same blocks."""
    with_check, without = (
        run([program, shape, str(blocks)], codes=(0, 23),
            env=dict(os.environ, LSAN_OPTIONS=f"detect_leaks={check}:exitcode=23"))["cpu"] for check in (1, 0))
    return with_check - without


def measure(arguments, folder, shape, blocks):
    target = subprocess.Popen([arguments.linked_blocks, shape, str(blocks)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        if target.stdout.readline().split()[:1] != ["ready"]:
            sys.exit("the target did not start: too little memory?")
        runs = {"no": [], "yes": [], "leaks": [], "owners": []}
        checks = []
        path = f"{folder}/{shape}.hsnap"
        for _ in range(arguments.runs):
            for references in ("no", "yes"):
                runs[references].append(capture(arguments.heapsnap, target.pid, path, references))
            runs["leaks"].append(run([arguments.heapsnap, "leaks", path], codes=(1,)))
            runs["owners"].append(run([arguments.heapsnap, "owners", path]))
            if arguments.linked_blocks_lsan:
                checks.append(lsan_check(arguments.linked_blocks_lsan, shape, blocks))
    finally:
        target.stdin.close()
        target.wait()
    print(f"{shape}, {blocks} blocks")
    for name, entries in runs.items():
        cpu, wall = least(entries, "cpu"), least(entries, "wall")
        line = f"  {name:6} {wall:6.2f} s, CPU {cpu:6.2f} s, {cpu / blocks * 1e9:5.0f} ns of CPU a block"
        if name in ("no", "yes"):
            times = [entry["from_freeze"] for entry in entries]
            line += (f", freeze to file {min(times):.3f} s, median {statistics.median(times):.3f} s"
                     f", {blocks / min(times) / 1e6:.1f} million blocks a second"
                     f", pause {statistics.median(entry['pause'] for entry in entries):.1f} ms"
                     f", {entries[0]['bytes'] / blocks:.2f} bytes a block")
        print(line)
    if checks:
        print(f"  LeakSanitizer's check: CPU {min(checks):.2f} s")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heapsnap")
    parser.add_argument("linked_blocks")
    parser.add_argument("linked_blocks_lsan", nargs="?")
    parser.add_argument("--millions", default="1,5,20")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="heapsnap-bench-") as folder:
        for millions in arguments.millions.split(","):
            for shape in SHAPES:
                measure(arguments, folder, shape, int(millions) * 1_000_000)


if __name__ == "__main__":
    main()
