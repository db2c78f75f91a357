#!/usr/bin/env python3
"""The exports of Ruby's objects against what ObjectSpace.dump_all of the same process says:

    ruby_dump.py HEAPSNAP [FOLDER VERSION...]

Each object is there with its type, class, name and references; heapy and the README of heap_dump read what is
written, libbson takes each line, and the counts are those of `objects`."""

import collections
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from ruby_target import RubyTarget, rubies

ORDERS = 2000
# What the process itself makes after its dump: what it takes to say where it is.
LATER_OBJECTS = 300
# Of the first ones, references are what Ruby says, and no more; of the others, all are there.
EQUAL = ("OBJECT", "ARRAY", "HASH", "STRUCT", "STRING")
COMPLETE = ("OBJECT", "ARRAY", "HASH", "STRUCT", "STRING", "FLOAT", "BIGNUM", "RATIONAL", "COMPLEX")


def run(heapsnap, *words):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr)
    return done.stdout


class Dump:
    """Lines of ObjectSpace.dump_all."""

    def __init__(self, path):
        self.objects, self.roots = {}, collections.defaultdict(set)
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                one = json.loads(line)
                if one["type"] == "SHAPE":  # since 3.3; no object
                    continue
                if one["type"] == "ROOT":
                    self.roots[one["root"]].update(one.get("references", ()))
                else:
                    assert one["address"] not in self.objects, line
                    self.objects[one["address"]] = one
        self.lines = len(self.objects) + len(self.roots)


def check_objects(ours, theirs):
    missing = [one for address, one in theirs.objects.items() if address not in ours.objects]
    besides = [one for address, one in ours.objects.items() if address not in theirs.objects]
    # A file that was open is a buffer of garbage later, and the like; nothing is collected meanwhile.
    assert not missing, (len(missing), missing[:5])
    assert len(besides) < LATER_OBJECTS, (len(besides), collections.Counter(one["type"] for one in besides))
    for address, said in theirs.objects.items():
        found = ours.objects[address]
        assert found["type"] == said["type"], (said, found)
        if said["type"] != "IMEMO":
            assert found.get("class") == said.get("class"), (said, found)
        for member in ("struct", "imemo_type"):
            assert member not in said or found.get(member, said[member]) == said[member], (said, found)
        # Of several constants that lead to a class, one is taken for its name.
        if "name" in found and "name" in said and said["type"] != "ICLASS" and found["name"] != said["name"]:
            assert address in ours.roots[said["name"]], (said, found)
    print(f"objects: {len(theirs.objects)} are the same, {len(besides)} were made later")


def check_references(ours, theirs):
    extra = []
    agree, besides, lost, young = collections.Counter(), collections.Counter(), collections.Counter(), []
    for address, said in theirs.objects.items():
        # Some objects name themselves.
        expected = {one for one in said.get("references", ()) if one in theirs.objects} - {address}
        found = set(ours.objects[address].get("references", ())) - {address}
        kind = said["type"]
        if kind in COMPLETE and not expected <= found:
            young.append((said, expected - found))
        if kind in EQUAL:
            # Also what was made after the dump: the file that it goes to.
            extra += [(said, ours.objects[one]) for one in found - {*said.get("references", ()), address}]
        agree[kind] += len(expected & found)
        besides[kind] += len(found - expected)
        lost[kind] += len(expected - found)
    # What it takes to write the dump lies in the heap for what is young (up to 3.2).
    assert len(young) < 20, (len(young), young[:5])
    assert not extra, (len(extra), [(said["type"], said["address"], one["type"], one["address"]) for said, one in extra[:5]])
    for kind, count in agree.items():
        print(f"  {kind}: {count} equal, {besides[kind]} besides, {lost[kind]} not found")
        if kind not in COMPLETE:
            # What is marked by a function that looks it up elsewhere.
            assert lost[kind] <= (count + lost[kind]) / 4 + 20, (kind, count, lost[kind])


