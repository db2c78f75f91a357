#!/usr/bin/env python3
"""Where nothing can be put into a process: cause, remedy and exit code, and the process goes on.

    inject_refusals.py CASE HEAPSNAP COMPILER ODD_PROCESS
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

import kernel_rules
from kernel_rules import Echo
from odd_process import OddProcess, Skipped

SKIP = 77
NO_PROCESS, NOT_PERMITTED, UNSUPPORTED = 3, 4, 5
KILL_PROCESS, MEMFD_CREATE = 0x80000000, 319
ERRNO, EPERM, ENOSYS, EAGAIN, CLONE3 = 0x00050000, 1, 38, 11, 435
CLONE_NEWPID = 0x20000000

# Answers as Echo wants it to; its children come into another PID namespace until it is told "back".
RETURNS = f"""
import ctypes, sys
libc = ctypes.CDLL(None)
own = open("/proc/self/ns/pid")
if libc.unshare({CLONE_NEWPID}): sys.exit(1)
for line in sys.stdin:
    if line == "back\\n": assert libc.setns(own.fileno(), {CLONE_NEWPID}) == 0
    print(line, end="", flush=True)
"""


def expect_refusal(heapsnap, command, pid, code, words):
    done = subprocess.run([heapsnap, command, str(pid)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (done.returncode, done.stderr)
    for word in words:
        assert word in done.stderr, (word, done.stderr)
    assert "why:" in done.stderr and "do:" in done.stderr, done.stderr


def static_program(heapsnap, compiler):
    with tempfile.TemporaryDirectory() as folder:
        source, program = f"{folder}/echo.c", f"{folder}/echo"
        with open(source, "w", encoding="ascii") as file:
            file.write('#include <stdio.h>\nint main(void) { char l[99]; while (fgets(l, 99, stdin)) '
                       '{ fputs(l, stdout); fflush(stdout); } return 0; }\n')
        if subprocess.run([compiler, "-static", "-o", program, source], capture_output=True).returncode:
            return SKIP
        with Echo([program]) as target:
            for command in ("inject", "trim"):
                expect_refusal(heapsnap, command, target.pid, UNSUPPORTED,
                               ["statically linked", f"heapsnap attach {target.pid}"])
            target.check_alive()
    return 0


def just_loading(heapsnap, _):
    """A program whose libraries are still being loaded is no program without glibc."""
    with tempfile.TemporaryDirectory() as folder:
        fifo = f"{folder}/library"
        os.mkfifo(fifo)  # ld.so waits in open(2), before it has mapped the C library
        target = subprocess.Popen(["sleep", "60"], env={**os.environ, "LD_PRELOAD": fifo}, stderr=subprocess.DEVNULL)
        try:
            while "/ld-" not in open(f"/proc/{target.pid}/maps", encoding="ascii").read():
                time.sleep(0.01)
            trim = subprocess.Popen([heapsnap, "trim", str(target.pid)], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
            time.sleep(0.3)
            with open(fifo, "wb"):
                pass  # it is ignored: no library
            _, said = trim.communicate(timeout=60)
            assert trim.returncode == 0, (trim.returncode, said)
            assert target.poll() is None
        finally:
            target.kill()
            target.wait()
    return 0


def stopped(heapsnap, _):
    with Echo() as target:
        os.kill(target.pid, signal.SIGSTOP)
        os.waitpid(target.pid, os.WUNTRACED)
        expect_refusal(heapsnap, "inject", target.pid, UNSUPPORTED, ["SIGSTOP", f"kill -CONT {target.pid}"])
        os.kill(target.pid, signal.SIGCONT)
        target.check_alive()
    return 0


def traced(heapsnap, _):
    with Echo() as target:
        with kernel_rules.traced_by_us(target.pid):
            expect_refusal(heapsnap, "inject", target.pid, NOT_PERMITTED, ["already traced", str(os.getpid())])
        target.check_alive()
    return 0


def barred_call(heapsnap, _):
    """memfd_create would kill it: inject needs that, trim does not."""
    with Echo(prepare=lambda: kernel_rules.install_filter({MEMFD_CREATE: KILL_PROCESS})) as target:
        expect_refusal(heapsnap, "inject", target.pid, UNSUPPORTED, ["seccomp", "memfd_create"])
        subprocess.run([heapsnap, "trim", "--no-estimate", str(target.pid)], check=True, capture_output=True)
        target.check_alive()
    return 0


def nothing_to_eject(heapsnap, _):
    with Echo() as target:
        expect_refusal(heapsnap, "eject", target.pid, UNSUPPORTED, ["there is nothing to remove", f"heapsnap inject {target.pid}"])
        target.check_alive()
    return 0


def no_file_growth(heapsnap, _):
    """The library would be written to a file."""
    with Echo(prepare=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))) as target:
        expect_refusal(heapsnap, "inject", target.pid, UNSUPPORTED,
                       ["ulimit -f of it", f"prlimit --pid {target.pid} --fsize=unlimited"])
        target.check_alive()
        remedy = subprocess.run(["prlimit", "--pid", str(target.pid), "--fsize=unlimited"], capture_output=True)
        if remedy.returncode == 0:
            subprocess.run([heapsnap, "inject", str(target.pid)], check=True, capture_output=True)
            target.check_alive()
    return 0


def deadline_scheduling(heapsnap, _):
    """The kernel refuses such a thread a clone."""
    policy = ["chrt", "--deadline", "--sched-runtime", "2000000", "--sched-deadline", "10000000", "--sched-period",
              "10000000", "--pid", "0"]
    with Echo() as target:
        if subprocess.run([*policy, str(target.pid)], capture_output=True).returncode:
            return SKIP
        other = ["chrt", "--other", "--pid", "0", str(target.pid)]
        for command in ("inject", "trim"):
            expect_refusal(heapsnap, command, target.pid, UNSUPPORTED, ["SCHED_DEADLINE", " ".join(other)])
        subprocess.run(other, check=True)
        subprocess.run([heapsnap, "inject", str(target.pid)], check=True, capture_output=True)
        subprocess.run([*policy, str(target.pid)], check=True)
        expect_refusal(heapsnap, "eject", target.pid, UNSUPPORTED, ["SCHED_DEADLINE", " ".join(other)])
        subprocess.run(other, check=True)
        subprocess.run([heapsnap, "eject", str(target.pid)], check=True, capture_output=True)
        target.check_alive()
    return 0


def dispatched_thread(heapsnap, _):
    """One of its threads has its system calls handed to a handler (Syscall User Dispatch)."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with OddProcess("dispatched_thread", sys.argv[4], folder) as target:
                expect_refusal(heapsnap, "inject", target.pid, UNSUPPORTED,
                               ["its system calls are dispatched to a handler of its own", f"heapsnap attach {target.pid}"])
                target.check("after a refused inject", may_have_copy=False)
                # What was loaded by then records nothing.
                again = subprocess.run([heapsnap, "eject", str(target.pid)], capture_output=True, text=True)
                assert again.returncode == 0 and "entry points" not in again.stdout, (again.stdout, again.stderr)
                subprocess.run([heapsnap, "trim", "--no-estimate", str(target.pid)], check=True, capture_output=True)
                target.check("after trim", may_have_copy=False)
        except Skipped as reason:
            print(reason)
            return SKIP
    return 0


