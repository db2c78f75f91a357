#!/usr/bin/env python3
"""types against a program that counts its objects by class: types.py HEAPSNAP COUNTER COUNTER_WITHOUT_RTTI PLUGIN

With symbols, stripped, and without RTTI; live, from a snapshot and, where there is gcore, from a core."""

import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

import reference_sources


def run(heapsnap, *words, code=0):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout[-2000:], done.stderr)
    return done.stdout if code == 0 else done.stderr


def read_truth(process):
    """By class: its live objects, each in a block of its own; blocks that hold several of them; those of containers."""
    said = {kind: collections.Counter() for kind in ("class", "array", "storage")}
    for line in process.stdout:
        if line == "ready\n":
            return said
        kind, count, name = line.rstrip("\n").split(" ", 2)
        said[kind][name] += int(count)
    raise AssertionError("the program has ended")


def count_by_name(found):
    counts = collections.Counter()
    for row in found["types"]:
        counts[row["type"]] += row["count"]
    return counts


def check_sums(found):
    assert found["kind"] == "types" and found["version"] == 1
    for name, rows in (("typed", found["types"]), ("unknown", found["unknown"])):
        assert sum(row["count"] for row in rows) == found[f"{name}_blocks"], name
        assert sum(row["bytes"] for row in rows) == found[f"{name}_bytes"], name
    assert found["typed_bytes"] + found["unknown_bytes"] == found["bytes_in_use"]
    assert found["typed_blocks"] + found["unknown_blocks"] == found["blocks_in_use"]
    for name in ("blocks", "bytes"):
        assert sum(share[name] for share in found["typed_by"]) == found[f"typed_{name}"], name
    by_source = collections.Counter()
    for row in found["types"]:
        by_source[row["source"]] += row["bytes"]
    assert dict(by_source) == {share["source"]: share["bytes"] for share in found["typed_by"]}, found["typed_by"]
    for row in found["types"] + found["unknown"]:
        assert row["bytes"] <= row["retained_bytes"] <= found["bytes_in_use"], row
        assert row["count"] <= row["retained_blocks"] <= found["blocks_in_use"], row


def check_counts(found, said):
    """Every class that the program counts, and no class of it that it does not."""
    check_sums(found)
    counts = count_by_name(found)
    for name, count in said["class"].items():
        assert counts[name] == count, (name, counts[name], count)
    for name, count in said["array"].items():
        assert counts[f"{name}[]"] == count, (name, counts[f"{name}[]"], count)
    for name, count in said["storage"].items():
        assert counts[name] == count, (name, counts[name], count)
    own = {name for name in counts if "shop::" in name or "plugin::" in name or "Hidden" in name}
    known = set(said["class"]) | {f"{name}[]" for name in said["array"]}
    assert own <= known, own - known


def check_counts_without_rtti(found, said):
    """By symbols. A vtable without functions looks like any zeros; nothing else is called by its name."""
    without_functions = "shop::VirtualPlain"
    assert count_by_name(found)[without_functions] == 0
    check_counts(found, {**said, "class": said["class"] - collections.Counter(
        {without_functions: said["class"][without_functions]})})


def check_without_names(found, said):
    """Nothing says what classes are called: then they are unknown, not called anything else."""
    check_sums(found)
    own = {name for name in count_by_name(found) if name.removesuffix("[]") in said["class"]}
    assert not own, own
    assert found["unknown_blocks"] >= sum(said["class"].values()), found["unknown_blocks"]


def check_text(heapsnap, snapshot, found):
    for width in ("60", "80", "140"):
        text = run(heapsnap, "types", snapshot, "--color", "never", "--width", width)
        wide = [line for line in text.splitlines() if len(line) > int(width)]
        assert not wide, wide
        assert "unknown" in text and "What next" in text, text
        said = {"vtable": "by vtables", "structure": "by structure", "debug-info": "by debug information"}
        for share in found["typed_by"]:
            assert said[share["source"]] in " ".join(text.split()), (share, text)
    rows = len(found["types"]) + len(found["unknown"])
    limited = run(heapsnap, "types", snapshot, "--limit", "3", "--width", "200")
    assert f"{rows - 3:,} more rows" in limited, limited
    for column, measure in (("bytes", "bytes"), ("count", "count"), ("retained", "retained_bytes")):
        listed = json.loads(run(heapsnap, "types", snapshot, "--sort", column, "-j"))
        measured = [row[measure] for row in listed["types"]]
        assert measured == sorted(measured, reverse=True), column
    assert "bytes, count, retained" in run(heapsnap, "types", snapshot, "--sort", "name", code=2)


def check_program(heapsnap, folder, program, plugins, check):
    with subprocess.Popen([program, *plugins], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = read_truth(process)
            for source in reference_sources.sources_of(heapsnap, process.pid, folder):
                found = json.loads(run(heapsnap, "types", source, "-j"))
                check(found, said)
                if source.endswith(".hsnap"):
                    check_text(heapsnap, source, found)
                    os.unlink(source)
        finally:
            process.stdin.close()
    return sum(said["class"].values())


def stripped(path, folder):
    result = os.path.join(folder, os.path.basename(path))
    subprocess.run(["strip", "--strip-all", "-o", result, path], check=True)
    return result


def main():
    heapsnap, program, without_rtti, plugin = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        programs = [(program, [plugin], check_counts), (without_rtti, [], check_counts_without_rtti)]
        if shutil.which("strip"):
            programs += [(stripped(program, folder), [stripped(plugin, folder)], check_counts),
                         (stripped(without_rtti, folder), [], check_without_names)]
        counts = [check_program(heapsnap, folder, *one) for one in programs]
    print(f"{sum(counts)} objects in {len(counts)} programs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
