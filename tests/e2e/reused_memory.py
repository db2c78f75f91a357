#!/usr/bin/env python3
"""owners against a program whose containers have memory that others used before: reused_memory.py HEAPSNAP REUSER...

Nothing is shared. Maps, lists and vectors with room to spare must own what they say that they keep, within one percent.
Of single objects that a word left over leads to, nothing says whose they are: these belong to several together, and to
nobody else. Live, from a snapshot and, where there is gcore, from a core."""

import json
import subprocess
import sys

import reference_sources

# Of many blocks to which nothing leads but one word each.
OF_SINGLE_OBJECTS = ("g_rows", "g_sizes", "g_jobs")


def owners_of(heapsnap, source):
    done = subprocess.run([heapsnap, "owners", source, "-j", "--depth", "0"], capture_output=True, text=True)
    assert done.returncode == 0, (source, done.stderr)
    return json.loads(done.stdout)["owners"]


def check(heapsnap, source, said):
    owners = owners_of(heapsnap, source)
    in_all = sum(used for _, _, used, _ in said)
    for kind, name, used, blocks in said:
        own = [owner for owner in owners if owner["kind"] == kind and owner["root"] == name]
        assert own, (source, name, [owner for owner in owners if owner["retained_bytes"] > used // 2])
        least = 90 if name in OF_SINGLE_OBJECTS else 99
        for told, true in ((own[0]["retained_bytes"], used), (own[0]["retained_blocks"], blocks)):
            assert true * least <= told * 100 <= true * 101, (source, name, own[0], used, blocks)
    together = [owner for owner in owners if owner["kind"] == "several"]
    assert sum(owner["retained_bytes"] for owner in together) * 20 <= in_all, (source, together)
    for owner in together:
        assert {root["root"] for root in owner["roots"]} <= set(OF_SINGLE_OBJECTS), (source, owner)


def said_in(lines):
    said = []
    for line in lines:
        kind, name, used, blocks = line.split()
        said.append((kind, name, int(used), int(blocks)))
    assert len(said) == 10, said
    return said


def main():
    heapsnap, *targets = sys.argv[1:]
    for target in targets:
        reference_sources.check_containers(
            heapsnap, target, lambda source, lines: check(heapsnap, source, said_in(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
