#!/usr/bin/env python3
"""Makes the pictures of docs/pictures.md: pictures.py BUILD

BUILD is a build folder (build/dev); the demo programs in it and its heapsnap are used. Each picture is of a program that
is started, looked at and ended; addresses, times and PIDs in them are those of that run. `huge-pages` needs transparent
huge pages (/sys/kernel/mm/transparent_hugepage/enabled not "never")."""

import os
import subprocess
import sys
import tempfile

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "pictures")
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1"}
# Name of the picture, the program with its arguments, its environment, and how it is drawn.
PICTURES = [
    ("fragmentation.png", ["leaky_server", "100"], {}, []),
    ("fragmentation-detail.png", ["leaky_server", "100"], {}, ["--region", "arena 1", "--first-bytes"]),
    ("leak.png", ["forgetful_server"], {}, ["--color-by", "leak"]),
    ("huge-pages.png", ["leaky_server", "60"], HUGE_PAGES, ["--color-by", "residency"]),
]
DETAIL_BYTES = 96 * 1024


def first_bytes(heapsnap, snapshot, options):
    """Of an arena, the first of its addresses instead of all."""
    if "--first-bytes" not in options:
        return options
    import json
    report = json.loads(subprocess.run([heapsnap, "report", "-j", snapshot], check=True, capture_output=True).stdout)
    segment = next(segment for segment in report["segments"] if segment["arena"] == 1)
    begin = int(segment["begin"], 16) // 4096 * 4096 + 4 * 1024 * 1024
    return ["--region", f"{begin:#x}-{begin + DETAIL_BYTES:#x}"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = sys.argv[1]
    heapsnap = os.path.join(build, "tools/heapsnap/heapsnap")
    os.makedirs(DOCS, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        snapshot = os.path.join(folder, "a.hsnap")
        for name, command, environment, options in PICTURES:
            program = os.path.join(build, "tools/demo", command[0])
            with subprocess.Popen([program, *command[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env={**os.environ, **environment}) as target:
                target.stdout.readline()
                subprocess.run([heapsnap, "attach", "-q", "-f", "--references", "yes", "-o", snapshot, str(target.pid)],
                               check=True)
                target.stdin.close()
            picture = os.path.join(DOCS, name)
            subprocess.run([heapsnap, "render", snapshot, "-f", "-o", picture, *first_bytes(heapsnap, snapshot, options)],
                           check=True)
            os.chmod(picture, 0o644)


main()
