#!/usr/bin/env python3
"""A C library that dlmopen(3) is loading, where one was unloaded before: the threads' storage still holds what the old
one left, and nothing of a sound heap is called damaged.

    reloaded_namespace.py HEAPSNAP TARGET LIBRARY
"""

import json
import subprocess
import sys
import tempfile


def expect(process, line):
    got = process.stdout.readline()
    if got != line + "\n":
        raise RuntimeError(f"the target said {got!r}, not {line!r}")


def look(heapsnap, pid, snapshot, freeze):
    """The complaints, and the numbers of mallocs and of tcaches."""
    subprocess.run([heapsnap, "attach", "--freeze", freeze, str(pid), "-q", "-f", "-o", snapshot], check=True)
    report = json.loads(subprocess.run([heapsnap, "report", "-j", snapshot], capture_output=True, check=True).stdout)
    return [place["what"] for place in report["corruptions"]], len(report["mallocs"]), len(report["thread_caches"])


def main():
    heapsnap, target, library = sys.argv[1:]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([target, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def check(when, mallocs, caches):
            nonlocal failures
            for freeze in ("fork", "stop"):
                got = look(heapsnap, process.pid, f"{folder}/a.hsnap", freeze)
                print(f"{when}, {freeze}: {got[1]} mallocs, {got[2]} tcaches, complaints: {got[0]}")
                failures += got != ([], mallocs, caches)

        for when in ("first load", "second load"):
            expect(process, "relocating")
            check(when, 2, 1)
            process.stdin.write("\n")
            process.stdin.flush()
            expect(process, "loaded")
        check("loaded", 2, 2)
        process.stdin.close()
        if process.wait() != 0:
            print("FAILED: the target ended with", process.returncode)
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
