#!/usr/bin/env python3
"""A process of more small blocks than a second suffices for: references are left out where nobody asks for
them, and the snapshot is whole without them. references_auto.py HEAPSNAP MANY_CHUNKS"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCKS = 5_000_000


def attach(heapsnap, pid, path):
    done = subprocess.run([heapsnap, "attach", str(pid), "-j", "-o", path, "--freeze", "fork"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main():
    heapsnap, target = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name, subprocess.Popen(
            [target, str(BLOCKS), "16", "24", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == f"ready {BLOCKS}\n"
        path = str(pathlib.Path(name) / "a.hsnap")
        report = attach(heapsnap, process.pid, path)
        why = report["why_no_references"]
        found = re.fullmatch(r"it would have taken more than 1\.0 s of one processor, by estimate, to find the references "
                             r"of more than ([\d,]+) blocks", why)
        assert found and 1_000_000 < int(found[1].replace(",", "")) < BLOCKS, why
        used = report["states"]["used"]["count"]
        assert report["corruptions"] == [] and used >= BLOCKS, used
        process.stdin.close()
        assert process.wait() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
