#!/usr/bin/env python3
"""trim, inject and eject of a process whose only thread is caught in the middle of fork or malloc.

    inject_forks.py CASE HEAPSNAP TARGETS

The target (tests/targets/parked_forker.cpp) stays in the kernel at each fork until this test answers for
the kernel (seccomp_unotify(2)), with every lock that glibc's fork takes. Cases:

  once_threaded   it has had a second thread, so fork takes all locks of the allocator: whoever waits for one
                  of them must not be waited for by the thread that forks
  never_threaded  no lock is taken: no thread may come into being in the middle of the fork
  fork_handler    it sleeps in a handler of pthread_atfork, far from fork
  signal_handler  it sleeps in a signal handler that interrupted malloc: a snapshot says so
  while_loading   it forks while the worker stays in a call that dlopen or the tracker's start makes. The child
                  gets the loader as it is then, and must be able to use it. In the child, glibc 2.36 makes
                  anew the lock of the loader's data (dl_load_lock), which dlopen holds all the time, but not
                  that of its list (dl_load_write_lock) nor that of thread-local storage. dlopen holds those
                  in no such call. dl_iterate_phdr holds the list's, and the tracker calls it at its start:
                  forks wait for its end

Exits 77, with the reason, where the kernel has no such listener.
"""

import ctypes
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time

from owned_process import OwnedProcess

RECEIVE = 0xC0502100  # SECCOMP_IOCTL_NOTIF_RECV
SEND = 0xC0182101     # SECCOMP_IOCTL_NOTIF_SEND
CONTINUE = 1
PIDFD_GETFD = 438
LISTENER = 100
# A target that hangs is not waited for longer.
PATIENCE = 30
# So often a thread that is inside is looked at before it is let go.
LOOKS = 20
# A fork that has made no child by then waits for the worker. The tracker's handler gives up after a second where
# it may.
LONGEST_WAIT = 2


class Failure(Exception):
    pass


