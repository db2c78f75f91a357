#!/usr/bin/env python3
"""heapsnap_dump_self() comes to an end, and says what happened, whatever is barred in its host.

    self_dump_bounds.py CASE HEAPSNAP LIBRARY COMPILER

The host is this script again (--host), with a seccomp filter that answers one system call with an error
or a signal, or with a program in heapsnap's place that does not end. A host that hangs is ended after
HANGS_AFTER seconds, which is the failure that this test is for.
"""

import ctypes
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading

SKIP = 77
HANGS_AFTER = float(os.environ.get("HANGS_AFTER", 120))
CANNOT_START = 127

CALLS = {"x86_64": {"close_range": 436, "execve": 59, "rt_sigtimedwait": 128, "clone": 56, "wait4": 61,
                    "getdents64": 217}}
ANSWERS = {"ENOSYS": 0x00050000 | 38, "EPERM": 0x00050000 | 1, "kill": 0x80000000}

# CASE: the barred call and its answer, the expected result, and what the message must have.
BARRED = {
    "close_range_ENOSYS": (0, ""),
    "close_range_EPERM": (0, ""),
    "close_range_kill": (0, ""),
    "rt_sigtimedwait_ENOSYS": (0, ""),
    "rt_sigtimedwait_kill": (CANNOT_START, "waits for heapsnap was ended by signal 31 (SIGSYS)"),
    "execve_EPERM": (CANNOT_START, "Operation not permitted"),
    "execve_kill": (CANNOT_START, "heapsnap was ended by signal 31 (SIGSYS)"),
    "clone_EPERM": (CANNOT_START, "Operation not permitted"),
    "wait4_EPERM": (CANNOT_START, "cannot wait for heapsnap: Operation not permitted"),
    "getdents64_EPERM": (None, ""),  # heapsnap needs it to see the threads; the host must go on
}

# In the window between the start of the program and its permission another thread forks: here, the
# thread itself does, where the library names its tracer.
FORKING_LIBRARY = r"""
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int prctl(int option, ...) {
  va_list list;
  va_start(list, option);
  unsigned long argument = va_arg(list, unsigned long);
  va_end(list);
  if (option == PR_SET_PTRACER && argument != 0 && fork() == 0) {
    char byte;
    close(1);
    close(2);
    while (read(atoi(getenv("KEPT_UNTIL")), &byte, 1) > 0) {
    }
    _exit(0);
  }
  return (int)syscall(SYS_prctl, option, argument, 0, 0, 0);
}
"""


def bar(call, answer):
    """Installs a filter that answers `call` so and allows the rest."""
    number = CALLS[os.uname().machine][call]
    program = [(0x20, 0, 0, 0),                     # load the number of the call
               (0x15, 0, 1, number),                # another one: skip the next
               (0x06, 0, 0, ANSWERS[answer]),
               (0x06, 0, 0, 0x7fff0000)]            # SECCOMP_RET_ALLOW
    code = b"".join(struct.pack("HBBI", *line) for line in program)
    lines = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(lines)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((38, 1, 0, 0, 0), (22, 2, ctypes.addressof(header), 0, 0)):
        if libc.prctl(*(ctypes.c_ulong(word) for word in arguments)) != 0:
            print("cannot install a filter:", os.strerror(ctypes.get_errno()))
            os._exit(SKIP)


def load(library):
    dumper = ctypes.CDLL(library)
    dumper.heapsnap_last_error.restype = ctypes.c_char_p
    return dumper


def dump(dumper, path):
    result = dumper.heapsnap_dump_self(path.encode())
    return result, dumper.heapsnap_last_error().decode()


