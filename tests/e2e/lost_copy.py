#!/usr/bin/env python3
"""The copy of a target that is killed while it is read: nothing of it is used, the target is read again while it
stands, and the report says so. heapsnap is held by ptrace(2) as soon as the copy is there.
lost_copy.py CASE HEAPSNAP"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from kernel_rules import LIBC, Echo, check

PTRACE_SYSCALL = 24
PTRACE_DETACH = 17
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
PTRACE_O_TRACESYSGOOD = 1
SYS_PREAD64 = 17
UNSUPPORTED = 5


def copies_of(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if stat_of(child)[0] not in "ZX"]


def stat_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def worker_of(heapsnap_pid):
    """The child that does its work."""
    children = pathlib.Path(f"/proc/{heapsnap_pid}/task/{heapsnap_pid}/children")
    while not children.read_text():
        os.sched_yield()
    return int(children.read_text())


def hold_with_copy(heapsnap_pid, target_pid):
    """Lets the main thread of heapsnap run from system call to system call until it has a copy and begins to read
    it. Gives the copy."""
    reads = f"{SYS_PREAD64} "
    while not copies_of(target_pid) or not pathlib.Path(f"/proc/{heapsnap_pid}/syscall").read_text().startswith(reads):
        check(LIBC.ptrace(PTRACE_SYSCALL, heapsnap_pid, None, None))
        status = os.waitpid(heapsnap_pid, 0)[1]
        assert os.WIFSTOPPED(status), f"heapsnap ended before it had a copy: {status}"
    return copies_of(target_pid)[0]


def attach_and_lose_copy(heapsnap, output, *options):
    """Gives exit code, standard output and standard error."""
    with Echo() as target:
        with subprocess.Popen([heapsnap, "attach", str(target.pid), "--freeze", "fork", "--start-at-eof", "-o", output,
                               *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as attached:
            worker = worker_of(attached.pid)
            check(LIBC.ptrace(PTRACE_SEIZE, worker, None, PTRACE_O_TRACESYSGOOD))
            check(LIBC.ptrace(PTRACE_INTERRUPT, worker, None, None))
            os.waitpid(worker, 0)
            attached.stdin.close()
            attached.stdin = None
            copy = hold_with_copy(worker, target.pid)
            os.kill(copy, signal.SIGKILL)
            check(LIBC.ptrace(PTRACE_DETACH, worker, None, None))
            out, err = attached.communicate()
        target.check_alive()
        children = pathlib.Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text()
        assert children == "", f"something is left in the target: {children}"
        return attached.returncode, out, err.decode()


def to_file(heapsnap):
    with tempfile.TemporaryDirectory() as folder:
        snapshot = os.path.join(folder, "snapshot.hsnap")
        code, out, err = attach_and_lose_copy(heapsnap, snapshot, "-j")
        assert code == 0, (code, err)
        freeze = json.loads(out)["freeze"]
        assert freeze["method"] == "stop", freeze
        assert "lost" in freeze["why"], freeze
        assert os.listdir(folder) == ["snapshot.hsnap"]


def to_pipe(heapsnap):
    """What went out already cannot be taken back."""
    code, _, err = attach_and_lose_copy(heapsnap, "-", "-q")
    assert code == UNSUPPORTED, (code, err)
    assert "was lost" in err and "--freeze stop" in err, err


def main():
    {"to_file": to_file, "to_pipe": to_pipe}[sys.argv[1]](sys.argv[2])


if __name__ == "__main__":
    main()
