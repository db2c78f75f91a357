#!/usr/bin/env python3
"""heapsnap in a control group with a small CPU quota: own_cpu_quota.py HEAPSNAP HEAP_WRITER

A stopped target stays stopped while heapsnap may not run. Such a pause is told, with what to do; that is done, and
nothing is told any more. Skipped where no group can be made."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from memory_budget import SKIPPED

HEAP = 768  # MiB, which take longer to read than the quota and real-time priority (20 ms) last
QUOTA, PERIOD = 2000, 100000  # microseconds


@contextlib.contextmanager
def cpu_group():
    """Of version 1, in the group that this process is in, or of version 2, in the root."""
    parents = [pathlib.Path("/sys/fs/cgroup/cpu" + line.split(":", 2)[2])
               for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()
               if "cpu" in line.split(":", 2)[1].split(",")]
    for parent in [*parents, pathlib.Path("/sys/fs/cgroup")]:
        folder = parent / f"heapsnap-quota-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if (folder / "cpu.cfs_quota_us").exists():
                (folder / "cpu.cfs_period_us").write_text(str(PERIOD))
                (folder / "cpu.cfs_quota_us").write_text(str(QUOTA))
                yield folder
                return
            if (folder / "cpu.max").exists():
                (folder / "cpu.max").write_text(f"{QUOTA} {PERIOD}")
                yield folder
                return
        finally:
            folder.rmdir()
    yield None


def main():
    heapsnap, program = sys.argv[1:]
    with cpu_group() as group, tempfile.TemporaryDirectory() as name:
        if group is None:
            print("skipped: no control group with a CPU quota can be made here")
            return SKIPPED
        target = subprocess.Popen([program, str(HEAP), "told"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert target.stdout.readline() == "ready\n"

        def attach(*, inside, realtime=False):
            # A quota does not bind threads with real-time priority, but what is read is not read by one for long.
            words = [] if realtime else ["setpriv", "--bounding-set=-sys_nice", "prlimit", "--rtprio=0:0"]
            words += [heapsnap, "attach", str(target.pid), "--freeze", "stop", "--references", "no", "-j", "-f", "-o",
                      f"{name}/a.hsnap"]
            enter = (lambda: (group / "cgroup.procs").write_text(str(os.getpid()))) if inside else None
            done = subprocess.run(words, capture_output=True, text=True, preexec_fn=enter)
            assert done.returncode == 0, done
            return json.loads(done.stdout)["freeze"]

        def told(freeze):
            return [note for note in freeze["notes"] if "had used up its CPU quota" in note]

        with contextlib.suppress(OSError):  # where real-time threads have a quota of their own
            (group / "cpu.rt_runtime_us").write_text(str(PERIOD))
        for realtime in (False, True):
            # The kernel may let a long call of read(2) end first, and keep heapsnap from running later.
            held = next((freeze for freeze in (attach(inside=True, realtime=realtime) for _ in range(10)) if told(freeze)),
                        None)
            print(held)
            assert held and group.name in told(held)[0] and held["pause_ns"] > PERIOD * 1000 // 10, (realtime, held)
        assert not told(attach(inside=False))
        said, _ = target.communicate()
        assert target.returncode == 0 and said.startswith("rounds="), said
    return 0


if __name__ == "__main__":
    sys.exit(main())