def host(case, library, folder):
    """Runs in a process of its own: prints result and message of the dump."""
    dumper = load(library)
    snapshot = f"{folder}/host.hsnap"
    if case == "ignored_child_signal":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        with open(snapshot, "w", encoding="ascii"):
            pass  # exists: the dump must fail
    elif case == "fork_in_a_dump":
        # The program of the first dump stands until it may go on; meanwhile a child is forked.
        os.mkfifo(f"{folder}/started")
        os.mkfifo(f"{folder}/go_on")
        real = os.environ["HEAPSNAP_PROGRAM"]
        os.environ["HEAPSNAP_PROGRAM"] = f"{folder}/program"
        ctypes.CDLL(None).setenv(b"HEAPSNAP_PROGRAM", f"{folder}/program".encode(), 1)
        thread = threading.Thread(target=dump, args=(dumper, snapshot))
        thread.start()
        with open(f"{folder}/started", encoding="ascii") as started:
            started.read()
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).setenv(b"HEAPSNAP_PROGRAM", real.encode(), 1)
            result, message = dump(dumper, f"{folder}/child.hsnap")
            print(result, message, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        with open(f"{folder}/go_on", "w", encoding="ascii"):
            pass
        thread.join()
        return
    elif case in BARRED:
        bar(*case.rsplit("_", 1))
    result, message = dump(dumper, snapshot)
    print(result, message, flush=True)
    os._exit(0)  # a filter may bar what an orderly end needs


def fail(what):
    print("FAILED:", what)
    sys.exit(1)


def run_host(case, library, folder, environment, **more):
    process = subprocess.Popen([sys.executable, "-B", __file__, "--host", case, library, folder],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                               start_new_session=True, **more)
    try:
        output, _ = process.communicate(timeout=HANGS_AFTER)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        fail(f"the host hangs in its dump ({case})")
    if process.returncode == SKIP:
        print("skipped:", output)
        sys.exit(SKIP)
    if process.returncode != 0:
        fail(f"the host ended with {process.returncode}: {output}")
    code, _, message = output.partition(" ")
    return int(code), message.strip()


def script(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def expect(got, code, words):
    if got[0] != code or words not in got[1] or (code == 0) != (got[1] == ""):
        fail(f"got {got}, expected {code} and a message with '{words}'")


def main():
    if sys.argv[1] == "--host":
        host(*sys.argv[2:])
        return
    case, heapsnap, library, compiler = sys.argv[1:]
    if case in BARRED and os.uname().machine not in CALLS:
        print("skipped: the numbers of system calls are those of x86-64")
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HEAPSNAP_PROGRAM": heapsnap}
        if case in BARRED:
            code, words = BARRED[case]
            got = run_host(case, library, folder, environment)
            if code is None:
                code = got[0]
            expect(got, code, words)
            if code == 0 and subprocess.run([heapsnap, "report", f"{folder}/host.hsnap"],
                                            stdout=subprocess.DEVNULL, check=False).returncode != 0:
                fail("the snapshot cannot be read")
        elif case == "endless_program":
            script(f"{folder}/program", "exec cat >/dev/null <>" + f"{folder}/never\n")
            os.mkfifo(f"{folder}/never")
            got = run_host(case, library, folder, {**environment, "HEAPSNAP_PROGRAM": f"{folder}/program",
                                                   "HEAPSNAP_TIMEOUT": "1"})
            expect(got, CANNOT_START, "did not end within 1 seconds")
        elif case == "stubborn_program":
            os.mkfifo(f"{folder}/never")
            script(f"{folder}/program", f"trap '' TERM\nwhile :; do read line <>{folder}/never; done\n")
            got = run_host(case, library, folder, {**environment, "HEAPSNAP_PROGRAM": f"{folder}/program",
                                                   "HEAPSNAP_TIMEOUT": "1"})
            expect(got, CANNOT_START, "did not end within 1 seconds")
        elif case == "ignored_child_signal":
            expect(run_host(case, library, folder, environment), 2, "exists")
        elif case == "fork_in_a_dump":
            script(f"{folder}/program", f": >{folder}/started\nread line <{folder}/go_on\nexit 3\n")
            expect(run_host(case, library, folder, environment), 0, "")
        elif case == "fork_keeps_pipe":
            with open(f"{folder}/forking.c", "w", encoding="ascii") as file:
                file.write(FORKING_LIBRARY)
            subprocess.run([compiler, "-shared", "-fPIC", "-o", f"{folder}/forking.so", f"{folder}/forking.c"],
                           check=True)
            reader, writer = os.pipe()
            got = run_host(case, library, folder,
                           {**environment, "LD_PRELOAD": f"{folder}/forking.so", "KEPT_UNTIL": str(reader)},
                           pass_fds=(reader,))
            os.close(writer)
            expect(got, 0, "")
        else:
            fail(f"there is no case {case}")


main()
