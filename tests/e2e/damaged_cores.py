#!/usr/bin/env python3
"""A core of a small process is damaged: its ELF header, its program headers, its notes, malloc's state and the heaps
in it. `heapsnap core` reads each, and `heapsnap report` what it wrote: both end in bounded time and memory, with an
exit code of the manual, and say in words why they refuse.

    damaged_cores.py HEAPSNAP TARGETS [--count N] [--seed FIRST]

Core number N of a campaign is made from the seed N alone: --count 1 --seed N makes it again.
"""

import argparse
import pathlib
import resource
import signal
import struct
import subprocess
import sys
import tempfile

from bounded_run import BAD_INPUT, DONE, UNSUPPORTED, BoundedRun
from byte_damage import ByteDamage
from truth_process import SKIPPED, Skip, kernel_core_file

HEADER, SEGMENT = 64, 56
LOAD, NOTE = 1, 4
PRSTATUS, PRPSINFO, AUXV, FILE, SIGINFO = 1, 3, 6, 0x46494C45, 0x53494749
SEGMENT_FIELDS = [(0, 4), (4, 4), (8, 8), (16, 8), (32, 8), (40, 8), (48, 8)]
HEADER_FIELDS = [(4, 1), (5, 1), (16, 2), (18, 2), (24, 8), (32, 8), (40, 8), (52, 2), (54, 2), (56, 2), (58, 2),
                 (60, 2), (62, 2)]
AUXILIARY_TYPES = [3, 4, 5, 6, 7, 9, 25, 31, 33]
STATE_WORDS = 275  # of struct malloc_state


class Core:
    """Where what is of interest lies in the file."""

    def __init__(self, path, lines):
        self.path = path
        self.size = path.stat().st_size
        with open(path, "rb") as file:
            self.head = file.read(1 << 20)
        count = struct.unpack_from("<H", self.head, 56)[0]
        table = struct.unpack_from("<Q", self.head, 32)[0]
        self.segments = [table + i * SEGMENT for i in range(count)]
        self.loads, self.notes = [], {}
        for at in self.segments:
            kind, _, offset, address, _, size, _, _ = struct.unpack_from("<IIQQQQQQ", self.head, at)
            if kind == LOAD and size:
                self.loads.append((address, offset, size))
            elif kind == NOTE:
                self.note_segment = (offset, size)
                self.find_notes(offset, offset + size)
        self.states, self.blocks = [], []
        for line in lines:
            words = line.split()
            if words[0] == "A":
                self.states.append(self.offset_of(int(words[1], 16)))
            elif words[0] == "L" and words[2] != "M":
                self.blocks.append(self.offset_of(int(words[1], 16)))
        self.maps = [self.offset_of(int(line.split()[1], 16)) for line in lines if line.endswith(" M\n")]

    def find_notes(self, at, end):
        while at + 12 <= end:
            name, size, kind = struct.unpack_from("<3I", self.head, at)
            begin = at + 12 + (name + 3 & -4)
            self.notes.setdefault(kind, []).append((at, begin, size))
            at = begin + (size + 3 & -4)

    def offset_of(self, address):
        for begin, offset, size in self.loads:
            if begin <= address < begin + size:
                return offset + address - begin
        raise Skip(f"the core does not hold {address:#x}")


