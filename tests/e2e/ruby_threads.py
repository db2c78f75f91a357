#!/usr/bin/env python3
"""What constants of a Ruby program own that hold threads, fibers and enumerators: ruby_threads.py HEAPSNAP [FOLDER VERSION...]

All of them lead to the state of the interpreter, its first ractor, thread and fiber, which last as long as the process does,
whatever lets go of them. None is theirs; what a thread keeps is. Nothing of it is leaked."""

import json
import subprocess
import sys

from ruby_target import RubyTarget, rubies

# A native thread has a control block, a stack of calls of its own, ...; far from the interpreter's 1.8 MiB.
MOST_OF_POOL = 1200 << 10
SLOT = 40


def run(heapsnap, *words, codes=(0,)):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode in codes, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


def main():
    heapsnap, *words = sys.argv[1:]
    for name, ruby, root in rubies(words):
        with RubyTarget(ruby, root, "ruby_threads_process.rb") as target:
            rows = run(heapsnap, "owners", target.pid, "-j", "--depth", "0")["owners"]
            owned = {row["root"]: row["retained_bytes"] for row in rows}
            leaked = run(heapsnap, "leaks", target.pid, "-j", codes=(0, 1))["leaked_bytes"]
        assert owned["WORKERS"] > target.said["strings"] * SLOT, (name, owned["WORKERS"], rows[:4])
        for constant in ("MAIN", "POOL", "READERS", "FIBERS"):
            assert owned.get(constant, 0) < MOST_OF_POOL, (name, constant, owned[constant])
        assert owned.get("MAIN", 0) < 64 << 10, (name, owned["MAIN"])
        assert leaked < 4096, (name, leaked)
        print(f"Ruby {name}:", {one: owned.get(one, 0) for one in ("WORKERS", "MAIN", "POOL", "READERS", "FIBERS")})


if __name__ == "__main__":
    main()
