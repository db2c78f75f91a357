#!/usr/bin/env python3
"""Objects of Python in the graph of references, against gc's own word:

    python_graph.py HEAPSNAP [VERSION]

What objects refer to is what gc.get_referents says; owners names the variable of a module that keeps a leak, why leads
from it to an object, leaks tells garbage from leaks, objects has what classes retain."""

import ast
import collections
import json
import os
import subprocess
import sys
import tempfile

from python_heap import PYTHON, find_python

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/../unit/snapshot")
import read_snapshot  # noqa: E402

ORDERS = 2000


class Target:
    def __init__(self, python):
        with open(f"{HERE}/python_graph_process.py", encoding="utf-8") as script:
            self.process = subprocess.Popen([python, "-c", script.read(), str(ORDERS)], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.said = ast.literal_eval(self.process.stdout.readline())
        assert self.process.stdout.readline() == "ready\n"
        self.pid = str(self.process.pid)

    def collect(self):
        """The objects that the collector found unreachable, by its own count."""
        self.process.stdin.write("collect\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.communicate()
        assert self.process.returncode == 0, "the process was harmed"


class Graph:
    """What a snapshot says, by address of object."""

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
        self.blocks = blocks + slots
        self.types = {block: snapshot.tables["types"][number]["name"].decode()
                      for block, number in snapshot.block_types()}
        self.targets = collections.defaultdict(list)
        for block, offset, target, interior in snapshot.references():
            self.targets[block].append((offset, target, interior))
        self.by_begin = {begin: number for number, (begin, _) in enumerate(self.blocks)}
        places = snapshot.tables["root_places"]
        self.globals = {places[row["place"]]["name"].decode(): row["target"] for row in snapshot.tables["roots"]
                        if places[row["place"]]["kind"] == 5}

    def block(self, address):
        """Of the object there: headers of up to 32 bytes are in front of it."""
        for header in (0, 16, 32):
            if address - header in self.by_begin:
                return self.by_begin[address - header]
        return None

    def referents(self, block, is_object):
        """The objects that it leads to, through buffers that are none."""
        found, seen, waiting = set(), set(), [block]
        while waiting:
            for _, target, _ in self.targets[waiting.pop()]:
                if target in seen or target == block:
                    continue
                seen.add(target)
                if is_object(target):
                    found.add(target)
                else:
                    waiting.append(target)
        return found


BUFFERS = {"list items", "dict keys", "dict values", "set table", "instance attributes", "bytearray bytes",
           "str characters"}


def check_referents(graph, said):
    # Types in static memory are no blocks; an instance's dict may not exist until somebody asks for it, and its
    # attributes then are what it refers to.
    is_object = lambda block: graph.types.get(block, "") not in BUFFERS | {""}  # noqa: E731
    compared, extra = 0, collections.Counter()
    for address, referents in said["references"].items():
        block = graph.block(address)
        assert block is not None, f"{address:x} is no block"
        expected = {graph.block(one) for one in referents} - {None}
        found = graph.referents(block, is_object)
        missing = expected - found
        assert not missing, (graph.types[block], hex(address), [(graph.types.get(one), graph.blocks[one]) for one in missing])
        for one in found - expected:
            extra[graph.types[block], graph.types.get(one)] += 1
        compared += len(expected)
    return compared, extra


def run(heapsnap, *words):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def find(nodes, kind, name):
    return next((node for node in nodes if node.get(kind) == name), None)


def check_owners(heapsnap, path):
    owners = json.loads(run(heapsnap, "owners", path, "-j", "--limit", "0", "--depth", "6"))["owners"]
    cache = find(owners, "root", "app.CACHE")
    assert cache and cache["kind"] == "global", [node.get("root") for node in owners[:8]]
    # The list, its items, and the orders with their attributes: an order takes 48 bytes and more.
    assert cache["retained_bytes"] > ORDERS * 300, cache
    text = json.dumps(cache)
    assert '"Order"' in text and '"list"' in text, text[:2000]
    for name in ("app.INDEX", "app.SEEN", "app.PAIRS", "app.TABLE"):
        assert find(owners, "root", name), (name, [node.get("root") for node in owners[:30]])
    table = find(owners, "root", "app.TABLE")
    assert table["retained_bytes"] > 100000, table
    print(f"owners: app.CACHE keeps {cache['retained_bytes']} bytes")


def check_why(heapsnap, path, said):
    held = json.loads(run(heapsnap, "why", path, hex(said["order"]), "-j"))
    text = json.dumps(held)
    assert "app.CACHE" in text and "Order" in text, text[:2000]
    # What only a weak reference and a variable of the main module know belongs to that variable.
    held = json.dumps(json.loads(run(heapsnap, "why", path, hex(said["watched"]), "-j")))
    assert "__main__.held" in held and "app.WATCH" not in held, held[:2000]


def main():
    heapsnap = sys.argv[1]
    python = find_python(sys.argv[2]) if len(sys.argv) > 2 else PYTHON
    if python is None or not os.path.exists(python):
        print("skipped: there is no such Python")
        return 77
    with tempfile.TemporaryDirectory() as folder, Target(python) as target:
        path = f"{folder}/a.hsnap"
        run(heapsnap, "attach", target.pid, "--references", "yes", "-o", path)
        graph = Graph(path)
        compared, extra = check_referents(graph, target.said)
        print(f"references: {compared} of {compared} that gc.get_referents gives; besides: {dict(extra)}")
        tracked = [graph.block(address) for address in target.said["collected"]]
        assert tracked.count(None) < 300, tracked.count(None)
        check_owners(heapsnap, path)
        check_why(heapsnap, path, target.said)
        print("collected:", target.collect())
    return 0


if __name__ == "__main__":
    sys.exit(main())
