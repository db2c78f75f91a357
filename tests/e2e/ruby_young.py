#!/usr/bin/env python3
"""Ruby's heap for buffers of young objects (2.6 to 3.2), as a row of the resident memory:

    ruby_young.py HEAPSNAP [FOLDER VERSION...]

Of a running process, of a snapshot and of a core it is what the kernel says of its mapping: 32 MiB of address space, of
which those pages are resident that were used."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from ruby_target import RubyTarget, rubies

COUNT = 20000
ARENA = 32 << 20
# A buffer of each object, in words: those of an array, a struct, an object; a hash has room for eight pairs. With a
# header of two words each.
WORDS = 6 + 5 + 5 + 16 + 4 * 2


def run(heapsnap, *words):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def mappings(pid):
    """(size, resident bytes) of all anonymous mappings that hold an arena."""
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 *\n(?:.*\n)*?Rss: +(\d+) kB", text, re.MULTILINE)
    sizes = [(int(end, 16) - int(begin, 16), int(rss) << 10) for begin, end, rss in found]
    return [one for one in sizes if ARENA <= one[0] < 2 * ARENA]


def rows(heapsnap, path):
    return json.loads(run(heapsnap, "report", path, "-j"))["rss"]["rows"]


def check_rows(found, resident, what):
    ours = found["ruby_transient"]["resident"]
    assert abs(ours - resident) <= resident / 100, (what, ours, resident)
    # That is not told as memory of unknown use any more.
    assert found["other_anonymous"]["resident"] < resident, (what, found)


def check(heapsnap, name, ruby, root):
    with tempfile.TemporaryDirectory() as folder, RubyTarget(ruby, root, "ruby_young_process.rb", COUNT) as target:
        version = [int(number) for number in target.said["version"].split(".")[:2]]
        path = f"{folder}/a.hsnap"
        run(heapsnap, "attach", target.pid, "-q", "-o", path)
        said = run(heapsnap, "report", path)
        if version >= [3, 3]:
            assert rows(heapsnap, path)["ruby_transient"]["resident"] == 0 and "transient" not in said, said
            print(f"Ruby {name}: has none")
            return
        (size, resident), = mappings(target.pid)
        assert resident >= COUNT * WORDS * 8, (resident, COUNT)
        if version != [3, 1]:
            # It is a block of malloc there.
            text, = re.findall(r"One of the mmapped chunks is Ruby's\s+transient\s+heap,\s+for\s+buffers\s+of\s+young\s+objects:\s+([\d.]+) MiB", said)
            assert abs(float(text) * (1 << 20) - resident) <= resident / 50, (text, resident)
            assert rows(heapsnap, path)["mmapped"]["resident"] >= resident
            print(f"Ruby {name}: {text} MiB of an mmapped chunk are its transient heap")
            return
        # The kernel may have joined it with a neighbour, which is small.
        assert size < ARENA + (1 << 20), size
        assert "Ruby's transient heap (young objects)" in said, said
        check_rows(rows(heapsnap, path), resident, "a snapshot")
        live = json.loads(run(heapsnap, "attach", target.pid, "-j", "-f", "-o", path))
        check_rows(live["rss"]["rows"], resident, "a process")
        print(f"Ruby {name}: {resident} bytes of its transient heap are resident")
        if shutil.which("gcore"):
            subprocess.run(["gcore", "-o", f"{folder}/core", target.pid], check=True, capture_output=True)
            run(heapsnap, "core", f"{folder}/core.{target.pid}", "-q", "-f", "-o", path)
            found = rows(heapsnap, path)
            # Of a core, address space counts.
            check_rows(found, ARENA, "a core")
            os.unlink(f"{folder}/core.{target.pid}")


def main():
    heapsnap, *words = sys.argv[1:]
    for name, ruby, root in rubies(words):
        check(heapsnap, name, ruby, root)


if __name__ == "__main__":
    main()
