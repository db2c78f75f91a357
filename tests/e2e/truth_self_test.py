#!/usr/bin/env python3
"""Proves that the truth test can fail: hand-made exports, each with one lie in it."""

import json
import sys

from truth_heap import EXTRA_CHUNKS, Export, Truth, check_sums, check_threads, compare, compare_exports

TRUTH = """\
T 10
L 0x1010 24 U
L 0x1030 40 U
L 0x20010 135152 M
F 0x1060
R 0x2000 0x3000
ready 3 1
"""
HEADER = {"kind": "snapshot", "version": 1, "pid": 10}
CHUNKS = [
    {"addr": "0x1010", "size": 32, "usable": 24, "state": "used", "arena": 0},
    {"addr": "0x1030", "size": 48, "usable": 40, "state": "used", "arena": 0},
    {"addr": "0x1060", "size": 3984, "usable": 3976, "state": "unsorted", "arena": 0},
    {"addr": "0x1ff0", "size": 16, "usable": 0, "state": "fence", "arena": 0},
    {"addr": "0x3010", "size": 4080, "usable": 0, "state": "top", "arena": 0},
    {"addr": "0x20010", "size": 135168, "usable": 135152, "state": "mmapped", "arena": -1},
]


def export_of(chunks, earlier=None):
    rows = [HEADER] + [{"kind": "chunk", **chunk} for chunk in chunks]
    return Export("\n".join(json.dumps(row) for row in rows) + "\n", earlier)


def changed(index, **changes):
    return [{**chunk, **(changes if i == index else {})} for i, chunk in enumerate(CHUNKS)]


EXTRA = [{"addr": hex(0x3010 + 32 * i), "size": 32, "usable": 24, "state": "used", "arena": 0}
         for i in range(EXTRA_CHUNKS + 1)]
# What is wrong with the export, the export, a part of the complaint that must come.
LIES = [
    ("a live block is missing", CHUNKS[1:], "live block not found"),
    ("a live block is free", changed(1, state="tcache"), "live block is used, not tcache"),
    ("a mapped block is used", changed(5, state="used"), "live block is mmapped, not used"),
    ("a size is wrong by 8", changed(1, usable=48), "wrong usable size"),
    ("a mapped size is wrong by 8", changed(5, usable=135160), "wrong usable size"),
    ("a freed block is used", changed(2, state="used"), "freed block reported as live"),
    ("a freed block is inside of a used one", changed(1, size=96, usable=88)[:2] + CHUNKS[3:], "freed block reported as live"),
    ("chunks overlap", changed(0, size=64), "chunks overlap"),
    ("a chunk in foreign memory", CHUNKS[:4] + [{**CHUNKS[4], "addr": "0x2810"}] + CHUNKS[5:], "not the allocator's"),
    ("a chunk reaches into foreign memory", changed(2, size=4064)[:3] + CHUNKS[4:], "not the allocator's"),
    ("blocks that nobody allocated", CHUNKS[:4] + EXTRA + CHUNKS[5:], "knows nothing of"),
]
STATES = {"used": {"count": 2, "bytes": 80}, "unsorted": {"count": 1, "bytes": 3984},
          "fence": {"count": 1, "bytes": 16}, "top": {"count": 1, "bytes": 4080},
          "mmapped": {"count": 1, "bytes": 135168}}
REPORT = {"states": STATES, "thread_caches": [{"tid": 10, "arena": 0, "tcache": "0x3010"}]}
WRONG_REPORTS = [
    (check_sums, {"states": {**STATES, "used": {"count": 3, "bytes": 80}}}, "differ in count"),
    (check_sums, {"states": {**STATES, "top": {"count": 1, "bytes": 4096}}}, "differ in bytes"),
    (check_threads, {"thread_caches": []}, "wrong threads"),
    (check_threads, {"thread_caches": [{"tid": 10, "arena": -1, "tcache": "0x0"}]}, "without an arena"),
    (check_threads, {"thread_caches": [{"tid": 10, "arena": 0, "tcache": "0x0"},
                                       {"tid": 11, "arena": 0, "tcache": "0x3010"}]}, "without a tcache"),
]
BROKEN_TARGETS = ["", "L 0x10 24 U\n", "L 0x10 24 U\nready 2 0\n", "what\nready 0 0\n"]


def main():
    failures = []
    truth = Truth(TRUTH.splitlines())
    for line in compare(truth, export_of(CHUNKS)).lines():
        failures.append(f"the truth itself was refused: {line}")
    for name, chunks, expected in LIES:
        lines = list(compare(truth, export_of(chunks)).lines())
        if not any(expected in line for line in lines):
            failures.append(f"{name}: no complaint with '{expected}', but {lines}")
        live = export_of(CHUNKS)
        if not list(compare_exports(live, export_of(chunks, live), "live", "core").lines()):
            failures.append(f"{name}: the two exports passed as equal")
    live = export_of(CHUNKS)
    for core in (export_of(CHUNKS), export_of(CHUNKS, live)):
        if list(compare_exports(live, core, "live", "core").lines()):
            failures.append("two equal exports passed as different")
    subject = {check_sums: export_of(CHUNKS), check_threads: truth}
    for check in subject:
        failures += [f"a right report was refused: {line}" for line in check(subject[check], REPORT).lines()]
    for check, report, expected in WRONG_REPORTS:
        lines = list(check(subject[check], report).lines())
        if not any(expected in line for line in lines):
            failures.append(f"a wrong report: no complaint with '{expected}', but {lines}")
    for text in BROKEN_TARGETS:
        try:
            Truth(text.splitlines())
            failures.append(f"output of a broken target was taken: {text!r}")
        except (ValueError, KeyError, IndexError):
            pass
    for failure in failures:
        print(failure)
    print(f"truth self-test: {2 * len(LIES) + len(WRONG_REPORTS) + len(BROKEN_TARGETS) + 5} cases, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
