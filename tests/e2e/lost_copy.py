#!/usr/bin/env python3
"""The copy of a target that is killed while it is read: nothing of it is used, the target is read again while it
stands, and the report says so. heapsnap is held by ptrace(2) as soon as the copy is there.
lost_copy.py CASE HEAPSNAP"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from kernel_rules import LIBC, Echo, check

PTRACE_CONT = 7
PTRACE_SYSCALL = 24
PTRACE_DETACH = 17
PTRACE_SETOPTIONS = 0x4200
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
PTRACE_O_TRACESYSGOOD = 1
PTRACE_O_TRACECLONE = 8
WALL = 0x40000000
SYS_PREAD64, SYS_OPENAT = 17, 257
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


def opened_path(worker, tid):
    """Of the call that a thread makes, if that is openat(2)."""
    words = pathlib.Path(f"/proc/{tid}/syscall").read_text().split()
    if words[0] != str(SYS_OPENAT):
        return ""
    with open(f"/proc/{worker}/mem", "rb") as memory:
        memory.seek(int(words[2], 16))
        return memory.read(64).partition(b"\0")[0].decode()


def kill_and_wait(copy):
    """Until it is dead, it can still be read: on a busy machine that takes a while."""
    os.kill(copy, signal.SIGKILL)
    while stat_of(copy)[0] not in "ZX":
        os.sched_yield()


def kill_while_read(worker, target_pid):
    check(LIBC.ptrace(PTRACE_SETOPTIONS, worker, None, PTRACE_O_TRACESYSGOOD))
    kill_and_wait(hold_with_copy(worker, target_pid))
    check(LIBC.ptrace(PTRACE_DETACH, worker, None, None))


def kill_while_target_stands(worker, target_pid):
    """When heapsnap looks at the size of the copy for the first time, before it lets the target go: its threads run
    from system call to system call until then. Returns when heapsnap has ended."""
    check(LIBC.ptrace(PTRACE_SETOPTIONS, worker, None, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE))
    check(LIBC.ptrace(PTRACE_SYSCALL, worker, None, None))
    copy = None
    while True:
        tid, status = os.waitpid(-1, WALL)
        if not os.WIFSTOPPED(status):
            if tid == worker:
                break
            continue
        is_call = os.WSTOPSIG(status) == signal.SIGTRAP | 0x80
        looked_at = is_call and copy is None and re.fullmatch(r"/proc/(\d+)/statm", opened_path(worker, tid))
        if looked_at and int(looked_at[1]) in copies_of(target_pid):
            copy = int(looked_at[1])
            kill_and_wait(copy)
        is_signal = not is_call and status >> 16 == 0
        LIBC.ptrace(PTRACE_SYSCALL if copy is None else PTRACE_CONT, tid, None,
                    os.WSTOPSIG(status) if is_signal else None)
    assert copy is not None, "heapsnap never looked at the size of its copy"


def attach_and_lose_copy(lose, heapsnap, output, *options):
    """Gives exit code, standard output and standard error."""
    with Echo() as target:
        with subprocess.Popen([heapsnap, "attach", str(target.pid), "--freeze", "fork", "--start-at-eof", "-o", output,
                               *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as attached:
            worker = worker_of(attached.pid)
            check(LIBC.ptrace(PTRACE_SEIZE, worker, None, None))
            check(LIBC.ptrace(PTRACE_INTERRUPT, worker, None, None))
            os.waitpid(worker, 0)
            attached.stdin.close()
            attached.stdin = None
            lose(worker, target.pid)
            out, err = attached.communicate()
        target.check_alive()
        children = pathlib.Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text()
        assert children == "", f"something is left in the target: {children}"
        return attached.returncode, out, err.decode()


def check_file(lose, heapsnap, *options):
    with tempfile.TemporaryDirectory() as folder:
        snapshot = os.path.join(folder, "snapshot.hsnap")
        code, out, err = attach_and_lose_copy(lose, heapsnap, snapshot, "-j", *options)
        assert code == 0, (code, err)
        freeze = json.loads(out)["freeze"]
        assert freeze["method"] == "stop", freeze
        assert freeze["why"] == "a copy was made and lost: the copy of the process was killed, by another " \
                                "process or because memory ran out", freeze
        assert os.listdir(folder) == ["snapshot.hsnap"]


def to_file(heapsnap):
    check_file(kill_while_read, heapsnap)


def while_stopped(heapsnap):
    check_file(kill_while_target_stands, heapsnap, "--deadline", "20000")


def to_pipe(heapsnap):
    """What went out already cannot be taken back."""
    code, _, err = attach_and_lose_copy(kill_while_read, heapsnap, "-", "-q")
    assert code == UNSUPPORTED, (code, err)
    assert "was lost" in err and "--freeze stop" in err, err


def main():
    {"to_file": to_file, "while_stopped": while_stopped, "to_pipe": to_pipe}[sys.argv[1]](sys.argv[2])


if __name__ == "__main__":
    main()
