#!/usr/bin/env python3
"""leaks and owners of a process whose call stacks are known: tracked_explain.py CASE HEAPSNAP TARGET [MORE...]

leaks     known_leaks under heapsnap run: what is leaked, by the functions that allocated it; suppressions by function,
          source file and module
run       growing_holder under heapsnap run: what the functions of each container have allocated is what it holds
inject    the same of a running process: what it has allocated since"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import container_groups
import diff
import reference_sources

# Which functions of known_leaks leak what it calls so.
LEAKING = {"one": "leak_one", "list": "leak_list", "ring": "leak_ring", "tree": "make_tree", "freed": "leak_in_freed",
           "stack": "leave_below_stack_pointer", "hidden": "leak_hidden", "large": "leak_large",
           "ended_thread": "leave_on_own_stack", "file": "leak_in_file", "file_buffer": "leak_behind_text"}
ADDING = {"g_sessions": "add_session", "g_events": "add_event", "g_index": "add_entry"}


def find_leaks(heapsnap, snapshot, *words, code=1):
    return json.loads(diff.run(heapsnap, "leaks", snapshot, "--all", "-j", *words, code=code))


def is_from(frames, function):
    return any(function in frame.get("function", "") for frame in frames)


def check_groups(found, said):
    """Each group is of one stack, which has the function that leaked it."""
    expected = dict.fromkeys(LEAKING.values(), 0)
    for words in said.values():
        if words[0] == "leaked":
            expected[LEAKING[words[2]]] += 1
    for function, count in expected.items():
        groups = [group for group in found["groups"] if is_from(group.get("frames", []), function)]
        assert sum(group["retained_blocks"] for group in groups) == count, (function, count, groups)
    assert all(group["stack"] for group in found["groups"]), found["groups"]


def check_suppressions(heapsnap, snapshot, folder, found, said):
    def suppress(*patterns, code=1):
        path = folder / "suppressions"
        path.write_text("".join(f"leak:{pattern}\n" for pattern in patterns), encoding="utf-8")
        left = find_leaks(heapsnap, snapshot, "--suppressions", path, code=code)
        assert left["leaked_blocks"] + left["suppressed_blocks"] == found["leaked_blocks"], (patterns, left)
        assert left["leaked_bytes"] + left["suppressed_bytes"] == found["leaked_bytes"], (patterns, left)
        return {int(block["addr"], 16) for block in left["leaks"]}

    leaked = {address: LEAKING[words[2]] for address, words in said.items() if words[0] == "leaked"}
    for patterns, functions in ((["leak_list"], {"leak_list"}),
                                (["leak_r*g", "make_tree"], {"leak_ring", "make_tree"}),
                                (["no_such_function"], set())):
        left = suppress(*patterns)
        assert left == {address for address, function in leaked.items() if function not in functions}, patterns
    for everything in ("known_leaks.cpp", "*/known_leaks$", "^main$"):
        left = suppress(everything, code=0 if everything != "^main$" else 1)
        # A thread's stack does not lead through main().
        assert {leaked[address] for address in left} == (
            {"leave_on_own_stack"} if everything == "^main$" else set()), everything


def leaks(heapsnap, folder, target, module):
    words = [heapsnap, "run", "--", target, module]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        said = reference_sources.said_blocks(process.stdout)
        try:
            pid = container_groups.only_child(process.pid)
            snapshot = reference_sources.take_snapshot(heapsnap, pid, folder)
        finally:
            process.stdin.close()
    found = find_leaks(heapsnap, snapshot)
    told = {int(block["addr"], 16): block["kind"] for block in found["leaks"]}
    true = {address: words[1] for address, words in said.items() if words[0] == "leaked"}
    assert told == true, set(told.items()) ^ set(true.items())
    check_groups(found, said)
    check_suppressions(heapsnap, snapshot, folder, found, said)
    text = diff.run(heapsnap, "leaks", snapshot, "--color", "never", code=1)
    assert "leak_list" in text and f"heapsnap why 0x" in text, text
    return f"{len(true)} leaked blocks by {len(LEAKING)} functions"


def allocated(heapsnap, snapshot):
    """Bytes by function of the holder, of all blocks whose stack has it."""
    tree = json.loads(diff.run(heapsnap, "owners", snapshot, "--by", "stack", "-j", "--depth", "30", "--min-share", "0"))
    assert tree["by"] == "stack"
    sums = dict.fromkeys(ADDING.values(), 0)

    def add(node):
        for function in sums:
            if is_from(node.get("frames", []), function):
                sums[function] += node["bytes"]
        for child in node.get("holds", []):
            add(child)

    for owner in tree["owners"]:
        add(owner)
    owned = sum(owner["retained_bytes"] for owner in tree["owners"])
    assert owned + tree["leaked_bytes"] == tree["bytes_in_use"], tree
    return sums


def check_text(heapsnap, snapshot):
    text = diff.run(heapsnap, "owners", snapshot, "--by", "stack", "--color", "never", "--width", "100", "--limit", "0")
    assert all(function in text for function in ADDING.values()), text
    wide = [line for line in text.splitlines() if len(line) > 100]
    assert not wide, wide


def run(heapsnap, folder, target):
    with diff.Holder(heapsnap, "run", "--", target, step=2) as holder:
        snapshot = reference_sources.take_snapshot(heapsnap, container_groups.only_child(holder.pid), folder)
        sums = allocated(heapsnap, snapshot)
        true = {function: holder.counts[name] for name, function in ADDING.items()}
        assert sums == true, (sums, true)
    check_text(heapsnap, snapshot)
    return f"{sums}"


def inject(heapsnap, folder, target):
    with diff.Holder(target, step=0) as holder:
        before = dict(holder.counts)
        snapshot = reference_sources.take_snapshot(heapsnap, holder.pid, folder)
        complaint = diff.run(heapsnap, "owners", snapshot, "--by", "stack", code=5)
        assert f"heapsnap inject {holder.pid}" in complaint, complaint
        os.unlink(snapshot)
        diff.run(heapsnap, "inject", holder.pid)
        holder.go_to(2)
        snapshot = reference_sources.take_snapshot(heapsnap, holder.pid, folder)
        sums = allocated(heapsnap, snapshot)
        # The table of g_sessions has been made anew.
        for name in ("g_events", "g_index"):
            assert sums[ADDING[name]] == holder.counts[name] - before[name], (name, sums, holder.counts, before)
    check_text(heapsnap, snapshot)
    return f"{sums}"


CASES = {case.__name__: case for case in (leaks, run, inject)}


def main():
    name, heapsnap, *targets = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        print(CASES[name](heapsnap, pathlib.Path(folder), *targets))
    return 0


if __name__ == "__main__":
    sys.exit(main())