class ParkedForker(OwnedProcess):
    def __init__(self, targets, kind):
        self.process = subprocess.Popen([f"{targets}/parked_forker", kind], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        said = self.process.stdout.readline().strip()
        if said != "ready":
            print("skipped:", said)
            sys.exit(77)
        pidfd = os.pidfd_open(self.process.pid)
        self.listener = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, pidfd, LISTENER, 0)
        os.close(pidfd)
        if self.listener < 0:
            print("skipped: pidfd_getfd:", os.strerror(ctypes.get_errno()))
            sys.exit(77)

    def order(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def expect(self, line):
        """Other calls are let pass meanwhile: the child of a fork has the listener too."""
        events = select.poll()
        events.register(self.process.stdout, select.POLLIN)
        self.let_calls_pass(lambda: events.poll(0))
        said = self.process.stdout.readline().strip()
        if said != line:
            raise Failure(f"the target said {said!r} instead of {line!r}")

    def says_something(self, patience):
        """Other calls are let pass meanwhile."""
        events = select.poll()
        events.register(self.process.stdout, select.POLLIN)
        deadline = time.monotonic() + patience
        self.let_calls_pass(lambda: events.poll(0) or time.monotonic() > deadline)
        return bool(events.poll(0))

    def has_child(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="utf-8") as children:
            return bool(children.read())

    def has_call(self, patience):
        """Whether a system call waits for an answer."""
        events = select.poll()
        events.register(self.listener, select.POLLIN)
        return bool(events.poll(patience * 1000))

    def take_call(self, patience=PATIENCE):
        """The next one; None when it was interrupted before it could be taken."""
        if not self.has_call(patience):
            raise Failure(f"its thread has not come back to its system call: {self.state()}")
        notice = bytearray(80)
        try:
            fcntl.ioctl(self.listener, RECEIVE, notice)
        except OSError:
            return None
        return struct.unpack_from("Q", notice)[0]

    def take_call_of(self, process):
        """The next one that a thread of this process makes; None when there is none now."""
        while self.has_call(0.05):
            notice = bytearray(80)
            try:
                fcntl.ioctl(self.listener, RECEIVE, notice)
                call, tid = struct.unpack_from("QI", notice)
                with open(f"/proc/{tid}/status", encoding="utf-8") as status:
                    if f"\nTgid:\t{process}\n" in status.read():
                        return call
            except OSError:
                continue  # interrupted, or ended
            self.answer(call)
        return None

    def answer(self, call):
        """Lets the call be made; False when it was interrupted meanwhile, and will be made anew."""
        try:
            fcntl.ioctl(self.listener, SEND, bytearray(struct.pack("QqiI", call, 0, 0, CONTINUE)))
        except OSError:
            return False
        return True

    def let_calls_pass(self, until):
        while not until():
            if self.has_call(0.05):
                call = self.take_call()
                if call is not None:
                    self.answer(call)

    def state(self):
        with open(f"/proc/{self.process.pid}/stack", encoding="utf-8") as stack:
            return stack.read().strip()

    def is_reading(self):
        """It sleeps in read(2) of its standard input."""
        with open(f"/proc/{self.process.pid}/syscall", encoding="utf-8") as call:
            return call.read().startswith("0 0x0 ")

    def end(self):
        self.process.stdin.close()
        self.let_calls_pass(lambda: self.process.poll() is not None)
        if self.process.returncode != 0:
            raise Failure(f"the target ended with {self.process.returncode}")


def start(*command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(command):
    output = command.communicate(timeout=120)[0]
    if command.returncode != 0:
        raise Failure(f"{command.args}: exit code {command.returncode}: {output}")


def run(target, *command):
    """The calls of the target are let pass meanwhile."""
    process = start(*command)
    target.let_calls_pass(lambda: process.poll() is not None)
    return process.returncode, process.communicate()[0]


def verbs(heapsnap, pid):
    return [[heapsnap, "trim", "--no-estimate", pid], [heapsnap, "inject", pid], [heapsnap, "eject", pid]]


def once_threaded(heapsnap, targets):
    with ParkedForker(targets, "once") as target:
        for verb in verbs(heapsnap, str(target.process.pid)):
            target.order("fork")
            if target.take_call() is None:
                raise Failure("the fork did not come to its system call")
            command = start(*verb)
            # Interrupted for a moment, it must be back in its fork, whoever waits for what it holds.
            call = None
            while call is None:
                call = target.take_call()
            target.answer(call)
            target.let_calls_pass(lambda c=command: c.poll() is not None)
            finish(command)
            target.expect("forked 0")
        target.end()


def never_threaded(heapsnap, targets):
    for verb in range(2):
        with ParkedForker(targets, "never") as target:
            target.order("fork")
            call = target.take_call()
            command = start(*verbs(heapsnap, str(target.process.pid))[verb])
            for _ in range(LOOKS):
                while not target.has_call(0.05):
                    if command.poll() is not None:
                        raise Failure("a thread was made in the middle of a fork: " + command.communicate()[0])
                call = target.take_call() or call
            target.answer(call)
            target.let_calls_pass(lambda c=command: c.poll() is not None)
            finish(command)
            target.expect("forked 0")
            target.end()


def refused_while_it_sleeps(heapsnap, target, verb, said):
    pid = str(target.process.pid)
    code, output = run(target, *verbs(heapsnap, pid)[verb])
    if code == 0:
        raise Failure("a thread was made in the middle of it: " + output)
    if "inside" not in output:
        raise Failure("refused for another reason: " + output)
    target.order("go on")
    target.expect(said)
    code, output = run(target, *verbs(heapsnap, pid)[verb])
    if code != 0:
        raise Failure("refused afterwards: " + output)
    target.end()


def fork_handler(heapsnap, targets):
    with ParkedForker(targets, "never") as target:
        target.order("fork-handler")
        target.expect("waiting")

        refused_while_it_sleeps(heapsnap, target, 0, "forked 0")


def notes_of_attach(heapsnap, target, method):
    with tempfile.TemporaryDirectory() as folder:
        code, output = run(target, heapsnap, "attach", "-j", "--freeze", method, "-o", f"{folder}/a.hsnap",
                           str(target.process.pid))
    if code != 0:
        raise Failure("attach: " + output)
    return " ".join(json.loads(output)["freeze"]["notes"])


def signal_handler(heapsnap, targets):
    with ParkedForker(targets, "never") as target:
        target.order("malloc")
        target.take_call()
        os.kill(target.process.pid, signal.SIGUSR1)
        target.expect("waiting")
        for method in "stop", "fork":
            if "1 thread was in a signal handler that had interrupted" not in notes_of_attach(heapsnap, target, method):
                raise Failure("what malloc has half done is shown as if it were not")

        refused_while_it_sleeps(heapsnap, target, 1, "allocated")

    with ParkedForker(targets, "never") as target:
        while not target.is_reading():
            os.sched_yield()
        os.kill(target.process.pid, signal.SIGUSR1)
        target.expect("waiting")
        notes = notes_of_attach(heapsnap, target, "stop")
        if "signal handler" in notes:
            raise Failure("a handler that interrupted no malloc: " + notes)


def while_loading(heapsnap, targets):
    with ParkedForker(targets, "loading") as target:
        pid = target.process.pid
        forks = waits = 0
        for verb in verbs(heapsnap, str(pid))[1:] * 2:
            command = start(*verb)
            while command.poll() is None:
                call = target.take_call_of(pid)
                if call is None:
                    continue
                if waits == 2:
                    target.answer(call)
                    continue
                target.order("fork-load")
                if target.says_something(LONGEST_WAIT) or target.has_child():
                    forks += 1
                    if not target.says_something(PATIENCE):
                        raise Failure(f"held call {forks}: the child that was made then does not end: {target.state()}")
                    target.expect("forked 0")
                    target.answer(call)
                else:  # the fork waits for the worker
                    waits += 1
                    target.answer(call)
                    if not target.says_something(PATIENCE):
                        raise Failure(f"the fork or its child does not end: {target.state()}")
                    target.expect("forked 0")
            finish(command)
        print(f"{forks} forks while the worker was held, {waits} that waited for it")
        if forks < 4 or waits == 0:
            raise Failure("the worker was not where it was to be held")
        target.end()


def main():
    case, heapsnap, targets = sys.argv[1:4]
    try:
        {"once_threaded": once_threaded, "never_threaded": never_threaded, "fork_handler": fork_handler,
         "signal_handler": signal_handler, "while_loading": while_loading}[case](heapsnap, targets)
    except Failure as failure:
        print("FAILED:", failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
