#!/usr/bin/env python3
"""check_spec.py SAMPLE_PROGRAM: what the writer wrote is what a reader of the specification reads."""

import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the source folder stays as it is
import read_snapshot  # noqa: E402


def main():
    with tempfile.TemporaryDirectory() as folder:
        snapshot, text = os.path.join(folder, "a.hsnap"), os.path.join(folder, "a.txt")
        subprocess.run([sys.argv[1], snapshot, text], check=True)
        with open(text, encoding="ascii") as file:
            expected = file.read().splitlines()
        with open(snapshot, "rb") as file:
            data = file.read()
    found = list(read_snapshot.lines(read_snapshot.Snapshot(data)))
    # Metadata tables may stand in any order, their rows may not: a stable sort by table.
    expected.sort(key=lambda line: line.split(" ", 1)[0])
    found.sort(key=lambda line: line.split(" ", 1)[0])
    for number, (a, b) in enumerate(zip(expected, found)):
        if a != b:
            sys.exit(f"item {number} differs:\n  wrote {a}\n  read  {b}")
    if len(expected) != len(found):
        sys.exit(f"wrote {len(expected)} items, read {len(found)}")
    print(f"{len(found)} items agree, {len(data)} bytes")

    for place in range(0, len(data) - 16, max(1, len(data) // 20)):
        damaged = bytearray(data)
        damaged[16 + place] ^= 0x10
        try:
            list(read_snapshot.lines(read_snapshot.Snapshot(bytes(damaged))))
        except read_snapshot.Damaged:
            continue
        sys.exit(f"damage at offset {16 + place} was not noticed")


if __name__ == "__main__":
    main()
