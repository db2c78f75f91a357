#!/usr/bin/env python3
"""How fast a heap becomes a snapshot, how large the file is, and what heapsnap itself needs.

    capture_bench.py HEAPSNAP MANY_CHUNKS [--millions 1,5,20] [--runs 3] [--no-gcore]

For each number of live chunks: chunks a second from the freeze to the closed file, bytes a chunk in
the file, peak memory and CPU seconds of heapsnap; then, paired with it in the same run, gcore of the
same process, as a ratio of CPU seconds, wall seconds and file sizes. heapsnap is pinned to one core.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SHAPES = [  # name, arguments of many_chunks: smallest and largest malloc size, percent freed again
    ("sizes 16-256, none freed", ["16", "256", "0"]),
    ("sizes 16-256, 15 % freed", ["16", "256", "15"]),
    ("sizes 16-120, 15 % freed, in fastbins", ["16", "120", "15", "fastbins"]),
]


def run(command, **options):
    """Wall and CPU seconds and peak memory of a finished command, with its standard error."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               **options)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed ({process.returncode}): {errors}")
    return {"wall": time.monotonic() - started, "cpu": usage.ru_utime + usage.ru_stime,
            "peak": usage.ru_maxrss * 1024, "errors": errors}


def median(runs, key):
    return statistics.median(entry[key] for entry in runs)


def measure(arguments, folder, millions, shape):
    name, kind = shape
    target = subprocess.Popen([arguments.many_chunks, str(millions * 1_000_000), *kind],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        ready = target.stdout.readline().split()
        if ready[:1] != ["ready"]:
            sys.exit("the target did not start: too little memory?")
        captures, cores = [], []
        snapshot = f"{folder}/bench.hsnap"
        for _ in range(arguments.runs):
            capture = run(["taskset", "-c", "0", arguments.heapsnap, "attach", str(target.pid), "-qvf",
                           "--freeze", "fork", "-o", snapshot])
            found = re.search(r"capture: (\d+) chunks in ([\d.]+) s .*, (\d+) bytes", capture["errors"])
            capture["chunks"], capture["seconds"], capture["bytes"] = (
                int(found[1]), float(found[2]), int(found[3]))
            captures.append(capture)
            if arguments.gcore:
                core = run([arguments.gcore, "-o", f"{folder}/core", str(target.pid)])
                path = f"{folder}/core.{target.pid}"
                core["bytes"] = os.stat(path).st_blocks * 512
                os.unlink(path)
                cores.append(core)
        chunks = captures[0]["chunks"]
        rate = statistics.median(entry["chunks"] / entry["seconds"] for entry in captures)
        print(f"{millions} M live, {name}: {chunks} chunks, {rate / 1e6:.1f} M chunks/s to the closed file,"
              f" {median(captures, 'bytes') / chunks:.2f} bytes a chunk,"
              f" peak memory {max(entry['peak'] for entry in captures) / 2**20:.1f} MiB,"
              f" CPU {median(captures, 'cpu'):.2f} s")
        if cores:
            ratio = statistics.median(b["cpu"] / a["cpu"] for a, b in zip(captures, cores))
            wall = statistics.median(b["wall"] / a["wall"] for a, b in zip(captures, cores))
            size = median(cores, "bytes") / median(captures, "bytes")
            print(f"    gcore needs {ratio:.1f} times the CPU, {wall:.1f} times the wall time and"
                  f" {size:.0f} times the disk, and its core is not walked yet")
        sys.stdout.flush()
    finally:
        target.stdin.close()
        target.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heapsnap")
    parser.add_argument("many_chunks")
    parser.add_argument("--millions", default="1,5,20")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-gcore", action="store_true")
    arguments = parser.parse_args()
    arguments.gcore = None if arguments.no_gcore else shutil.which("gcore")
    with tempfile.TemporaryDirectory(prefix="heapsnap-bench-") as folder:
        for millions in [int(text) for text in arguments.millions.split(",")]:
            for shape in SHAPES:
                measure(arguments, folder, millions, shape)


if __name__ == "__main__":
    main()
