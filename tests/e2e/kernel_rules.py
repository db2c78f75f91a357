"""Processes under the rules that bar an attach: other users, tracers, seccomp filters, namespaces."""

import contextlib
import ctypes
import os
import signal
import struct
import subprocess

LIBC = ctypes.CDLL(None, use_errno=True)

NOBODY = 65534

# linux/prctl.h, linux/seccomp.h, linux/ptrace.h, x86-64
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_STRICT = 1
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_KILL_PROCESS = 0x80000000
SECCOMP_RET_ERRNO = 0x00050000
SECCOMP_RET_ALLOW = 0x7FFF0000
PTRACE_DETACH = 17
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
SYS_CLONE = 56
SYS_PTRACE = 101
SYS_PRCTL = 157
SYS_PROCESS_VM_READV = 310
SYS_PIDFD_OPEN = 434
SYS_CLOSE_RANGE = 436


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "a call of the C library failed")


def install_filter(answers):
    """A seccomp filter for this process: {system call number: action}, everything else is allowed."""
    load_number = (0x20, 0, 0, 0)  # A = seccomp_data.nr
    program = [load_number]
    for number, action in answers.items():
        program.append((0x15, 0, 1, number))  # if A != number, skip the next
        program.append((0x06, 0, 0, action))
    program.append((0x06, 0, 0, SECCOMP_RET_ALLOW))
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    rules = Program(len(program), ctypes.cast(buffer, ctypes.c_void_p))
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    check(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(rules), 0, 0))


class Echo:
    """A process that gives back what it is sent: one that answers is neither hurt nor stopped."""

    def __init__(self, argv=("cat",), prepare=None):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=prepare, close_fds=False)
        self.pid = self.process.pid
        self.check_alive()  # it runs its program by now, not this one

    def check_alive(self):
        self.process.stdin.write(b"ping\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if answer != b"ping\n":
            raise AssertionError(f"the target does not answer: {answer!r}, {self.process.poll()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def as_nobody(argv, *capabilities):
    """The command as an ordinary user, with these ambient capabilities only."""
    added = ",".join("+" + name for name in capabilities)
    options = [f"--inh-caps=-all,{added}", f"--ambient-caps=-all,{added}"] if added else []
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] + options + list(argv)


@contextlib.contextmanager
def traced_by_us(pid):
    check(LIBC.ptrace(PTRACE_SEIZE, pid, None, None))
    try:
        yield
    finally:
        # Only a stopped tracee can be let go.
        check(LIBC.ptrace(PTRACE_INTERRUPT, pid, None, None))
        os.waitpid(pid, 0)
        check(LIBC.ptrace(PTRACE_DETACH, pid, None, None))


@contextlib.contextmanager
def zombie():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        yield pid
    finally:
        os.waitpid(pid, 0)


@contextlib.contextmanager
def strictly_confined():
    """A process in strict seccomp mode that answers each byte with the same byte."""
    to_child, from_parent = os.pipe()
    to_parent, from_child = os.pipe()
    pid = os.fork()
    if pid == 0:
        LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0)
        while True:
            os.write(from_child, os.read(to_child, 1))

    def ask():
        os.write(from_parent, b"x")
        if os.read(to_parent, 1) != b"x":
            raise AssertionError("the target does not answer")

    os.close(to_child)
    os.close(from_child)
    ask()
    try:
        yield pid, ask
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(from_parent)
        os.close(to_parent)


def kernel_thread():
    """The pid of a thread of the kernel, or nothing where none is visible."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[6]) & 0x200000:  # PF_KTHREAD
            return int(name)
    return None
