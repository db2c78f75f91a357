#!/usr/bin/env python3
"""A block that only a vector register leads to is not leaked: vector_roots.py HEAPSNAP TARGET

TARGET swaps the only pointers to four blocks through vector registers, which hold them for most of the time.
"""

import json
import shutil
import subprocess
import sys
import tempfile

LOOKS = 8


def leaked(heapsnap, what):
    return json.loads(subprocess.run([heapsnap, "leaks", "-j", what], stdout=subprocess.PIPE).stdout)["leaked_blocks"]


def main():
    heapsnap, target = sys.argv[1:]
    failures = []
    with tempfile.TemporaryDirectory() as folder, \
            subprocess.Popen([target], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            for freeze in ["fork", "stop"] * (LOOKS // 2):
                snapshot = f"{folder}/a.hsnap"
                subprocess.run([heapsnap, "attach", "-q", "-f", "--freeze", freeze, "--references", "yes", "-o", snapshot,
                                str(process.pid)], check=True)
                failures += [f"{freeze}: {blocks} blocks" for blocks in [leaked(heapsnap, snapshot)] if blocks != 0]
            if shutil.which("gcore") is not None:
                subprocess.run(["gcore", "-o", f"{folder}/core", str(process.pid)], check=True, capture_output=True)
                blocks = leaked(heapsnap, f"{folder}/core.{process.pid}")
                failures += [f"core: {blocks} blocks"] if blocks != 0 else []
        finally:
            process.stdin.close()
    print(*failures, sep="\n")
    return 1 if failures or process.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
