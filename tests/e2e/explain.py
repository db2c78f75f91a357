#!/usr/bin/env python3
"""leaks, owners, types and why against a program that knows what it has leaked: explain.py HEAPSNAP KNOWN_LEAKS LEAK_HOLDER

Each reads the process, a snapshot of it and, where there is gcore, a core. Without references they say how to
get some."""

import json
import os
import subprocess
import sys
import tempfile

import reference_sources


def run(heapsnap, *words, code=0):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout[-2000:], done.stderr)
    return done.stdout if code in (0, 1) else done.stderr


def check_leaks(heapsnap, source, said):
    found = json.loads(run(heapsnap, "leaks", source, "--all", "-j", code=1))
    assert found["kind"] == "leaks" and found["version"] == 1
    told = {int(block["addr"], 16): block["kind"] for block in found["leaks"]}
    true = {address: words[1] for address, words in said.items() if words[0] == "leaked"}
    assert told == true, (source, set(told.items()) ^ set(true.items()))
    assert found["leaked_blocks"] == len(true)
    assert found["leaked_bytes"] == sum(block["bytes"] for block in found["leaks"])
    assert found["leaked_blocks"] == sum(found[f"{kind}_blocks"] for kind in ("direct", "indirect", "cycle"))
    retained = sum(group["retained_blocks"] for group in found["groups"])
    assert retained + found["held_by_several_blocks"] == len(true), found["groups"]
    text = run(heapsnap, "leaks", source, "--color", "never", code=1)
    assert "What next" in text and "leaked" in text, text
    return found


def check_suppressions(heapsnap, snapshot, folder, found):
    path = os.path.join(folder, "suppressions")
    with open(path, "w", encoding="utf-8") as file:
        file.write("# none of these matches\nleak:no_such_function\n")
    same = json.loads(run(heapsnap, "leaks", snapshot, "-j", "--suppressions", path, code=1))
    assert same["leaked_blocks"] == found["leaked_blocks"] and same["suppressed_blocks"] == 0, same
    with open(path, "w", encoding="utf-8") as file:
        file.write("race:what\n")
    assert "leak:PATTERN" in run(heapsnap, "leaks", snapshot, "--suppressions", path, code=6)


def check_owners(heapsnap, source, found):
    tree = json.loads(run(heapsnap, "owners", source, "-j", "--min-share", "0", "--depth", "30"))
    assert tree["kind"] == "owners" and tree["version"] == 1
    owned = sum(owner["retained_bytes"] for owner in tree["owners"])
    assert owned + tree["leaked_bytes"] == tree["bytes_in_use"], tree
    assert tree["leaked_bytes"] == found["leaked_bytes"], (tree["leaked_bytes"], found["leaked_bytes"])

    def check_sums(node):
        below = sum(child["retained_bytes"] for child in node.get("holds", []))
        assert node["retained_bytes"] == node.get("bytes", 0) + below, node
        for child in node.get("holds", []):
            check_sums(child)

    for owner in tree["owners"]:
        check_sums(owner)
    for by in ("root", "type"):
        text = run(heapsnap, "owners", source, "--by", by, "--color", "never", "--width", "80")
        assert "What next" in text, text
        wide = [line for line in text.splitlines() if len(line) > 80]
        assert not wide, wide
    return tree


def check_types(heapsnap, source, found):
    listed = json.loads(run(heapsnap, "types", source, "-j"))
    assert listed["bytes_in_use"] == found["bytes_in_use"], (listed["bytes_in_use"], found["bytes_in_use"])
    rows = listed["types"] + listed["unknown"]
    assert sum(row["bytes"] for row in rows) == listed["bytes_in_use"], listed
    # What nothing holds is leaked.
    unheld = sum(row["bytes"] for row in rows if row.get("holder", {}).get("kind") == "nothing")
    assert 0 < unheld <= found["leaked_bytes"], (unheld, found["leaked_bytes"])
    assert "What next" in run(heapsnap, "types", source, "--color", "never")


def check_report(heapsnap, snapshot, tree, found):
    """The first screen gives the same figures as owners and leaks, and the commands to see more."""
    report = json.loads(run(heapsnap, "report", snapshot, "-j"))
    without_parts = [{key: value for key, value in owner.items() if key != "holds"} for owner in tree["owners"][:3]]
    assert report["owners"] == without_parts, (report["owners"], without_parts)
    assert report["owner_commands"] == [f"heapsnap {command} {snapshot}" for command in ("owners", "leaks")], report
    for name in ("leaked_blocks", "leaked_bytes", "blocks_in_use", "bytes_in_use"):
        assert report[name] == found[name], (name, report[name], found[name])
    screen = run(heapsnap, "report", snapshot, "--color", "never").partition("\nArenas")[0]
    for part in (f"    heapsnap owners {snapshot}\n", f"    heapsnap leaks {snapshot}\n",
                 f" in {found['leaked_blocks']} blocks ("):
        assert part in screen, (part, screen)


def check_why(heapsnap, snapshot, said):
    for address, words in said.items():
        held = json.loads(run(heapsnap, "why", hex(address), snapshot, "-j"))
        assert int(held["addr"], 16) == address, held
        assert held["leaked"] == (words[0] == "leaked"), (words, held)
        assert held["retained_blocks"] >= 1, held
        for path in held["paths"]:
            assert int(path["steps"][-1]["addr"], 16) == address, path
        text = run(heapsnap, "why", hex(address), snapshot, "--color", "never")
        assert ("it is leaked" in text) == held["leaked"], text
    assert "no block" in run(heapsnap, "why", "0x10", snapshot, code=2)


def main():
    heapsnap, target, holder = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [target, holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        said = reference_sources.said_blocks(process.stdout)
        try:
            pid = str(process.pid)
            sources = reference_sources.sources_of(heapsnap, pid, folder)
            snapshot = sources[0]
            plain = os.path.join(folder, "plain.hsnap")
            run(heapsnap, "attach", pid, "-q", "--references", "no", "-o", plain)
            for source in sources:
                found = check_leaks(heapsnap, source, said)
                tree = check_owners(heapsnap, source, found)
                if source == snapshot:
                    check_report(heapsnap, snapshot, tree, found)
                check_types(heapsnap, source, found)
            check_suppressions(heapsnap, snapshot, folder, found)
            check_why(heapsnap, snapshot, said)
            for command in (["leaks"], ["owners"], ["types"], ["why", "0x10"]):
                complaint = run(heapsnap, *command, plain, code=5)
                assert f"heapsnap attach --references yes {pid}" in complaint, complaint
        finally:
            process.stdin.close()
    print(f"{found['leaked_blocks']} leaked blocks in {len(sources)} sources")
    return 0


if __name__ == "__main__":
    sys.exit(main())
