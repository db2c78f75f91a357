#!/usr/bin/env python3
"""What leaks says of a busy server is never disproved later: leaks_of_servers.py HEAPSNAP SERVER

Nobody can free a leaked block, for nobody holds its address. So each block that is leaked in one snapshot must be in
use in all later ones, with the same size. Exits 77, with the reason, where the server is not installed."""

import json
import os
import subprocess
import sys
import tempfile

import servers

LOOKS = 4
MOST_LOOKS = 40  # until the load has freed something


def run(heapsnap, *words, codes=(0,)):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True)
    assert done.returncode in codes, (words, done.returncode, done.stdout[-2000:], done.stderr)
    return done.stdout


class Look:
    """One snapshot: usable sizes by address of the blocks in use, and of those that are leaked."""

    def __init__(self, heapsnap, pid, path):
        run(heapsnap, "attach", str(pid), "-q", "--references", "yes", "-o", path)
        rows = map(json.loads, run(heapsnap, "export", path, "--format", "ndjson").splitlines())
        self.in_use = {row["addr"]: row["usable"] for row in rows if row["kind"] == "chunk" and row["state"] == "used"}
        leaks = json.loads(run(heapsnap, "leaks", path, "--all", "-j", codes=(0, 1)))["leaks"]
        self.leaked = {block["addr"]: block["bytes"] for block in leaks}


def freed_since(look, later):
    return sum(later.in_use.get(address) != size for address, size in look.in_use.items())


def disproved(looks):
    """Leaked blocks that a later look shows to have been freed."""
    return [(number, address, size) for number, look in enumerate(looks) for address, size in look.leaked.items()
            if any(later.in_use.get(address) != size for later in looks[number:])]


def main():
    heapsnap, name = sys.argv[1:]
    kind = servers.runnable(name)
    with tempfile.TemporaryDirectory(prefix="heapsnap-leaks-") as folder:
        os.chmod(folder, 0o755)
        server = kind(folder)
        try:
            server.start()
            pid = server.pids()[-1]
            looks, freed = [], 0
            while len(looks) < LOOKS or (freed == 0 and len(looks) < MOST_LOOKS):
                looks.append(Look(heapsnap, pid, f"{folder}/{len(looks)}.hsnap"))
                freed = freed_since(looks[0], looks[-1])
            wrong = disproved(looks)
            assert not wrong, wrong[:20]
            leaked = ", ".join(str(len(look.leaked)) for look in looks[:LOOKS])
            print(f"{name} {pid}: {len(looks[0].in_use)} blocks, of which {freed} were freed up to snapshot {len(looks)}; "
                  f"leaked: {leaked}")
            unwell = server.healthy()
            assert not unwell, unwell
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