class CoreDamage:
    """What is changed in the core of one seed: bytes at offsets, and where it is cut off."""

    def __init__(self, core, file, seed):
        self.random, self.core, self.file = ByteDamage(seed), core, file
        self.changes, self.end, self.kinds = [], None, []
        ways = [(self.elf_header, 2), (self.segment_headers, 4), (self.note_heads, 2), (self.files, 3),
                (self.threads, 2), (self.auxiliary, 2), (self.signal_and_name, 1), (self.arena, 4),
                (self.arena_text, 1), (self.headers, 3), (self.links, 2), (self.heap_infos, 2),
                (self.any_bytes, 2), (self.cut_off, 1), (self.counters, 1), (self.code_and_symbols, 1)]
        for _ in range(self.random.choice((1, 1, 2, 3))):
            way = self.random.choices([way for way, _ in ways], [weight for _, weight in ways])[0]
            self.kinds.append(way.__name__)
            way()

    def word(self, at, size=8, value=None):
        self.file.seek(at)
        old = int.from_bytes(self.file.read(size), "little")
        if value is None:
            value = self.random.number(old)
        self.put(at, (value & ((1 << 8 * size) - 1)).to_bytes(size, "little"))

    def put(self, at, data):
        self.file.seek(at)
        old = self.file.read(len(data))
        self.changes.append((at, old))
        self.file.seek(at)
        self.file.write(data[:len(old)])

    def undo(self):
        for at, old in reversed(self.changes):
            self.file.seek(at)
            self.file.write(old)
        self.file.flush()

    def elf_header(self):
        at, size = self.random.choice(HEADER_FIELDS)
        self.word(at, size)

    def segment_headers(self):
        for _ in range(self.random.choice((1, 1, 2, 6))):
            at, size = self.random.choice(SEGMENT_FIELDS)
            target = self.random.choice(self.core.segments)
            value = None
            if self.random.random() < 0.3:  # on top of another
                other = self.random.choice(self.core.segments)
                value = int.from_bytes(self.core.head[other + at:other + at + size], "little")
            self.word(target + at, size, value)

    def note(self, kind):
        return self.random.choice(self.core.notes[kind])

    def note_heads(self):
        kind = self.random.choice(sorted(self.core.notes))
        self.word(self.note(kind)[0] + self.random.choice((0, 4, 8)), 4)

    def files(self):
        _, begin, size = self.note(FILE)
        count = struct.unpack_from("<Q", self.core.head, begin)[0]
        how = self.random.randrange(6)
        if how == 0:
            self.word(begin + self.random.choice((0, 8)))
        elif how == 1:
            name = begin + 16 + 24 * count
            self.put(self.random.randrange(name, begin + size), self.random.choice((b"\0", b"\xff", b"/" * 40, b"\n")))
        elif how == 2:  # other names: devices, links, and files that are not what was mapped
            name = begin + 16 + 24 * count
            path = self.random.choice((b"/dev/zero\0", b"/dev/stdin\0", b"/proc/self/mem\0", b"/etc/passwd\0", b"/\0",
                                       b"/bin/sh\0", b"/dev/tty\0"))
            self.put(name, path)
        else:
            for _ in range(self.random.choice((1, 3))):
                self.word(begin + 16 + 8 * self.random.randrange(3 * count))

    def threads(self):
        _, begin, _ = self.note(PRSTATUS)
        self.word(begin + self.random.choice((12, 32, 112 + 8 * 16, 112 + 8 * 19, 112 + 8 * 21)))

    def auxiliary(self):
        _, begin, size = self.note(AUXV)
        for at in range(begin, begin + size - 16, 16):
            kind = struct.unpack_from("<Q", self.core.head, at)[0]
            if kind in AUXILIARY_TYPES and self.random.random() < 0.3:
                self.word(at + 8)
        self.word(begin + 8 * self.random.randrange(size // 8))

    def signal_and_name(self):
        _, begin, size = self.note(self.random.choice((PRPSINFO, SIGINFO)))
        self.put(begin + self.random.randrange(size), self.random.randbytes(self.random.randrange(1, 30)))

    def arena(self):
        state = self.random.choice(self.core.states)
        fields = (0, 1, 4, 12, 13, 14, 15, 16, 268, 270, 271, 272, 273, 274)
        for _ in range(self.random.choice((1, 1, 3))):
            at = self.random.choice((self.random.choice(fields), self.random.randrange(STATE_WORDS)))
            value = None
            if self.random.random() < 0.3:  # what another arena has there
                self.file.seek(self.random.choice(self.core.states) + 8 * at)
                value = int.from_bytes(self.file.read(8), "little")
            self.word(state + 8 * at, value=value)

    def arena_text(self):
        state, first = self.random.choice(self.core.states), self.random.randrange(STATE_WORDS)
        self.put(state + 8 * first, self.random.choice((b"\0", b"A", b"\xff")) * (8 * self.random.randrange(1, 276)))

    def headers(self):
        for _ in range(self.random.choice((1, 4, 300))):
            self.word(self.random.choice(self.core.blocks) - self.random.choice((8, 8, 16)))

    def links(self):
        """Of what is free, where it follows a block; and words in blocks that look like headers."""
        for _ in range(self.random.choice((1, 20))):
            at = self.random.choice(self.core.blocks)
            self.word(at + 16 * self.random.randrange(8) + self.random.choice((0, 8)),
                      value=self.random.choice((None, 0x31, 0x21, 0x12d682, (1 << 40) | 2)))

    def heap_infos(self):
        """In front of the arenas of threads; and the tcache behind them."""
        state = self.random.choice(self.core.states[1:])
        self.word(state - 48 + 8 * self.random.randrange(5))
        if self.random.random() < 0.5:
            self.word(state + 2208 + 8 * self.random.randrange(82))

    def counters(self):
        """mp_ lies near the main arena."""
        self.word(self.core.states[0] + 8 * self.random.randrange(-300, 0))
        if self.random.random() < 0.5:
            self.word(self.random.choice(self.core.maps) - 8)

    def code_and_symbols(self):
        """Files' first pages: ELF headers, notes with build-ids, dynamic sections."""
        _, offset, size = self.random.choice(self.core.loads)
        for _ in range(5):
            self.word(offset + 8 * self.random.randrange(min(size, 4096) // 8))

    def any_bytes(self):
        for _ in range(self.random.choice((1, 8, 200))):
            _, offset, size = self.random.choice(self.core.loads)
            self.put(offset + self.random.randrange(size), self.random.randbytes(self.random.choice((1, 8, 64))))

    def cut_off(self):
        self.end = self.random.choice((self.random.randrange(self.core.size), self.random.randrange(8192)))


def make_core(program, seed, folder):
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    with kernel_core_file() as prefix:
        done = subprocess.run([program, "sound", str(seed)], input="abort\n", stdout=subprocess.PIPE, text=True,
                              cwd=folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, unlimited))
        cores = list(folder.glob(prefix + "*"))
    lines = done.stdout.splitlines(keepends=True)
    if lines and lines[-1].startswith("unfit"):
        raise Skip(lines[-1].strip())
    if done.returncode != -signal.SIGABRT or len(cores) != 1:
        raise Skip(f"the kernel wrote no core: the target ended with {done.returncode}")
    path = folder / "damaged"
    cores[0].rename(path)
    return Core(path, lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heapsnap")
    parser.add_argument("targets", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    failures, kinds = [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = BoundedRun(arguments.heapsnap, folder)
        try:
            core = make_core(arguments.targets / "damaged_heap", 1, folder)
        except Skip as why:
            print("skipped:", why)
            return SKIPPED
        snapshot = folder / "snapshot"
        with open(core.path, "r+b") as file:
            for seed in range(arguments.seed, arguments.seed + arguments.count):
                damage = CoreDamage(core, file, seed)
                file.flush()
                path = core.path
                if damage.end is not None:
                    path = folder / "cut_off"
                    file.seek(0)
                    path.write_bytes(file.read(damage.end))
                what = f"seed {seed} ({', '.join(damage.kinds)})"
                for kind in damage.kinds:
                    kinds[kind] = kinds.get(kind, 0) + 1
                snapshot.unlink(missing_ok=True)
                files = [] if seed % 3 else ["--no-debug-files"]
                read = run("core", path, "-q", "-f", "-o", snapshot, *files, input_size=core.size, name=what,
                           codes=(DONE, UNSUPPORTED, BAD_INPUT))
                verdicts = [read]
                # Without a malloc in it, a snapshot is written all the same.
                if snapshot.exists():
                    verdicts += [run("report", snapshot, input_size=core.size, name=what, codes=(DONE,))]
                elif read.code == DONE:
                    read.fault = read.fault or "no snapshot"
                for verdict in verdicts:
                    if verdict.fault:
                        failures.append(what)
                        print(f"FAILED: {what}: {verdict.words[0]}: {verdict.fault}\n{verdict.errors[-3000:]}",
                              flush=True)
                damage.undo()
                if (seed - arguments.seed) % 300 == 299:
                    print(f"{seed - arguments.seed + 1} cores: {run.summary()}", flush=True)
    print(f"{arguments.count} cores of {core.size >> 20} MiB; {run.summary()}")
    print(", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items())))
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
