#!/usr/bin/env python3
"""Objects of Python in the graph of references, against gc's own word:

    python_graph.py HEAPSNAP [VERSION]

What objects refer to is what gc.get_referents says; owners names the variable of a module that keeps a leak, why leads
from it to an object, leaks tells garbage from leaks, objects has what classes retain."""

import ast
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from object_graph import ObjectGraph, check_in_use
from python_heap import find_python

HERE = os.path.dirname(os.path.abspath(__file__))

ORDERS = 2000


class Target:
    def __init__(self, python):
        with open(f"{HERE}/python_graph_process.py", encoding="utf-8") as script:
            self.process = subprocess.Popen([*python, "-c", script.read(), str(ORDERS)], text=True, cwd="/",
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.said = ast.literal_eval(self.process.stdout.readline())
        self.collected = ast.literal_eval(self.process.stdout.readline())
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


BUFFERS = {"list items", "dict keys", "dict values", "set table", "instance attributes", "bytearray bytes",
           "str characters", "array items", "deque block", "OrderedDict table", "OrderedDict node", ""}


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
    held = json.loads(run(heapsnap, "why", hex(said["order"]), path, "-j", "--limit", "20"))
    text = json.dumps(held)
    assert "app.CACHE" in text and "Order" in text, text[:2000]
    # What only a weak reference and a variable of the main module know belongs to that variable.
    held = json.dumps(json.loads(run(heapsnap, "why", hex(said["watched"]), path, "-j", "--limit", "20")))
    assert "__main__.held" in held and "app.WATCH" not in held, held[:2000]


def check_leaks(heapsnap, path, collected):
    leaks = json.loads(run(heapsnap, "leaks", path, "-j"))
    # 50 rings of two lists with their items, less what is left on a stack, and what else only the collector frees.
    assert 160 <= leaks["garbage_blocks"] <= 4 * collected + 500, (leaks["garbage_blocks"], collected)
    snapshots = json.loads(run(heapsnap, "diff", path, path, "--by", "owner", "-j"))["snapshots"]
    assert [one["garbage_bytes"] for one in snapshots] == [leaks["garbage_bytes"]] * 2, snapshots
    rows = run(heapsnap, "export", path, "--format", "ndjson", "--rows", "flat")
    assert rows.count('"leaked":true') == leaks["leaked_blocks"], leaks["leaked_blocks"]
    print(f"leaks: {leaks['garbage_blocks']} blocks are garbage, {leaks['leaked_blocks']} leaked; the collector finds "
          f"{collected} objects")


def check_objects(heapsnap, path):
    rows = {row["type"]: row for row in json.loads(run(heapsnap, "objects", path, "-j"))["objects"]}
    order = rows["Order"]
    assert order["count"] == ORDERS + 4, order
    # With its attributes, its note, its list, and the tuple in that.
    assert order["retained_bytes"] > ORDERS * 300 > order["bytes"], order
    assert " retained " in run(heapsnap, "objects", path)


def check_history(heapsnap, path, later):
    series = json.loads(run(heapsnap, "history", path, later, "-j"))["series"]
    orders = [one for one in series if one["of"] == "class" and one["name"] == "Order"]
    assert len(orders) == 1 and min(orders[0]["values"]) > ORDERS * 48, orders
    assert not any(one["of"] == "type" and one["name"] == "Order" for one in series)
    kept = [one for one in series if one["of"] == "owner" and one["name"].startswith("app.CACHE")]
    assert len(kept) == 1, [one["name"] for one in series if one["of"] == "owner"][:20]


def check_pictures(heapsnap, folder, path):
    """Slots are blocks of the graph, but no chunks of the picture."""
    for colors in ("type", "leak"):
        picture = f"{folder}/{colors}.png"
        run(heapsnap, "render", path, "--color-by", colors, "-o", picture)
        assert pathlib.Path(picture).read_bytes().startswith(b"\x89PNG")


def check_left_out(heapsnap, folder, pid):
    """Whoever leaves the interpreter out reads that it was."""
    path = f"{folder}/without.hsnap"
    run(heapsnap, "attach", pid, "--references", "yes", "--runtimes", "no", "-o", path)
    for verb in ("owners", "types", "report"):
        screen = " ".join(run(heapsnap, verb, path).split())
        assert "the heap of Python was not read: the snapshot was taken with --runtimes no" in screen, screen


# Of a class of 944 bytes behind its header of 16, a block of 968: the last word is as it was before.
CLASSES = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
held = libc.malloc(100000)
for size in range(904, 1160, 16):
    blocks = [libc.malloc(size) for _ in range(1000)]
    for block in blocks:
        for at in range(0, size, 8):
            ctypes.c_uint64.from_address(block + at).value = held + 64
    for block in blocks[::2]:
        libc.free(block)
classes = [type(f"Class{i}", (), {"__slots__": ("a", "b", "c")[:i % 4]}) for i in range(1000)]
print(held, flush=True)
sys.stdin.read()
"""


def check_class_ends(heapsnap, folder, python):
    """No word behind the end of a class is a reference."""
    path = f"{folder}/classes.hsnap"
    with subprocess.Popen([*python, "-c", CLASSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        held = int(process.stdout.readline())
        run(heapsnap, "attach", str(process.pid), "--references", "yes", "-o", path)
        process.stdin.close()
    graph = ObjectGraph(path)
    target = graph.block_of(held)
    sources = collections.Counter(graph.types.get(block, "") for block, targets in graph.targets.items() if target in targets)
    assert target is not None and sources[""] > 1000 and not sources["type"], sources


def main():
    heapsnap = sys.argv[1]
    python = find_python(sys.argv[2:])
    with tempfile.TemporaryDirectory() as folder, Target(python) as target:
        check_class_ends(heapsnap, folder, python)
        path = f"{folder}/a.hsnap"
        run(heapsnap, "attach", target.pid, "--references", "yes", "-o", path)
        graph = ObjectGraph(path)
        agree, besides = graph.check_referents(target.said["references"].items(),
                                               lambda block: graph.types.get(block, "") not in BUFFERS)
        print(f"references: {agree} of {agree} that gc.get_referents gives; besides: {besides}")
        assert not any(source == "array.array" for source, _ in besides), besides
        # All that the collector knows, but for what lies in the interpreter's own data.
        missing = [address for address in target.collected if graph.block_of(address) is None]
        lost = [address for address in missing if graph.is_in_heap(address)]
        assert len(lost) < 10, (len(lost), len(target.collected))  # what it takes to list them
        assert len(missing) < len(target.collected) // 4, (len(missing), len(target.collected))
        assert len(graph.globals["app.CACHE"]) == 1, graph.globals
        kinds = {kind: sum(name == kind for name in graph.types.values()) for kind in BUFFERS}
        # 64 items each; ten nodes.
        assert kinds["deque block"] >= 5 and kinds["OrderedDict node"] >= 10, kinds
        assert kinds["array items"] >= 1 and kinds["OrderedDict table"] >= 1, kinds
        check_in_use(heapsnap, path, target.pid)
        check_owners(heapsnap, path)
        check_owners(heapsnap, target.pid)
        if shutil.which("gcore"):
            subprocess.run(["gcore", "-o", f"{folder}/core", target.pid], check=True, capture_output=True)
            check_owners(heapsnap, f"{folder}/core.{target.pid}")
        check_left_out(heapsnap, folder, target.pid)
        check_why(heapsnap, path, target.said)
        check_objects(heapsnap, path)
        check_pictures(heapsnap, folder, path)
        check_leaks(heapsnap, path, target.collect())
        later = f"{folder}/b.hsnap"
        run(heapsnap, "attach", target.pid, "--references", "yes", "-o", later)
        check_history(heapsnap, path, later)
    return 0


if __name__ == "__main__":
    sys.exit(main())
