#!/usr/bin/env python3
"""Uprobes on the entry points of the allocator, as perf probe and bpftrace set them, together with the tracker.

    uprobes.py CASE HEAPSNAP MALLOC_CHURN

The kernel writes a breakpoint over an entry point's first byte, executes the instruction of the file in its place, and
goes on behind it; later the first byte of the file is put back. The target checks every byte that it has allocated, the
probes count their hits. Exit code 77: skipped, with the reason.
"""

import ctypes
import itertools
import os
import pathlib
import re
import struct
import subprocess
import sys

SKIP = 77
REFUSED = 5
PERF_EVENT_OPEN = 298  # x86-64
TYPE = pathlib.Path("/sys/bus/event_source/devices/uprobe/type")
FUNCTIONS = ("malloc", "calloc", "realloc", "free", "memalign", "posix_memalign", "reallocarray")


def c_library(pid):
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    return re.search(r"r-xp .* (/\S*/libc\.so\.6)$", maps, re.MULTILINE)[1]


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True).stdout


def entry_points(path):
    """Offset in the file of each function's first instruction."""
    code = re.search(r"^ +LOAD +(0x\w+) (0x\w+) .* R E ", readelf("-l", path), re.MULTILINE)
    shift = int(code[1], 16) - int(code[2], 16)
    symbols = re.findall(r": (\w+) .* (\w+)@@GLIBC", readelf("--dyn-syms", path))
    return {int(address, 16) + shift for address, name in symbols if name in FUNCTIONS}


class Probes:
    """One on each entry point, as long as it is open."""

    def __init__(self, pid):
        path = c_library(pid)
        name = ctypes.create_string_buffer(path.encode())
        syscall = ctypes.CDLL(None, use_errno=True).syscall
        self.descriptors = []
        threads = [int(entry) for entry in os.listdir(f"/proc/{pid}/task")]
        for tid, offset in itertools.product(threads, entry_points(path)):
            # struct perf_event_attr of 128 bytes: type, size; config1 the path's address, config2 the offset.
            attributes = bytearray(128)
            struct.pack_into("<II", attributes, 0, int(TYPE.read_text(encoding="ascii")), len(attributes))
            struct.pack_into("<QQ", attributes, 56, ctypes.addressof(name), offset)
            buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
            descriptor = syscall(PERF_EVENT_OPEN, buffer, tid, -1, -1, 0)
            if descriptor < 0:
                raise OSError(ctypes.get_errno(), f"perf_event_open of a uprobe: {os.strerror(ctypes.get_errno())}")
            self.descriptors.append(descriptor)

    def hits(self):
        return sum(struct.unpack("<Q", os.read(descriptor, 8))[0] for descriptor in self.descriptors)

    def close(self):
        for descriptor in self.descriptors:
            os.close(descriptor)


class Target:
    def __init__(self, heapsnap, program, threads):
        self.heapsnap = heapsnap
        self.process = subprocess.Popen([program, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def run(self, verb):
        return subprocess.run([self.heapsnap, verb, str(self.pid)], capture_output=True, text=True, check=False)

    def call(self, verb, code=0):
        done = self.run(verb)
        assert done.returncode == code, (verb, done.returncode, done.stderr)
        return done.stderr

    def trim(self):
        """Again, as heapsnap says: a single thread that each entry point delays is rarely outside the allocator."""
        for _ in range(10):
            done = self.run("trim")
            if done.returncode == 0:
                return
            assert done.returncode == REFUSED and "do:  try again when it is doing something else" in done.stderr, done
        raise AssertionError(done)

    def probe(self, also=lambda: None):
        probes = Probes(self.pid)
        also()
        while probes.hits() < 1000:  # it never stops to call them
            assert self.process.poll() is None, self.process.returncode
        probes.close()

    def end(self):
        output = self.process.communicate("")[0]
        assert self.process.returncode == 0 and output.startswith("errors=0 "), (self.process.returncode, output)


def after_inject(target):
    target.call("inject")
    target.probe()
    target.call("eject")
    target.probe()


def across_eject(target):
    target.call("inject")
    target.probe(lambda: target.call("eject"))
    target.call("inject")
    target.call("eject")


def across_trim(target):
    target.probe(target.trim)


def before_inject(target):
    target.probe(lambda: check_refusal(target.call("inject", REFUSED)))
    target.call("inject")
    target.probe()
    target.call("eject")


def check_refusal(words):
    assert "a debugger or a uprobe (perf probe, bpftrace) has a breakpoint on its first instruction" in words, words


CASES = {case.__name__: case for case in (after_inject, across_eject, across_trim, before_inject)}


def main():
    case, heapsnap, program = sys.argv[1:4]
    if not TYPE.exists() or os.geteuid() != 0:
        print("skipped: uprobes need root and a kernel that has them")
        return SKIP
    for threads in (0, 1, 3):
        target = Target(heapsnap, program, threads)
        try:
            CASES[case](target)
            target.end()
        finally:
            target.process.kill()
            target.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
