#!/usr/bin/env python3
"""What bars an attach: `attach` and `doctor` name the cause and the remedy, exit as documented, and the
target notices nothing. One case a run: refusals.py CASE HEAPSNAP"""

import errno
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import kernel_rules
import yama_launcher
from kernel_rules import Echo, as_nobody

SKIPPED = 77
NO_PROCESS, NOT_PERMITTED, UNSUPPORTED = 3, 4, 5

# Does nothing but wait, on a stack: a program without any allocator.
BARE_PROGRAM = {
    64: (".globl _start\n_start: mov $34, %eax\nsyscall\njmp _start\n", []),  # pause
    32: (".globl _start\n_start: mov $29, %eax\nint $0x80\njmp _start\n", ["-m32"]),
}


class Skip(Exception):
    pass


class Tool:
    """The program under test, from a folder that every user can read, writing to one that all can write."""

    def __init__(self, heapsnap, folder):
        os.chmod(folder, 0o755)
        self.path = folder / "heapsnap"
        shutil.copy(heapsnap, self.path)
        self.path.chmod(0o755)
        self.output_folder = folder / "out"
        self.output_folder.mkdir()
        self.output_folder.chmod(0o777)

    def run(self, arguments, wrap=lambda argv: argv, prepare=None):
        return subprocess.run(wrap([str(self.path)] + arguments), preexec_fn=prepare, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    def attach(self, pid, *options, **how):
        output = self.output_folder / "snapshot.hsnap"
        return self.run(["attach", str(pid), "-o", str(output), *options], **how)

    def doctor(self, pid, **how):
        done = self.run(["doctor", str(pid), "-j"], **how)
        report = json.loads(done.stdout)
        assert (report["kind"], report["version"], report["pid"]) == ("doctor", 1, pid), report
        assert report["exit_code"] == done.returncode, (report, done.returncode)
        assert report["attachable"] == (done.returncode == 0), report
        return done.returncode, {check["id"]: check for check in report["checks"]}

    def expect_refusal(self, pid, code, finding, words, remedy, **how):
        """Both commands refuse with `code`; `words` are in the cause, `remedy` is in the remedy."""
        done = self.attach(pid, **how)
        assert done.returncode == code, done
        lines = done.stderr.splitlines()
        assert lines[0].startswith("heapsnap: "), done.stderr
        why = next(line for line in lines if line.startswith("  why: "))
        do = next((line for line in lines if line.startswith("  do:  ")), "")
        text = lines[0] + why
        for word in words:
            assert word in text, f"{word!r} is not in {text!r}"
        assert remedy in do, f"{remedy!r} is not in {do!r}"
        assert not list(self.output_folder.iterdir()), "a refused attach left a file"

        found_code, checks = self.doctor(pid, **how)
        assert found_code == code, (found_code, checks)
        assert checks[finding]["severity"] == "blocked", checks
        assert remedy in checks[finding]["remedy"], checks[finding]
        # The same for people: the remedy stands on a line of its own, whole.
        page = self.run(["doctor", str(pid)], **how).stdout
        assert not remedy or any(remedy in line for line in page.splitlines()), page

    def expect_attached(self, pid, *options, **how):
        done = self.attach(pid, "-j", *options, **how)
        assert done.returncode == 0, done
        report = json.loads(done.stdout)
        assert report["mallocs"], report
        (self.output_folder / "snapshot.hsnap").unlink()
        return report["freeze"]


def need_root():
    if os.geteuid() != 0:
        raise Skip("only root can become another user")


def no_such_process(tool):
    # One more than any pid can be (PID_MAX_LIMIT).
    tool.expect_refusal(4194304, NO_PROCESS, "process", ["4194304"], "")


def zombie(tool):
    with kernel_rules.zombie() as pid:
        tool.expect_refusal(pid, NO_PROCESS, "zombie", ["zombie"], "")


def kernel_thread(tool):
    pid = kernel_rules.kernel_thread()
    if pid is None:
        raise Skip("no kernel thread is visible here")
    tool.expect_refusal(pid, UNSUPPORTED, "kernel-thread", ["kernel"], "")


def other_user(tool):
    need_root()
    with Echo() as target:
        tool.expect_refusal(target.pid, NOT_PERMITTED, "owner", ["root", "CAP_SYS_PTRACE"],
                            f"heapsnap attach {target.pid}", wrap=as_nobody)
        target.check_alive()


def more_capabilities(tool):
    need_root()
    with Echo(as_nobody(["cat"], "net_bind_service")) as target:
        tool.expect_refusal(target.pid, NOT_PERMITTED, "capabilities",
                            ["CAP_NET_BIND_SERVICE", "CAP_SYS_PTRACE"],
                            f"heapsnap attach {target.pid}", wrap=as_nobody)
        target.check_alive()


def not_dumpable(tool):
    need_root()
    program = ("import ctypes, sys\n"
               f"ctypes.CDLL(None).prctl({kernel_rules.PR_SET_DUMPABLE}, 0, 0, 0, 0)\n"
               "for line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()\n")
    with Echo(as_nobody([sys.executable, "-u", "-c", program])) as target:
        tool.expect_refusal(target.pid, NOT_PERMITTED, "dumpable", ["dumpable", "CAP_SYS_PTRACE"],
                            f"heapsnap attach {target.pid}", wrap=as_nobody)
        target.check_alive()


def memory_file(tool):
    """CAP_SYS_PTRACE alone permits tracing, but not to open the files of another user."""
    need_root()
    with Echo() as target:
        tool.expect_refusal(target.pid, NOT_PERMITTED, "memory-file",
                            ["/proc/PID/mem", "CAP_DAC_READ_SEARCH"], f"heapsnap attach {target.pid}",
                            wrap=lambda argv: as_nobody(argv, "sys_ptrace"))
        target.check_alive()


def two_capabilities(tool):
    """Those of the systemd unit are enough for all ways of freezing; no signal can be sent with them."""
    need_root()
    with Echo() as target:
        for freeze in ("stop", "fork", "none"):
            done = tool.expect_attached(target.pid, "--freeze", freeze,
                                        wrap=lambda argv: as_nobody(argv, "sys_ptrace", "dac_read_search"))
            assert done["method"] == freeze, done
            target.check_alive()


def own_process_of_a_user(tool):
    """The counterpart of the refusals above: the same user may attach, unless Yama says no."""
    need_root()
    with Echo(as_nobody(["cat"])) as target:
        yama = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
        if yama.exists() and yama.read_text().strip() != "0":
            tool.expect_refusal(target.pid, NOT_PERMITTED, "yama", ["Yama", "ptrace_scope"], "heapsnap",
                                wrap=as_nobody)
        else:
            tool.expect_attached(target.pid, wrap=as_nobody)
        target.check_alive()


def yama_parent(tool):
    """ptrace_scope 1 permits to trace descendants only: a target whose parent has executed heapsnap (`server &
    exec heapsnap attach $!`) is one of heapsnap's, and stays one. Where the kernel has no Yama, this test is it."""
    need_root()
    tool.output_folder.chmod(0o777)
    launcher = subprocess.Popen(
        ["unshare", "-m", sys.executable, "-B", yama_launcher.__file__, str(tool.path), str(tool.output_folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = launcher.stdout.readline().split()
    if said[:1] != ["target"]:
        raise Skip(" ".join(said) + launcher.communicate()[1])
    refused = yama_launcher.judge(launcher.pid)
    output, errors = launcher.communicate(timeout=60)
    assert launcher.returncode == 0, (launcher.returncode, errors)
    assert json.loads(output)["freeze"]["method"] in ("stop", "fork"), output
    assert refused == 0, f"{refused} calls were made by a process that is not the target's ancestor"


def outer_user_namespace(tool):
    """root in a user namespace of its own is nobody outside."""
    inside = ["unshare", "--user", "--map-root-user"]
    if subprocess.run(inside + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("user namespaces cannot be made here")
    with Echo() as target:
        tool.expect_refusal(target.pid, NOT_PERMITTED, "user-namespace", ["user namespace"],
                            f"heapsnap attach {target.pid}", wrap=lambda argv: inside + argv)
        target.check_alive()


def traced(tool):
    with Echo() as target:
        with kernel_rules.traced_by_us(target.pid):
            tracer = pathlib.Path("/proc/self/comm").read_text().strip()
            tool.expect_refusal(target.pid, NOT_PERMITTED, "tracer",
                                ["already traced", f"{tracer} {os.getpid()}"], str(os.getpid()))
        target.check_alive()


def ptrace_barred(tool):
    """A container profile without ptrace(2)."""
    for action in (kernel_rules.SECCOMP_RET_ERRNO | 1, kernel_rules.SECCOMP_RET_KILL_PROCESS):
        def confine():
            kernel_rules.install_filter({kernel_rules.SYS_PTRACE: action})
        with Echo() as target:
            code, checks = tool.doctor(target.pid, prepare=confine)
            assert code == NOT_PERMITTED, checks
            assert "ptrace(2)" in checks["own-seccomp"]["what"], checks
            assert checks["own-seccomp"]["remedy"], checks
            target.check_alive()
    with Echo() as target:
        def confine():
            kernel_rules.install_filter({kernel_rules.SYS_PTRACE: kernel_rules.SECCOMP_RET_ERRNO | 1})
        tool.expect_refusal(target.pid, NOT_PERMITTED, "own-seccomp", ["ptrace(2)", "seccomp"],
                            "heapsnap", prepare=confine)


def process_vm_readv_barred(tool):
    """A container profile without process_vm_readv(2): memory is read another way."""
    def confine():
        kernel_rules.install_filter(
            {kernel_rules.SYS_PROCESS_VM_READV: kernel_rules.SECCOMP_RET_ERRNO | 1})
    with Echo() as target:
        code, checks = tool.doctor(target.pid, prepare=confine)
        assert code == 0, checks
        assert checks["own-seccomp"]["severity"] == "degraded", checks
        for freeze in ("fork", "stop"):
            tool.expect_attached(target.pid, "--freeze", freeze, prepare=confine)
            target.check_alive()


def target_bars_clone(tool):
    """A filter of the target that would kill it for a clone: it is asked, and no clone is made."""
    need_root()
    def confine():
        kernel_rules.install_filter({kernel_rules.SYS_CLONE: kernel_rules.SECCOMP_RET_KILL_PROCESS})
    with Echo(prepare=confine) as target:
        _, checks = tool.doctor(target.pid)
        assert checks["target-seccomp"]["severity"] == "note", checks
        freeze = tool.expect_attached(target.pid, "--freeze", "fork")
        assert freeze["method"] == "stop", freeze
        assert "seccomp" in freeze["why"] + " ".join(freeze["notes"]), freeze
        target.check_alive()


def target_filter_unreadable(tool):
    """Its filter cannot be read, since heapsnap runs under one itself: no call is made on trust."""
    need_root()
    def confine_target():
        kernel_rules.install_filter({kernel_rules.SYS_CLONE: kernel_rules.SECCOMP_RET_KILL_PROCESS})
    def confine_heapsnap():
        kernel_rules.install_filter({kernel_rules.SYS_CLONE: kernel_rules.SECCOMP_RET_ALLOW})
    with Echo(prepare=confine_target) as target:
        _, checks = tool.doctor(target.pid, prepare=confine_heapsnap)
        assert checks["target-seccomp"]["severity"] == "degraded", checks
        freeze = tool.expect_attached(target.pid, "--freeze", "fork", prepare=confine_heapsnap)
        assert freeze["method"] == "stop", freeze
        target.check_alive()


def target_allows_clone(tool):
    """The counterpart: a filter that lets the copy through costs nothing."""
    need_root()
    def confine():
        kernel_rules.install_filter({kernel_rules.SYS_PTRACE: kernel_rules.SECCOMP_RET_KILL_PROCESS})
    with Echo(prepare=confine) as target:
        freeze = tool.expect_attached(target.pid, "--freeze", "fork")
        assert freeze["method"] == "fork", freeze
        target.check_alive()


def target_bars_the_rest(tool):
    """A filter that lets the copy be made and would kill it for taking its name: it does without."""
    need_root()
    def confine():
        kernel_rules.install_filter({kernel_rules.SYS_PRCTL: kernel_rules.SECCOMP_RET_KILL_PROCESS})
    with Echo(prepare=confine) as target:
        freeze = tool.expect_attached(target.pid, "--freeze", "fork")
        assert freeze["method"] == "fork", freeze
        target.check_alive()


def target_bars_giving_up_files(tool):
    """A copy that could not give up the target's file table is not made: the target could lose its record locks."""
    need_root()
    for answer in (kernel_rules.SECCOMP_RET_KILL_PROCESS, kernel_rules.SECCOMP_RET_ERRNO | errno.ENOSYS):
        def confine(answer=answer):
            kernel_rules.install_filter({kernel_rules.SYS_CLOSE_RANGE: answer})
        with Echo(prepare=confine) as target:
            freeze = tool.expect_attached(target.pid, "--freeze", "fork")
            assert freeze["method"] == "stop" and "close_range" in freeze["why"], freeze
            target.check_alive()


# The children of its only thread, or of one besides one that works all the time, come into a PID namespace in which
# none is yet. Told "fork", that thread creates the first one, and answers.
UNSHARES = """
import ctypes, os, sys, threading
def serve():
    if ctypes.CDLL(None).unshare(0x20000000): os._exit(1)  # CLONE_NEWPID
    for line in sys.stdin:
        if line == "fork\\n":
            child = os.fork()
            if child == 0: os._exit(os.getpid())
            assert os.waitpid(child, 0)[1] == 1 << 8
        print(line, end="", flush=True)
    os._exit(0)
if sys.argv[1] == "alone": serve()
threading.Thread(target=serve).start()
while True: sum(range(100))
"""


def target_unshares_children(tool):
    """No copy becomes the init of a PID namespace: when that ends, no more children can be created in it."""
    need_root()
    for mode in ("alone", "pair"):
        with Echo([sys.executable, "-c", UNSHARES, mode]) as target:
            if mode == "alone":
                assert tool.doctor(target.pid)[1]["child-namespace"]["severity"] == "degraded"
            freeze = tool.expect_attached(target.pid, "--freeze", "fork")
            assert freeze["method"] == "stop" and "another PID namespace" in freeze["why"], freeze
            target.process.stdin.write(b"fork\n")
            target.process.stdin.flush()
            assert target.process.stdout.readline() == b"fork\n"


def target_strict(tool):
    with kernel_rules.strictly_confined() as (pid, ask):
        _, checks = tool.doctor(pid)
        assert checks["target-seccomp"]["severity"] == "degraded", checks
        freeze = tool.expect_attached(pid, "--freeze", "fork")
        assert freeze["method"] == "stop", freeze
        ask()


def start_bare_program(bits, folder):
    source, options = BARE_PROGRAM[bits]
    program = folder / f"bare{bits}"
    built = subprocess.run(["gcc", *options, "-nostdlib", "-static", "-o", program, "-x", "assembler", "-"],
                           input=source, text=True, capture_output=True)
    if built.returncode != 0:
        raise Skip("gcc cannot build a program of this kind: " + built.stderr.strip())
    try:
        return subprocess.Popen([program])
    except OSError as error:
        raise Skip(f"the kernel does not run programs of this kind: {error}") from error


def bare_program(bits, tool, words, finding, severity):
    with tempfile.TemporaryDirectory() as folder:
        target = start_bare_program(bits, pathlib.Path(folder))
        try:
            done = tool.attach(target.pid)
            assert done.returncode == UNSUPPORTED, done
            for word in words:
                assert word in done.stderr + done.stdout, done
            _, checks = tool.doctor(target.pid)
            assert checks[finding]["severity"] == severity, checks
            assert target.poll() is None, "the target has ended"
        finally:
            target.kill()
            target.wait()


def program_32_bit(tool):
    bare_program(32, tool, ["gcore"], "machine", "blocked")


def program_without_allocator(tool):
    bare_program(64, tool, [], "allocator", "note")


CASES = {case.__name__: case for case in (
    no_such_process, zombie, kernel_thread, other_user, more_capabilities, not_dumpable,
    memory_file, two_capabilities, own_process_of_a_user, yama_parent, outer_user_namespace, traced, ptrace_barred, process_vm_readv_barred,
    target_bars_clone, target_filter_unreadable, target_allows_clone, target_bars_the_rest,
    target_bars_giving_up_files, target_unshares_children, target_strict, program_32_bit,
    program_without_allocator)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("heapsnap")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            CASES[arguments.case](Tool(arguments.heapsnap, pathlib.Path(folder)))
        except Skip as reason:
            print(f"skipped: {reason}")
            return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