def check_sizes(ours, theirs):
    """Of what a program has, sizes are Ruby's, rounded up by malloc; what only leads to memory owns none of it."""
    said, found = collections.Counter(), collections.Counter()
    for address, one in theirs.objects.items():
        said[one["type"]] += one.get("memsize", 0)
        found[one["type"]] += ours.objects[address]["memsize"]
    for kind in EQUAL:
        assert 0.95 * said[kind] <= found[kind] <= 1.25 * said[kind], (kind, said[kind], found[kind])
    owners = ("ast", "env", "iseq", "ment", "tmpbuf")
    larger = [one for one in ours.objects.values() if one["type"] == "IMEMO" and one["memsize"] != one["slot_size"]]
    assert all(one["imemo_type"] in owners for one in larger), [one for one in larger if one["imemo_type"] not in owners]
    print("sizes:", ", ".join(f"{kind} {found[kind] / said[kind]:.3f}" for kind in EQUAL), "of Ruby's")


def check_names(ours):
    names = {one["name"]: one for one in ours.objects.values() if "name" in one}
    for name in ("Order", "Shop::Basket", "Pair", "Object", "String", "Shop"):
        assert names[name]["type"] in ("CLASS", "MODULE"), (name, names.get(name))
    by_address = collections.Counter(one.get("class") for one in ours.objects.values() if one["type"] == "OBJECT")
    assert by_address[names["Order"]["address"]] == ORDERS, by_address.most_common(5)
    # What a constant holds is a reference of its class, and a root of its name.
    orders, = ours.roots["ORDERS"]
    assert orders in names["Object"]["references"]
    # What it has belongs to another array, which it shares it with.
    held = [ours.objects[one] for one in ours.objects[orders]["references"]]
    held += [ours.objects[one] for one in held[0]["references"]] if len(held) == 1 else []
    assert sum(one.get("class") == names["Order"]["address"] for one in held) == ORDERS, (len(held), held[:3])
    default, = ours.roots["Shop::Basket::DEFAULT"]
    assert default in names["Shop::Basket"]["references"], names["Shop::Basket"]


def check_roots(ours):
    """Each call of a thread has the address of the interpreter's state, which leads to most objects."""
    of_calls = {name: len(found) for name, found in ours.roots.items() if name.startswith("thread ")}
    most = max(of_calls.values(), default=0)
    assert sum(of_calls.values()) < len(ours.objects) / 10, (len(ours.objects), of_calls)
    print(f"roots: {len(of_calls)} of threads, with {most} objects at most")


def check_counts(heapsnap, path, classes, lines):
    """`classes`: how many objects of each there are, by an export."""
    rows = {row["type"]: row["count"] for row in json.loads(run(heapsnap, "objects", path, "-j"))["objects"]}
    assert classes == rows, {name: (classes.get(name), rows.get(name)) for name in classes.keys() | rows.keys()
                             if classes.get(name) != rows.get(name)}
    assert sum(rows.values()) == lines, (sum(rows.values()), lines)


def check_heapy(dump, lines):
    if shutil.which("heapy") is None:
        print("heapy is not installed (ruby-heapy)")
        sys.exit(77)
    said = subprocess.run(["heapy", "read", dump], capture_output=True, text=True, check=True).stdout
    assert re.search(rf"^Count: {lines}$", said, re.MULTILINE), (lines, said)
    assert "Could not parse" not in said, said[:500]
    print(f"heapy: {lines} objects and roots")


class Bson:
    """libbson, which the clients of MongoDB use."""

    class Error(ctypes.Structure):
        _fields_ = (("domain", ctypes.c_uint32), ("code", ctypes.c_uint32), ("message", ctypes.c_char * 504))

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libbson-1.0.so.0")
        except OSError:
            print("libbson is not installed (libbson-1.0-0)")
            sys.exit(77)
        self.library.bson_new_from_json.restype = ctypes.c_void_p
        self.library.bson_new_from_json.argtypes = (ctypes.c_char_p, ctypes.c_ssize_t, ctypes.POINTER(self.Error))
        self.library.bson_destroy.argtypes = (ctypes.c_void_p,)
        self.library.bson_count_keys.argtypes = (ctypes.c_void_p,)

    def count_members(self, line):
        text, error = line.encode(), self.Error()
        document = self.library.bson_new_from_json(text, len(text), ctypes.byref(error))
        assert document, (error.message, line[:500])
        count = self.library.bson_count_keys(document)
        self.library.bson_destroy(document)
        return count


