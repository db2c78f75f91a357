"""The graph of references of a snapshot with the objects of a language runtime, by address."""

import collections
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/../unit/snapshot")
import read_snapshot  # noqa: E402

GLOBAL = 5  # root_places.kind


class ObjectGraph:
    def __init__(self, path):
        with open(path, "rb") as file:
            snapshot = read_snapshot.Snapshot(file.read())
        record, = snapshot.tables["references"]
        assert record["is_complete_with_slots"] == 1 and record["is_complete"] == 0, record
        blocks = [(address + 16, size - 8) for (address, size, state, *_), _ in snapshot.chunks()
                  if state in ("used", "mmapped")]
        blocks += [(row["chunk"] + 16, row["usable"]) for row in snapshot.tables.get("mmapped_chunks", ())]
        slots = list(snapshot.slots())
        assert len(slots) == record["slots"] > 1000 and len(blocks) + len(slots) == record["blocks"], record
        self.first_slot = len(blocks)
        self.blocks = blocks + slots
        names = [row["name"].decode() for row in snapshot.tables["types"]]
        self.types = {block: names[number] for block, number in snapshot.block_types()}
        self.targets = collections.defaultdict(list)
        for block, _, target, _ in snapshot.references():
            self.targets[block].append(target)
        self.number_at = {begin: number for number, (begin, _) in enumerate(self.blocks)}
        self.heaps = [(row["begin"], row["end"]) for name in ("runtime_areas", "segments")
                      for row in snapshot.tables[name]]
        places = snapshot.tables["root_places"]
        self.globals = collections.defaultdict(set)
        self.rooted = {row["target"] for row in snapshot.tables["roots"]}
        for row in snapshot.tables["roots"]:
            place = places[row["place"]]
            if place["kind"] == GLOBAL:
                self.globals[place["name"].decode()].add(row["target"])

    def block_of(self, address):
        """Of the object there, which has up to 32 bytes of its collector's in front; None: it is in none."""
        return next((self.number_at[address - header] for header in (0, 16, 32)
                     if address - header in self.number_at), None)

    def is_in_heap(self, address):
        return any(begin <= address < end for begin, end in self.heaps)

    def referents(self, block, is_object):
        """The objects that it leads to, by itself or through buffers that are none."""
        found, seen, waiting = set(), {block}, [block]
        while waiting:
            for target in self.targets[waiting.pop()]:
                if target in seen:
                    continue
                seen.add(target)
                if is_object(target):
                    found.add(target)
                else:
                    waiting.append(target)
        return found

    def check_referents(self, said, is_object):
        """`said`: addresses of objects, and of what each refers to. Gives how many agree, and what was found besides."""
        agree, besides = 0, collections.Counter()
        for address, referents in said:
            block = self.block_of(address)
            assert block is not None, f"{address:x} is no block"
            expected = {self.block_of(one) for one in referents} - {None}
            found = self.referents(block, is_object)
            missing = [(self.types.get(one), self.blocks[one]) for one in expected - found]
            assert not missing, (self.types.get(block), hex(address), missing)
            agree += len(expected)
            for one in found - expected:
                besides[self.types.get(block), self.types.get(one)] += 1
        return agree, dict(besides)


def check_in_use(heapsnap, path, pid):
    """diff counts what owners counts as in use, also in a snapshot without references."""
    def run(*words):
        return json.loads(subprocess.run([heapsnap, *words], capture_output=True, text=True, check=True).stdout)
    without = f"{path}.without.hsnap"
    subprocess.run([heapsnap, "attach", pid, "-q", "--references", "no", "-o", without], check=True)
    owners = run("owners", path, "-j")
    for snapshot in run("diff", path, without, "-j")["snapshots"]:
        for figure in ("blocks_in_use", "bytes_in_use"):
            assert snapshot[figure] == owners[figure], (figure, snapshot, owners[figure])
