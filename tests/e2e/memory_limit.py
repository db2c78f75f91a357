#!/usr/bin/env python3
"""A target whose control group has nearly reached its memory limit: memory_limit.py CASE HEAPSNAP HEAP_WRITER

    inside    heapsnap is in the group, as with `docker exec`: whatever becomes of it, the target lives
    inject    the tracker's tables are refused, or leave half of what is left
    first_victim  whom the OOM killer is to pick
    killed    heapsnap is alone in the group, and is killed: it says so, and does with more

Skipped where no group can be made."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from memory_budget import MIB, SKIPPED, memory_group

HEAP = 64


class Writer:
    def __init__(self, program, group):
        self.process = subprocess.Popen([program, str(HEAP), "told"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, preexec_fn=group.enter if group else None)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = str(self.process.pid)

    def write(self):
        """All of its memory."""
        self.process.stdin.write("write\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "written\n", "the target was killed"

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        said, _ = self.process.communicate()
        assert kind or (self.process.returncode == 0 and said.startswith("rounds=")), (self.process.returncode, said)


def inside(heapsnap, program, group):
    outcomes = set()
    with tempfile.TemporaryDirectory() as name, Writer(program, group) as target:
        # The dynamic linker takes 0.7 MiB before any code of heapsnap runs.
        for room in (2 * MIB, 4 * MIB, 16 * MIB):
            for words in (["attach", "--freeze", "fork"], ["attach", "--freeze", "stop"]):
                group.leave(room)
                done = subprocess.run([heapsnap, *words, target.pid, "-q", "-f", "-o", pathlib.Path(name) / "a.hsnap"],
                                      capture_output=True, text=True, check=False, preexec_fn=group.enter)
                outcomes.add(done.returncode)
                target.write()
    print("heapsnap ended with", sorted(outcomes))


def killed(heapsnap, program, group):
    def attach():
        return subprocess.run([heapsnap, "attach", target.pid, "-q", "-f", "-o", pathlib.Path(name) / "a.hsnap"],
                              capture_output=True, text=True, check=False, preexec_fn=group.enter)
    with tempfile.TemporaryDirectory() as name, Writer(program, None) as target:
        said = []
        for room in range(1 * MIB, 8 * MIB, MIB // 2):
            group.leave(room)
            done = attach()
            if done.returncode == 5:
                said.append(done.stderr)
                assert "was killed" in done.stderr and f"{group.folder.name} may have" in done.stderr, done.stderr
                assert "raise the limit of that group" in done.stderr, done.stderr
        assert said, "no room at which heapsnap is killed"
        group.leave(256 * MIB)
        done = attach()
        assert done.returncode == 0, done
        target.write()
    print(said[0].strip())


def first_victim(heapsnap, program, group):
    """heapsnap is picked before others; `run`, which stays beside its program, and the program are not."""
    def score(pid):
        return int(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text())
    ours = score("self")
    with Writer(program, group) as target:
        with subprocess.Popen([heapsnap, "watch", target.pid, "-j"], stdout=subprocess.PIPE, text=True) as watch:
            watch.stdout.readline()
            assert score(watch.pid) == 1000
            watch.terminate()
        with subprocess.Popen([heapsnap, "run", "--", "sh", "-c", "echo $$; read line"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as run:
            assert score(run.stdout.readline().strip()) == ours == score(run.pid)
            run.communicate("\n")


def inject(heapsnap, program, group):
    def run(*words):
        return subprocess.run([heapsnap, *words, target.pid], capture_output=True, text=True, check=False)
    with Writer(program, group) as target:
        for room in (256 << 10, 512 << 10, 4 * MIB):
            group.leave(room)
            refused = run("inject")
            assert refused.returncode == 5 and "are left of the memory limit of" in refused.stderr, refused
            target.write()
        group.leave(40 * MIB)
        done = run("inject")
        assert done.returncode == 0 and "its tables may take half of that" in done.stderr, done
        most = re.search(r"tables of at most ([\d.]+) MiB", done.stdout)
        # Each CPU has up to 64 pages charged ahead (MEMCG_CHARGE_BATCH), which the kernel may take back meanwhile.
        assert most and 10 < float(most[1]) <= (40 + os.cpu_count() / 4) / 2 + 0.05, done.stdout
        target.write()
        assert run("eject").returncode == 0
        # A limit of the user's own stands.
        assert "tables of at most 30.0 MiB" in run("inject", "--memory-limit", "30MiB").stdout
        target.write()


def main():
    case, heapsnap, program = sys.argv[1:]
    with memory_group() as group:
        if group is None:
            print("skipped: no control group that counts memory can be made here")
            return SKIPPED
        {"inside": inside, "inject": inject, "first_victim": first_victim,
         "killed": killed}[case](heapsnap, program, group)
    return 0


if __name__ == "__main__":
    sys.exit(main())
