#!/usr/bin/env python3
"""What heapsnap waits for in the kernel and nobody gives: it ends by its deadline, in words, and the target runs on.
deadlines.py CASE HEAPSNAP TARGET"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

SKIPPED = 77
UNSUPPORTED = 5
DEADLINE_MS = 300
LONGEST = 60  # seconds: a heapsnap that waits for ever


class Skipped(Exception):
    pass


class Target:
    def __init__(self, program, when):
        self.process = subprocess.Popen([program, when], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        said = self.process.stdout.readline().strip()
        if said != "ready":
            self.process.wait()
            raise Skipped(said)

    def check_alive(self):
        print("ping", file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "ping\n", "the target does not answer"
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        assert "TracerPid:\t0\n" in status, "the target is still traced"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def attach(heapsnap, target, how):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([heapsnap, "attach", str(target.pid), "--freeze", how, "--deadline", str(DEADLINE_MS), "-j",
                               "-o", os.path.join(folder, "a.hsnap")], capture_output=True, text=True, timeout=LONGEST)
        left = os.listdir(folder)
    return done, left


def unserved(heapsnap, program):
    """It is seen before that somebody else is to fill the page: no copy is made, and it is not waited for."""
    for how in "auto", "fork", "stop":
        with Target(program, "early") as target:
            done, _ = attach(heapsnap, target, how)
            target.check_alive()
            assert done.returncode == 0, (how, done.stderr)
            freeze = json.loads(done.stdout)["freeze"]
            assert freeze["method"] == "stop", freeze


def unserved_unseen(heapsnap, program):
    """It is not looked for where the target runs on (--freeze none): the read waits, and its parent ends it."""
    with Target(program, "early") as target:
        done, left = attach(heapsnap, target, "none")
        target.check_alive()
        assert done.returncode == UNSUPPORTED, (done.returncode, done.stderr)
        assert "did not finish" in done.stderr and "userfaultfd" in done.stderr, done.stderr
        assert not left, left


def parent_ends(heapsnap, _):
    """Whoever ends heapsnap ends all of it, also the process that does the work."""
    for number in signal.SIGKILL, signal.SIGTERM:
        with subprocess.Popen([heapsnap, "attach", str(os.getpid()), "--start-at-eof", "-o", "-"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as attached:
            children = pathlib.Path(f"/proc/{attached.pid}/task/{attached.pid}/children")
            while not children.read_text():
                os.sched_yield()
            workers = [os.pidfd_open(int(child)) for child in children.read_text().split()]
            attached.send_signal(number)
            assert attached.wait(LONGEST) == -number, attached.returncode
            attached.stdout.read()  # ends when nobody has it any more
            for worker in workers:
                assert is_ended(worker)
                os.close(worker)


def is_ended(pidfd):
    import select
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(LONGEST * 1000))


def main():
    case, heapsnap, program = sys.argv[1:]
    try:
        {"unserved": unserved, "unserved_unseen": unserved_unseen, "parent_ends": parent_ends}[case](heapsnap, program)
    except Skipped as why:
        print(f"skipped: {why}")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
