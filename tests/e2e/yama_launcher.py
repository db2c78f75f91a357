"""A launcher that starts a target and executes heapsnap, under Yama's ptrace_scope 1 or what looks like it.

    yama_launcher.py HEAPSNAP FOLDER       in a mount namespace of its own, as root

A file says that the scope is 1; and who started it answers for the kernel (seccomp_unotify(2)): judge() refuses
ptrace(2) and process_vm_readv(2) of other processes than the launcher's, which is the target's only ancestor here.
"""

import ctypes
import errno
import fcntl
import os
import select
import struct
import subprocess
import sys

import kernel_rules

SECCOMP = 317
SET_MODE_FILTER = 1
NEW_LISTENER = 8
USER_NOTIF = 0x7FC00000
RECEIVE = 0xC0502100  # SECCOMP_IOCTL_NOTIF_RECV
SEND = 0xC0182101     # SECCOMP_IOCTL_NOTIF_SEND
CONTINUE = 1
PIDFD_GETFD = 438
LISTENER = 100
JUDGED = (kernel_rules.SYS_PTRACE, kernel_rules.SYS_PROCESS_VM_READV)


def process_of(tid):
    with open(f"/proc/{tid}/status", encoding="utf-8", errors="replace") as status:
        return int(next(line for line in status if line.startswith("Tgid:")).split()[1])


def judge(launcher):
    """Until the launcher has ended: how many calls were refused."""
    process = os.pidfd_open(launcher)
    listener = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, LISTENER, 0)
    kernel_rules.check(min(listener, 0))
    refused = 0
    events = select.poll()
    events.register(listener, select.POLLIN)
    events.register(process, select.POLLIN)
    while True:
        ready = [fd for fd, _ in events.poll()]
        if process in ready:
            break
        notice = bytearray(80)
        try:
            fcntl.ioctl(listener, RECEIVE, notice)
            call, tid = struct.unpack_from("QI", notice)
            number = struct.unpack_from("i", notice, 16)[0]
            answer = (call, 0, 0, CONTINUE)
            if number in JUDGED and process_of(tid) != launcher:
                refused += 1
                answer = (call, 0, -errno.EPERM, 0)
            fcntl.ioctl(listener, SEND, bytearray(struct.pack("QqiI", *answer)))
        except OSError:
            continue  # the caller was interrupted, or has ended
    os.close(listener)
    os.close(process)
    return refused


def listen():
    program = [(0x20, 0, 0, 0)]  # A = seccomp_data.nr
    for number in JUDGED:
        program += [(0x15, 0, 1, number), (0x06, 0, 0, USER_NOTIF)]
    program.append((0x06, 0, 0, kernel_rules.SECCOMP_RET_ALLOW))
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    rules = ctypes.create_string_buffer(struct.pack("@HxxxxxxP", len(program), ctypes.addressof(buffer)))
    kernel_rules.check(kernel_rules.LIBC.prctl(kernel_rules.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    listener = kernel_rules.LIBC.syscall(SECCOMP, SET_MODE_FILTER, NEW_LISTENER, rules)
    kernel_rules.check(min(listener, 0))
    os.dup2(listener, LISTENER, inheritable=True)


def main():
    heapsnap, folder = sys.argv[1:]
    with open(f"{folder}/scope", "w", encoding="utf-8") as scope:
        scope.write("1\n")
    shown = "/proc/sys/kernel/yama/ptrace_scope"
    if not os.path.exists(shown):
        subprocess.run(["mount", "-t", "tmpfs", "none", "/proc/sys/kernel"], check=True)
        os.mkdir(os.path.dirname(shown))
        with open(shown, "w", encoding="utf-8"):
            pass
    subprocess.run(["mount", "--bind", f"{folder}/scope", shown], check=True)
    os.setgroups([])
    os.setresgid(*[kernel_rules.NOBODY] * 3)
    os.setresuid(*[kernel_rules.NOBODY] * 3)
    target = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    os.write(target.stdin.fileno(), b"\n")  # what comes back says that it has its libraries
    os.read(target.stdout.fileno(), 1)
    os.set_inheritable(target.stdin.fileno(), True)  # it ends when heapsnap does
    listen()
    print("target", target.pid, flush=True)
    os.execv(heapsnap, [heapsnap, "attach", str(target.pid), "-j", "--deadline", "60000",
                        "-o", f"{folder}/yama.hsnap"])


if __name__ == "__main__":
    main()
