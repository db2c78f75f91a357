#!/usr/bin/env python3
"""A forked process that has taken the last huge page is not ended by an attach: while a copy shared that page, the
next write to it would need another one. huge_pages.py HEAPSNAP TARGET"""

import json
import os
import subprocess
import sys
import tempfile

from truth_process import SKIPPED, Skip, huge_pages


def attach(heapsnap, pid, how):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([heapsnap, "attach", pid, "--freeze", how, "-j", "-o", os.path.join(folder, "a.hsnap")],
                              capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (how, done.returncode, done.stderr)
    return json.loads(done.stdout)["freeze"]


def main():
    heapsnap, target = sys.argv[1:]
    try:
        with huge_pages(4), subprocess.Popen([target], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             text=True) as process:
            words = process.stdout.readline().split()
            if not words:
                raise Skip("there are no huge pages left to take")
            frozen = {how: attach(heapsnap, words[1], how) for how in ("stop", "fork", "auto")}
            process.stdin.close()
            process.stdin = None
            assert process.wait() == 0, "the target was ended"
    except Skip as reason:
        print(f"skipped: {reason}")
        return SKIPPED
    for freeze in frozen.values():
        assert freeze["method"] == "stop", freeze
    assert "huge pages" in frozen["fork"]["why"], frozen["fork"]
    return 0


if __name__ == "__main__":
    sys.exit(main())
