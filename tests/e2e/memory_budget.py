#!/usr/bin/env python3
"""A target that writes to all of its memory while a copy of it is looked at: memory_budget.py HEAPSNAP HEAP_WRITER

The search for references is given up when the copy has cost the budget; the snapshot is good without it, and says why.
Pages that the target's writes copy are charged to its control group, which has counted their most. Skipped where no
group can be made."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
MIB = 1 << 20
HEAP = 256 * MIB
BUDGET = 8 * MIB
# The target writes on until references are looked for, between two looks at what was copied,
# and until the copy is gone.
MOST_COPIED = BUDGET + HEAP // 4
MOST_TRIES = 10
COPIED = re.compile(r"the process writes to its memory: up to \d+\.\d MiB were copied while its copy was read, "
                    r"more than the budget of 8\.0 MiB")
# What other processes take counts, too, where it is noticed before the copies are.
FELL = re.compile(r"free memory fell by more than the budget of 8\.0 MiB while the process was read \(.+\); "
                  r"with --memory-budget SIZE it may fall further")


class Group:
    """Counts memory of version 1 or 2."""

    def __init__(self, folder):
        self.folder = folder
        is_v1 = (folder / "memory.usage_in_bytes").exists()
        self.usage_name, self.peak_name, self.limit_name = (
            ("memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.limit_in_bytes") if is_v1 else
            ("memory.current", "memory.peak", "memory.max"))

    def usage(self):
        return int((self.folder / self.usage_name).read_text())

    def leave(self, room):
        """Sets the limit to what is used and `room` bytes."""
        (self.folder / self.limit_name).write_text(str(self.usage() + room))

    def peak(self):
        return int((self.folder / self.peak_name).read_text())

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))


def folders_for_groups():
    """Of version 1 the group that this process is in; of version 2 the root."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            yield pathlib.Path("/sys/fs/cgroup/memory" + path)
    yield pathlib.Path("/sys/fs/cgroup")


@contextlib.contextmanager
def memory_group():
    for parent in folders_for_groups():
        folder = parent / f"heapsnap-budget-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            group = Group(folder)
            if (folder / group.peak_name).exists():
                yield group
                return
        finally:
            folder.rmdir()
    yield None


def run(heapsnap, *words, code=0):
    done = subprocess.run([heapsnap, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def take(heapsnap, pid, path, budget):
    return run(heapsnap, "attach", pid, "--freeze", "fork", "--references", "yes", "--memory-budget", budget,
               "--color", "never", "-o", path)


def block_count(heapsnap, snapshot):
    """Of the blocks that the writer has allocated."""
    rows = map(json.loads, run(heapsnap, "export", snapshot, "--format", "ndjson").splitlines())
    return sum(row["kind"] == "chunk" and row["state"] == "used" and 64 << 10 <= row["usable"] < 65 << 10 for row in rows)


def check_given_up(heapsnap, pid, snapshot, screen):
    """Whether it was for the copies."""
    report = json.loads(run(heapsnap, "report", snapshot, "-j"))
    assert report["freeze"]["method"] == "fork", report["freeze"]
    why = report["why_no_references"]
    for_copies = COPIED.fullmatch(why) is not None
    assert for_copies or FELL.fullmatch(why), report
    assert report["corruptions"] == [] and "owners" not in report, report
    blocks = block_count(heapsnap, snapshot)
    assert blocks == HEAP // (64 << 10), blocks
    command = f"heapsnap attach --references yes {pid}"
    told = " ".join(screen.split())
    assert f"Not looked at: {why}." in told and command in told, screen
    complaint = run(heapsnap, "leaks", snapshot, code=5)
    assert why in complaint and command in complaint, complaint
    return for_copies


def main():
    heapsnap, target = sys.argv[1:]
    with memory_group() as group, tempfile.TemporaryDirectory() as name:
        if group is None:
            print("skipped: no control group that counts memory can be made here")
            return SKIPPED
        folder = pathlib.Path(name)
        with subprocess.Popen([target, str(HEAP // MIB), "always"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, preexec_fn=group.enter) as process:
            assert process.stdout.readline() == "ready\n"
            snapshot = folder / "a.hsnap"
            for _ in range(MOST_TRIES):
                screen = take(heapsnap, process.pid, snapshot, BUDGET)
                copied = group.peak() - group.usage()
                assert copied < MOST_COPIED, copied
                if check_given_up(heapsnap, process.pid, snapshot, screen):
                    break
                snapshot.unlink()
            else:
                raise AssertionError(f"the copies were never noticed first in {MOST_TRIES} attaches")
            ample = folder / "b.hsnap"
            take(heapsnap, process.pid, ample, "64GiB")
            found = json.loads(run(heapsnap, "owners", ample, "-j", "--depth", "0"))
            assert found["owners"][0]["root"] == "(anonymous namespace)::blocks", found["owners"][:3]
            said, _ = process.communicate()
            assert process.returncode == 0 and said.startswith("rounds="), said
    print(f"{copied / MIB:.1f} MiB copied with a budget of {BUDGET // MIB} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
