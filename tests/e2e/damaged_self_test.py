#!/usr/bin/env python3
"""The tests of damaged files can fail: a shell that misbehaves in each of the ways they look for is found out, and the
damage is the same for the same seed."""

import sys
import tempfile

import bounded_run
from bounded_run import BAD_INPUT, DONE, BoundedRun
from byte_damage import ByteDamage
from snapshot_file import (Column, EditedSection, EditedTable, Section, compressed, decompress, read_table, text,
                           varint, zstd_frame)

EXPLAINED = "printf 'heapsnap: cannot read it\\n  why: it is cut off\\n' >&2; "
RUNS = [
    ("exit 0", ""),
    (EXPLAINED + "exit 6", ""),
    ("exit 6", "without an explanation"),
    ("exit 70", "exit code 70"),
    ("exit 1", "exit code 1"),
    ("kill -SEGV $$", "SIGSEGV"),
    ("kill -ABRT $$", "SIGABRT"),
    ("while :; do :; done", "too slow"),
    ("echo 'a.cpp:3:1: runtime error: shift' >&2", "sanitizer"),
    ("echo 'heapsnap: vector::_M_range_check' >&2", "own text"),
    (EXPLAINED + "x=$(head -c 40000000 /dev/zero | tr '\\0' x); exit 6", "MiB of memory"),
]


def check_runs():
    bounded_run.PROCESSOR_SECONDS = 1
    bounded_run.MEMORY = 48 << 20
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        run = BoundedRun("/bin/sh", folder)
        for script, expected in RUNS:
            fault = run("-c", script, codes=(DONE, BAD_INPUT)).fault
            if (expected == "") != (fault == "") or expected not in fault:
                wrong.append(f"{script}: {fault!r}, expected {expected!r}")
    return wrong


def check_damage():
    wrong, data = [], bytes(range(256)) * 8
    changed = []
    for _ in range(2):
        copy = bytearray(data)
        random = ByteDamage(7)
        for _ in range(50):
            random.change(copy)
        changed.append(bytes(copy))
    if changed[0] != changed[1] or changed[0] == data:
        wrong.append("the same seed made other damage, or none")
    return wrong


def check_frames():
    wrong = []
    for frame in zstd_frame(b"abc" * 100000), compressed(b"abc" * 100000):
        if decompress(frame) != b"abc" * 100000:
            wrong.append("a frame holds something else")
    if decompress(zstd_frame(b"abc", repeated=300000)) != b"abc" + bytes(300000):
        wrong.append("a frame of repeated bytes holds something else")
    values = b"".join(varint(value) for value in (5, 300, (1 << 64) - 1))
    table = text(b"t") + varint(3) + varint(1) + text(b"c") + varint(1) + varint(len(values)) + values
    if EditedTable(table).bytes() != table:
        wrong.append("a table comes back changed")
    section = Section(EditedSection(4, 3, 0, [Column(1, table)]).bytes())
    if read_table(section)[1] != [{"c": 5}, {"c": 300}, {"c": (1 << 64) - 1}]:
        wrong.append("a section that was put together is read otherwise")
    return wrong


def main():
    wrong = check_runs() + check_damage() + check_frames()
    for line in wrong:
        print("FAILED:", line)
    print(f"{len(RUNS)} runs, {len(wrong)} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
