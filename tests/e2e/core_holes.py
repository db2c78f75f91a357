#!/usr/bin/env python3
"""A core lists far more memory than it holds: 64 TiB that were excluded from it (madvise(2),
MADV_DONTDUMP), say. What is not there costs no time, with --contents neither.

    core_holes.py HEAPSNAP
"""

import pathlib
import resource
import struct
import subprocess
import sys
import tempfile

PAGE = 4096
LISTED = 1 << 46
PROCESSOR_SECONDS = 20  # where it was searched, it took minutes
NO_MALLOC = 5
DAMAGED = 6


def header(segments):
    identity = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    return identity + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, segments, 64, 0, 0)


def load(offset, address, file_size, memory_size):
    return struct.pack("<IIQQQQQQ", 1, 6, offset, address, 0, file_size, memory_size, PAGE)


def core():
    """Two pages of writable memory, and all that is listed between them."""
    contents = [b"A" * PAGE, b"B" * PAGE]
    begin = 0x10000000
    segments = [(begin, PAGE), (begin + PAGE, LISTED), (begin + PAGE + LISTED, PAGE)]
    data, table, left = b"", b"", list(contents)
    at = 64 + 56 * len(segments)
    for address, size in segments:
        held = left.pop(0) if size == PAGE else b""
        table += load(at + len(data), address, len(held), size)
        data += held
    return header(len(segments)) + table + data


def one_segment(size):
    """At the begin of the address space."""
    return header(1) + load(PAGE, 0, PAGE, size) + bytes(PAGE - 64 - 56) + b"A" * PAGE


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))


def main():
    heapsnap = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "core"
        path.write_bytes(core())
        sizes = []
        for options in [], ["--contents"]:
            out = f"{folder}/{len(sizes)}.hsnap"
            done = subprocess.run([heapsnap, "core", path, "-q", "-o", out, *options],
                                  stderr=subprocess.PIPE, text=True, preexec_fn=limit, check=False)
            if done.returncode != NO_MALLOC or "no glibc malloc" not in done.stderr:
                sys.exit(f"FAILED: {options}: exit code {done.returncode}: {done.stderr}")
            report = subprocess.run([heapsnap, "report", out], capture_output=True, text=True,
                                    check=False)
            if report.returncode != 0 or "64.0 TiB" not in report.stdout:
                sys.exit(f"FAILED: the report: {report.stderr}{report.stdout}")
            held = pathlib.Path(out).read_bytes()
            sizes.append(len(held))
        if sizes[1] <= sizes[0]:
            sys.exit("FAILED: --contents kept nothing")
        # As much as an address space may have, and more.
        for size, code in ((1 << 57, NO_MALLOC), ((1 << 64) - 1, DAMAGED)):
            path.write_bytes(one_segment(size))
            done = subprocess.run([heapsnap, "core", path, "-q", "-o", f"{folder}/whole.hsnap"],
                                  stderr=subprocess.PIPE, text=True, preexec_fn=limit, check=False)
            if done.returncode != code:
                sys.exit(f"FAILED: a segment of {size} bytes: exit code {done.returncode}: {done.stderr}")
    print("what the core does not hold was not searched, and what it holds was kept")


if __name__ == "__main__":
    main()
