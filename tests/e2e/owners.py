#!/usr/bin/env python3
"""owners against a program that counts what each of its containers keeps: owners.py HEAPSNAP HOLDER STRIPPED_HOLDER

By name with symbols, by module and offset without; live, from a snapshot and, where there is gcore, from a core. Each
amount must agree within one percent. A thread-local variable of several threads is one owner, also without a name."""

import json
import os
import subprocess
import sys

import reference_sources


# Of the thread-local variables.
THREADS = {"(anonymous namespace)::t_names": 1, "(anonymous namespace)::t_events": 1, "(anonymous namespace)::t_parts": 4}


def owners_of(heapsnap, source):
    done = subprocess.run([heapsnap, "owners", source, "-j", "--depth", "0"], capture_output=True, text=True)
    assert done.returncode == 0, (source, done.stderr)
    return json.loads(done.stdout)["owners"]


def is_it(owner, kind, name, offset, size, has_symbols):
    if owner["kind"] != kind:
        return False
    if has_symbols:
        return owner["root"] == name
    # A frame is named by where its function begins, which is the only one that holds so much.
    if kind == "stack":
        return "+0x" in owner["root"]
    return owner["root"] == "" and offset <= owner.get("module_offset", 0) < offset + size


def check(heapsnap, source, said, has_symbols):
    owners = owners_of(heapsnap, source)
    taken = set()
    for kind, name, offset, size, used, blocks in said:
        found = [i for i, owner in enumerate(owners) if is_it(owner, kind, name, offset, size, has_symbols)]
        assert found, (source, name, [owner for owner in owners if owner["retained_bytes"] > used // 2])
        owner = owners[found[0]]  # the largest
        assert found[0] not in taken, (source, name, owner)
        taken.add(found[0])
        for told, true in ((owner["retained_bytes"], used), (owner["retained_blocks"], blocks)):
            assert abs(told - true) * 100 <= true, (source, name, owner, used, blocks)
        if kind == "thread-local":
            assert owner.get("threads", 1) == THREADS[name], (source, name, owner)
            assert ("tid" in owner) == (THREADS[name] == 1), (source, name, owner)
    check_text(heapsnap, source)


def check_text(heapsnap, source):
    done = subprocess.run([heapsnap, "owners", source, "--depth", "0"], capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": "120"})
    assert done.returncode == 0, (source, done.stderr)
    of_four = [line for line in done.stdout.splitlines() if "thread-local of 4 threads" in line]
    assert len(of_four) == 1, (source, of_four, done.stdout)


def said_in(lines):
    said = []
    for line in lines:
        kind, _, rest = line.partition(" ")
        name, offset, size, used, blocks = rest.rsplit(" ", 4)
        said.append((kind, name, int(offset, 16), int(size), int(used), int(blocks)))
    assert len(said) == 14, said
    return said


def main():
    heapsnap, *targets = sys.argv[1:]
    for target, has_symbols in zip(targets, (True, False)):
        reference_sources.check_containers(
            heapsnap, target, lambda source, lines: check(heapsnap, source, said_in(lines), has_symbols))
    return 0


if __name__ == "__main__":
    sys.exit(main())