def check_heap_dump(heapsnap, path, dump, ours):
    """By the rules of its README: cat dump.json | sed 's/^[,\\[]//;s/\\]$//;s/^{"id"/{"_id"/' | mongoimport --type json"""
    with open(dump, encoding="utf-8") as file:
        text = file.read()
    whole = json.loads(text)
    roots, *objects = whole
    assert roots["id"] == "_ROOTS_" and text.startswith('[{"id":"_ROOTS_"') and text.endswith("}\n]\n"), text[:200]
    edited = subprocess.run(["sed", r's/^[,\[]//;s/\]$//;s/^{"id"/{"_id"/', dump], capture_output=True, text=True, check=True)
    bson, count = Bson(), 0
    for line in edited.stdout.splitlines():
        if line:
            document = json.loads(line)
            assert bson.count_members(line) == len(document) and "_id" in document, line[:500]
            count += 1
    assert count == len(whole), (count, len(whole))
    assert {hex(one["id"]) for one in objects} == ours.objects.keys()
    for one in objects:
        found = ours.objects[hex(one["id"])]
        assert one["bt"] == "T_" + found["type"] and one["size"] == found["memsize"], (one, found)
        assert {hex(other) for other in one["refs"]} == set(found.get("references", ())), (one, found)
        assert one["class"] == (int(found["class"], 16) if "class" in found else None), (one, found)
    check_counts(heapsnap, path, collections.Counter(one["class_name"] for one in objects), len(objects))
    variables = collections.defaultdict(set)
    for one in roots["variables"]:
        variables[one["name"]].add(hex(one["ref"]))
    assert variables["ORDERS"] == ours.roots["ORDERS"] and variables["Shop::Basket::DEFAULT"]
    assert ours.objects[hex(roots["classes"]["Order"])]["name"] == "Order"
    assert roots["stack"] and roots["globals"]
    print(f"heap_dump: {count} documents")


def check_refusals(heapsnap, folder):
    plain = f"{folder}/python.hsnap"
    with subprocess.Popen([sys.executable, "-c", "print('ready', flush=True); input()"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        for references, said in (("no", "no references"), ("yes", "no objects of Ruby")):
            run(heapsnap, "attach", str(process.pid), "-q", "-f", "--references", references, "-o", plain)
            for kind in ("ruby-dump-all", "heap_dump"):
                done = subprocess.run([heapsnap, "export", plain, "--format", kind, "-o", f"{folder}/none"],
                                      capture_output=True, text=True, check=False)
                assert done.returncode == 5 and said in done.stderr, done
                assert not os.path.exists(f"{folder}/none")
        process.communicate("\n")


def check(heapsnap, ruby, root):
    with tempfile.TemporaryDirectory() as folder, RubyTarget(ruby, root, "ruby_dump_process.rb", ORDERS) as target:
        path, dump, seed = f"{folder}/a.hsnap", f"{folder}/a.dump", f"{folder}/dump.json"
        run(heapsnap, "attach", target.pid, "--references", "yes", "-o", path)
        run(heapsnap, "export", path, "--format", "ruby-dump-all", "-o", dump)
        run(heapsnap, "export", path, "--format", "heap_dump", "-o", seed)
        theirs, ours = Dump(root.rstrip("/") + target.said["dump"]), Dump(dump)
        print(f"Ruby {target.said['version']}:")
        check_objects(ours, theirs)
        check_references(ours, theirs)
        check_sizes(ours, theirs)
        check_names(ours)
        check_roots(ours)
        check_heap_dump(heapsnap, path, seed, ours)
        with open(dump, encoding="utf-8") as file:
            check_heapy(dump, sum(1 for _ in file))


def main():
    heapsnap, *words = sys.argv[1:]
    for _, ruby, root in rubies(words):
        check(heapsnap, ruby, root)
    with tempfile.TemporaryDirectory() as folder:
        check_refusals(heapsnap, folder)


if __name__ == "__main__":
    main()