def children_elsewhere(heapsnap, _):
    """The kernel lets a process create no thread while its children come into another PID namespace."""
    if os.geteuid() != 0:
        return SKIP
    with Echo([sys.executable, "-c", RETURNS]) as target, tempfile.TemporaryDirectory() as folder:
        for command in ("inject", "trim"):
            expect_refusal(heapsnap, command, target.pid, UNSUPPORTED,
                           ["in another PID namespace", "/proc/self/ns/pid", f"heapsnap attach {target.pid}"])
        subprocess.run([heapsnap, "attach", "-o", f"{folder}/a.hsnap", str(target.pid)], check=True, capture_output=True)
        target.process.stdin.write(b"back\n")
        target.process.stdin.flush()
        assert target.process.stdout.readline() == b"back\n"
        for command in (["inject"], ["trim", "--no-estimate"], ["eject"]):
            subprocess.run([heapsnap, *command, str(target.pid)], check=True, capture_output=True)
        target.check_alive()
    return 0


def refused_clone3(heapsnap, _):
    """Its filter answers clone3, which a new thread is made by: with EPERM that is told; with ENOSYS glibc does without."""
    def answering(error):
        return Echo(prepare=lambda: kernel_rules.install_filter({CLONE3: ERRNO | error}))

    with answering(EPERM) as target:
        if subprocess.run([heapsnap, "trim", "--no-estimate", str(target.pid)], capture_output=True).returncode == 0:
            return SKIP  # glibc before 2.34
        for command in ("inject", "trim"):
            expect_refusal(heapsnap, command, target.pid, UNSUPPORTED,
                           ["EPERM", "its seccomp filter forbids clone3", "ENOSYS", f"heapsnap attach {target.pid}"])
        target.check_alive()
    with answering(EAGAIN) as target:
        expect_refusal(heapsnap, "trim", target.pid, UNSUPPORTED, ["EAGAIN", "task limit"])
    with answering(ENOSYS) as target:
        subprocess.run([heapsnap, "inject", str(target.pid)], check=True, capture_output=True)
        target.check_alive()
    return 0


def ends_meanwhile(heapsnap, _):
    """Killed at some moment of the injection: told to be gone, and heapsnap comes to an end."""
    ended = 0
    for moment in range(60):
        with Echo() as target:
            injector = subprocess.Popen([heapsnap, "inject", str(target.pid)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
            time.sleep(moment * 0.001)  # the moment is what is tested
            os.kill(target.pid, signal.SIGKILL)
            errors = injector.communicate(timeout=60)[1]
            assert injector.returncode in (0, NO_PROCESS), (injector.returncode, errors)
            if injector.returncode == NO_PROCESS:
                ended += 1
                assert "why:" in errors, errors
    assert ended > 0
    return 0


CASES = {case.__name__: case for case in
         (static_program, just_loading, stopped, traced, barred_call, no_file_growth, deadline_scheduling, dispatched_thread,
          children_elsewhere, refused_clone3, nothing_to_eject, ends_meanwhile)}


if __name__ == "__main__":
    sys.exit(CASES[sys.argv[1]](sys.argv[2], sys.argv[3]))
