#!/usr/bin/env python3
"""Objects of Ruby in the graph of references, against ObjectSpace's own word:

    ruby_graph.py HEAPSNAP [FOLDER VERSION...]

What objects refer to is what ObjectSpace.dump says; owners names the constant, global variable, class variable or variable
of a class that keeps a leak, why leads from it to an object, objects has what classes retain."""

import json
import subprocess
import sys
import tempfile

from object_graph import ObjectGraph, check_in_use
from ruby_target import RubyTarget, rubies

ORDERS = 2000
INTERNED = 500
CAREFUL = 1000
ENDED = 1000
WEAK = 1000


def run(heapsnap, *words):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def check_owners(heapsnap, path):
    owners = json.loads(run(heapsnap, "owners", path, "-j", "--depth", "6"))["owners"]
    by_name = {node.get("root"): node for node in owners}
    store = by_name.get("Cache::STORE")
    assert store and store["kind"] == "global", [(node.get("root"), node["retained_bytes"]) for node in owners[:8]]
    # An order, its array and hash, and two strings of more than 100 bytes.
    assert store["retained_bytes"] > ORDERS * 350, store
    text = json.dumps(store)
    assert '"Hash"' in text and '"Order"' in text, text[:2000]
    assert {"Cache::SEEN", "Service::Registry::ITEMS", "$queue", "Service::Registry.@@known",
            "Service::Registry.@last"} <= by_name.keys(), list(by_name)[:60]
    # A thousand strings, which the end of another array had, too.
    kept = by_name.get("Cache::KEPT")
    assert kept and kept["retained_bytes"] > 1000 * 150, (kept, list(by_name)[:20])
    for name, files, least in (("READERS", 200, 8000), ("WRITERS", 100, 8000), ("CONVERTERS", 100, 16000)):
        streams = by_name.get(f"Cache::{name}")
        assert streams and streams["retained_bytes"] > files * least, (name, streams, list(by_name)[:20])
    # Variables of objects that have no room for them are theirs: an array and a string.
    for name, objects, least in (("NOTED", 400, 250), ("MOTLEY", 50, 450), ("VARIED", 20, 10000)):
        noted = by_name.get(f"Cache::{name}")
        assert noted and noted["retained_bytes"] > objects * least, (name, noted, list(by_name)[:20])
    # What is in Ruby's heap for young objects is theirs.
    young = by_name.get("Cache::YOUNG")
    assert young and young["retained_bytes"] > 300 * (300 + 300 + 200 + 150), (young, list(by_name)[:20])
    print(f"owners: Cache::STORE keeps {store['retained_bytes']} bytes")


def check_buffers(heapsnap, path):
    """What objects have in blocks of malloc has a name, as often as the program made it."""
    counts = {row["type"]: row["count"] for row in json.loads(run(heapsnap, "types", path, "-j"))["types"]}
    for kind, least in (("Array items", 500), ("Struct members", 500), ("Object variables", 500), ("Integer digits", 500),
                        ("method code", 100), ("method definition", 100), ("IO buffer", 500)):
        assert counts.get(kind, 0) >= least, (kind, counts.get(kind), counts)
    print("buffers:", ", ".join(f"{counts[kind]} {kind}" for kind in ("Array items", "Struct members", "Object variables")))


def check(heapsnap, name, ruby, root):
    with tempfile.TemporaryDirectory() as folder, RubyTarget(ruby, root, "ruby_graph_process.rb", ORDERS, INTERNED) as target:
        print(f"Ruby {name}:")
        path = f"{folder}/a.hsnap"
        run(heapsnap, "attach", target.pid, "--references", "yes", "-o", path)
        graph = ObjectGraph(path)
        agree, besides = graph.check_referents(target.said["references"], lambda block: block >= graph.first_slot)
        # Ruby gives the class of an object apart; nothing else is found besides.
        others = {pair: number for pair, number in besides.items() if pair[1] != "Class"}
        assert not others, others
        print(f"references: {agree} of {agree} that ObjectSpace gives; besides: {besides}")
        held = {block for targets in graph.targets.values() for block in targets} | graph.rooted
        # What is interned is not kept by that; a stack may still lead to a few.
        interned = [graph.block_of(address) for address in target.said["interned"]]
        kept = sum(block in held for block in interned)
        assert kept < INTERNED // 10, kept
        # A finalizer does not keep its object either.
        ended = [block for block, name in graph.types.items() if name == "Ended"]
        with_finalizer = sum(block in held for block in ended)
        assert len(ended) == ENDED and with_finalizer < ENDED // 10, (len(ended), with_finalizer)
        # Nor does a weak map keep keys or values, but a WeakKeyMap its values (since 3.3).
        for kind in ("WeakKey", "WeakValue"):
            weak = [block for block, name in graph.types.items() if name == kind]
            left = sum(block in held for block in weak)
            assert len(weak) >= WEAK and left < WEAK // 10, (kind, len(weak), left)
            print(f"{left} of {len(weak)} {kind} are held")
        # The code of a rescue or an ensure is held by its method's alone.
        code = [block for block, name in graph.types.items() if name == "(internal) IMEMO iseq"]
        free = sum(block not in held for block in code)
        assert len(code) > 3 * CAREFUL and free < 50, (len(code), free)
        print(f"{kept} of {INTERNED} interned strings are held, {with_finalizer} of {ENDED} with a finalizer, all but {free} of {len(code)} iseqs")
        check_in_use(heapsnap, path, target.pid)
        check_buffers(heapsnap, path)
        check_owners(heapsnap, path)
        check_owners(heapsnap, target.pid)
        held = run(heapsnap, "why", hex(target.said["order"]), path, "-j", "--limit", "20")
        assert "Cache::STORE" in held and "Order" in held, held[:2000]
        # The interpreter's own words are none that may be left over.
        stale = [path for path in json.loads(held)["paths"]
                 if path["root"] == "Cache::STORE" and any(step["may_be_stale"] for step in path["steps"])]
        assert not stale, stale
        for variable, address in target.said["variables"].items():
            assert graph.globals[variable] == {graph.block_of(address)}, (variable, hex(address), graph.globals[variable])
            held = run(heapsnap, "why", hex(address), path, "-j", "--limit", "20")
            assert json.dumps(variable) in held, (variable, held[:2000])
        rows = {row["type"]: row for row in json.loads(run(heapsnap, "objects", path, "-j"))["objects"]}
        assert rows["Order"]["count"] == ORDERS and rows["Order"]["retained_bytes"] > ORDERS * 350, rows["Order"]
        # The state of the interpreter is not what this object frees.
        assert rows["RubyVM"]["owned_bytes"] == 0, rows["RubyVM"]
        assert rows["RubyVM"]["retained_bytes"] >= rows["RubyVM"]["bytes"], rows["RubyVM"]
        # It ends with another status where something is leaked.
        done = subprocess.run([heapsnap, "leaks", path, "-j"], capture_output=True, text=True, check=False)
        leaks = json.loads(done.stdout)
        assert leaks["leaked_blocks"] < 100, (leaks["leaked_blocks"], leaks["leaked_bytes"])
        print(f"leaks: {leaks['garbage_blocks']} blocks are garbage, {leaks['leaked_blocks']} leaked")


def main():
    heapsnap, *words = sys.argv[1:]
    for name, ruby, root in rubies(words):
        check(heapsnap, name, ruby, root)


if __name__ == "__main__":
    main()
