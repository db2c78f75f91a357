#!/usr/bin/env python3
"""leaks beside other tools on one program: leak_tools.py TOOL HEAPSNAP KNOWN_LEAKS KNOWN_LEAKS_LSAN LEAK_HOLDER

TOOL: lsan (LeakSanitizer, in a build of its own of the same source) or valgrind. The program names the sort of each
block that it has leaked or kept; heapsnap must find leaked what the other tool finds leaked, but for the differences
that are named here. Exits 77 where the tool is not installed."""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import reference_sources

# LeakSanitizer looks for references in its own blocks, modules, stacks, registers and thread-local storage, but not in
# other mappings: what only a mapping of the program holds is leaked for it, though the program can free it any time.
# Neither tool looks in memory that may not be read, though that may be allowed again (mprotect(2)).
ONLY_OTHER = {"lsan": collections.Counter({"kept mapping": 1, "kept inaccessible": 2}),
              "valgrind": collections.Counter({"kept inaccessible": 2})}
# Both tools take what a FILE has not set for references, and LeakSanitizer also what lies behind the characters in its
# buffer, which valgrind has the C library free at the end.
ONLY_HEAPSNAP = {"lsan": collections.Counter({"leaked file": 3, "leaked file_buffer": 1}),
                 "valgrind": collections.Counter({"leaked file": 3})}

# The functions that leak or keep what the program says. The rest is the loader's.
FUNCTIONS = {
    "leak_one": "one", "leak_list": "list", "leak_ring": "ring", "make_tree": "tree", "leak_in_freed": "freed",
    "leave_below_stack_pointer": "stack", "leak_hidden": "hidden", "leak_large": "large",
    "leave_on_own_stack": "ended_thread", "leak_in_file": "file",
    "leak_behind_text": "file_buffer", "keep_by_interior": "interior", "keep_by_mapping": "mapping",
    "keep_inaccessibly": "inaccessible",
    "keep_by_mmapped_chunk": "mmapped", "keep_by_thread_local": "thread_local", "make_for_register": "register",
    "park": "coroutine", "hold": "module",
}


def name_of(words):
    return f"{words[0]} {words[-1]}"


def leaks_of_heapsnap(heapsnap, target, holder):
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [target, holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        said = reference_sources.said_blocks(process.stdout)
        snapshot = reference_sources.take_snapshot(heapsnap, process.pid, folder)
        process.stdin.close()
        found = subprocess.run([heapsnap, "leaks", snapshot, "--all", "-j"], capture_output=True, text=True)
    assert found.returncode == 1, found
    blocks = [int(block["addr"], 16) for block in json.loads(found.stdout)["leaks"]]
    strangers = [hex(block) for block in blocks if block not in said]
    assert not strangers, strangers
    return collections.Counter(name_of(said[block]) for block in blocks)


def leaks_of_lsan(target, holder):
    done = subprocess.run([target, holder], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=dict(os.environ, LSAN_OPTIONS="report_objects=1:exitcode=23"))
    if done.returncode != 23 or "SUMMARY" not in done.stderr:
        print("skipped: LeakSanitizer does not run here:", done.stderr[-500:])
        sys.exit(77)
    said = reference_sources.said_blocks(done.stdout.splitlines())
    blocks = [int(found, 16) for found in re.findall(r"^(0x[0-9a-f]+) \(\d+ bytes\)$", done.stderr, re.MULTILINE)]
    return collections.Counter(name_of(said[block]) for block in blocks)


def leaks_of_valgrind(target, holder):
    """By the first function of the program itself; what is "possibly lost" is returned on its own."""
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "leaks.xml")
        subprocess.run(["valgrind", "-q", "--leak-check=full", "--show-leak-kinds=all", "--xml=yes", f"--xml-file={path}",
                        target, holder], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        errors = list(xml.etree.ElementTree.parse(path).iter("error"))
    lost, possibly = collections.Counter(), collections.Counter()
    for error in errors:
        kind = error.findtext("kind")
        names = [re.sub(r"\(anonymous namespace\)::|\(.*", "", frame.findtext("fn") or "") for frame in error.find("stack")]
        function = next((name for name in names if name in FUNCTIONS), None)
        if function is None or kind == "Leak_StillReachable":
            continue
        blocks = int(error.findtext("xwhat/leakedblocks"))
        (possibly if kind == "Leak_PossiblyLost" else lost)[FUNCTIONS[function]] += blocks
    return lost, possibly


def main():
    tool, heapsnap, target, target_lsan, holder = sys.argv[1:]
    ours = leaks_of_heapsnap(heapsnap, target, holder)
    if tool == "lsan":
        theirs = leaks_of_lsan(target_lsan, holder)
        assert theirs - ours == ONLY_OTHER[tool] and ours - theirs == ONLY_HEAPSNAP[tool], (ours, theirs)
    else:
        theirs, possibly = leaks_of_valgrind(target, holder)
        ours_by_function = collections.Counter()
        for name, count in (ours - ONLY_HEAPSNAP[tool]).items():
            ours_by_function[name.split()[1]] += count
        # What only an interior pointer leads to is held; valgrind leaves it open. So it does, in one run of six, for the
        # block of 3 MiB: some word looks like an address in it.
        assert possibly["interior"] == 1 and set(possibly) <= {"interior", "large"}, possibly
        theirs -= collections.Counter({name.split()[1]: count for name, count in ONLY_OTHER[tool].items()})
        assert ours_by_function == theirs + possibly - collections.Counter(["interior"]), (ours_by_function, theirs)
    print(f"{sum(ours.values())} leaked blocks, {sum(theirs.values())} by {tool}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
