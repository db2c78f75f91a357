#!/usr/bin/env python3
"""Whatever single system call a seccomp filter of the target forbids, by death or by an error, the commands that make
the target call anything leave it alive and at work: they refuse, or do without.

    one_call_killed.py COMMAND ANSWER THREADS HEAPSNAP TARGET [FIRST LAST]

COMMAND is attach, inject, eject or trim; ANSWER is kill or deny; THREADS is pair or alone. With FIRST and LAST, every number from FIRST to LAST is
tried, else those of the calls that anything of heapsnap, glibc's loader or its allocator makes.
"""

import subprocess
import sys
import tempfile

SKIP = 77
NUMBERS = {
    "pread64": 17, "close": 3, "open": 2, "openat": 257, "stat": 4, "fstat": 5, "lstat": 6, "newfstatat": 262, "lseek": 8,
    "statx": 332, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14,
    "rt_sigreturn": 15, "ioctl": 16, "access": 21, "faccessat": 269, "mremap": 25, "mincore": 27, "madvise": 28, "getpid": 39,
    "clone": 56, "fork": 57, "exit": 60, "wait4": 61, "fcntl": 72, "getcwd": 79, "chdir": 80, "unlink": 87, "readlink": 89,
    "gettimeofday": 96, "setpgid": 109, "prctl": 157, "arch_prctl": 158, "gettid": 186, "futex": 202,
    "sched_getaffinity": 204, "set_tid_address": 218, "clock_gettime": 228, "tgkill": 234, "readlinkat": 267,
    "set_robust_list": 273, "vmsplice": 278, "pipe2": 293, "prlimit64": 302, "getrandom": 318, "memfd_create": 319,
    "membarrier": 324, "rseq": 334, "clone3": 435, "close_range": 436, "sysinfo": 99, "getuid": 102, "uname": 63,
}


# read, write, nanosleep, clock_nanosleep and exit_group, which the target itself needs.
OWN = {0, 1, 35, 230, 231}


def expect(target, line):
    said = target.stdout.readline().strip()
    if said == line:
        return True
    code = target.wait(timeout=60)
    if code == SKIP:
        print("seccomp filters cannot be set here")
        sys.exit(SKIP)
    return False


def tell(target):
    target.stdin.write("\n")
    target.stdin.flush()


def heapsnap_on(target, heapsnap, *arguments):
    done = subprocess.run([heapsnap, *arguments, str(target.pid)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def lives(target):
    try:
        tell(target)
        return expect(target, "works")
    except BrokenPipeError:
        return False


def try_one(command, answer, threads, heapsnap, program, number):
    """Gives what harm was done, or None; and whether the command refused to make the call."""
    target = subprocess.Popen([program, str(number), answer, threads], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert expect(target, "ready")
        if command == "eject":
            assert heapsnap_on(target, heapsnap, "inject")[0] == 0
        tell(target)
        assert expect(target, "filtered")
        with tempfile.TemporaryDirectory() as folder:
            extra = {"attach": ["--freeze", "fork", "-o", f"{folder}/one.hsnap"], "trim": ["--no-estimate"]}
            code, output = heapsnap_on(target, heapsnap, command, *extra.get(command, []))
        if not lives(target):
            return f"it ended with {target.wait(timeout=60)}; {command} with {code}: {output.strip()}", False
        if code not in (0, 5):
            return f"{command} ended with {code}: {output.strip()}", True
        return None, code != 0 or "while it was read" in output
    finally:
        target.kill()
        target.communicate()


def main():
    command, answer, threads, heapsnap, program = sys.argv[1:6]
    limits = [int(word) for word in sys.argv[6:8]]
    numbers = range(limits[0], limits[1] + 1) if limits else sorted(NUMBERS.values())
    harmed, refused, tried = [], 0, 0
    for number in numbers:
        if number in OWN:
            continue
        end, is_refused = try_one(command, answer, threads, heapsnap, program, number)
        tried += 1
        refused += is_refused
        if end is not None:
            harmed.append(number)
            print(f"call {number}: {end}", flush=True)
    print(f"{command}: {tried} calls forbidden one at a time ({answer}, {threads}), {refused} refusals, {len(harmed)} harmed: {harmed}")
    assert 0 < refused < tried, "filters without effect, or nothing but refusals"
    return 1 if harmed else 0


if __name__ == "__main__":
    sys.exit(main())
