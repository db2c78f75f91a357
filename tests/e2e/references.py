#!/usr/bin/env python3
"""The references and roots in a snapshot say which blocks a program has leaked and which it still holds.

    references.py live|core HEAPSNAP KNOWN_LEAKS LEAK_HOLDER

The snapshot is read by the reader that was written from the specification alone, and what is reachable is
computed here. known_leaks says what must come out. Skipped without gcore (core).
"""

import os
import shutil
import subprocess
import sys
import tempfile

import reference_sources

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unit", "snapshot"))
import read_snapshot  # noqa: E402


class Blocks:
    """The blocks of a snapshot, by number and by address, and those that no root reaches."""

    def __init__(self, path):
        with open(path, "rb") as file:
            snapshot = read_snapshot.Snapshot(file.read())
        record = snapshot.tables["references"][0]
        assert record["is_complete"], record
        self.addresses = [address + 16 for (address, _, state, _, _), _ in snapshot.chunks()
                          if state in ("used", "mmapped")]
        self.addresses += [row["chunk"] + 16 for row in snapshot.tables.get("mmapped_chunks", [])
                           if row["state"] in (0, 8)]
        assert record["blocks"] == len(self.addresses), (record, len(self.addresses))
        self.number_of = {address: number for number, address in enumerate(self.addresses)}
        self.targets = [[] for _ in self.addresses]
        references = 0
        for source, _, target, _ in snapshot.references():
            self.targets[source].append(target)
            references += 1
        assert references == record["references"], (references, record)
        self.places = snapshot.tables["root_places"]
        self.roots = snapshot.tables["roots"]

    def leaked(self):
        reached, todo = set(), [root["target"] for root in self.roots]
        while todo:
            block = todo.pop()
            if block not in reached:
                reached.add(block)
                todo += self.targets[block]
        return {self.addresses[block] for block in range(len(self.addresses)) if block not in reached}

    def places_of(self, address):
        number = self.number_of[address]
        return [self.places[root["place"]] for root in self.roots if root["target"] == number]


def take_snapshot(method, heapsnap, pid, folder):
    if method == "live":
        return reference_sources.take_snapshot(heapsnap, pid, folder)
    snapshot = os.path.join(folder, "known.hsnap")
    core = reference_sources.take_core(pid, folder)
    subprocess.run([heapsnap, "core", core, "-q", "--references", "yes", "-o", snapshot], check=True)
    return snapshot


def check(blocks, said):
    leaked = {address for address, words in said.items() if words[0] == "leaked"}
    found = blocks.leaked()
    for address, words in said.items():
        assert address in blocks.number_of, (hex(address), words, "is no block")
        if words[0] == "kept":
            assert address not in found, (hex(address), words, "is held, and no root reaches it")
    missed, more = leaked - found, found - leaked
    assert not missed, [(hex(address), said[address], blocks.places_of(address)) for address in missed]
    assert not more, [hex(address) for address in more]

    def kinds_of(what):
        return [place["kind"] for address, words in said.items() if words[1] == what
                for place in blocks.places_of(address)]

    assert 3 in kinds_of("register"), kinds_of("register")
    assert 1 in kinds_of("thread_local"), kinds_of("thread_local")
    assert 4 in kinds_of("mapping"), kinds_of("mapping")
    assert 0 in kinds_of("interior"), kinds_of("interior")
    print(f"{len(leaked)} leaked blocks found, {len(said) - len(leaked)} held ones reached")


def main():
    method, heapsnap, target, holder = sys.argv[1:]
    if method == "core" and not shutil.which("gcore"):
        print("skipped: there is no gcore here")
        return 77
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [target, holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        said = reference_sources.said_blocks(process.stdout)
        try:
            blocks = Blocks(take_snapshot(method, heapsnap, process.pid, folder))
        finally:
            process.stdin.close()
    check(blocks, said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
