#!/usr/bin/env python3
"""Remedies are followed: each case makes an obstacle, reads the remedy that is printed, does what it says (runs it,
where it is a command), and sees the refused command succeed.

    remedies.py CASE HEAPSNAP
    remedies.py --list

The cases here are about processes, those of remedies_of_input.py about what was typed and about files. NOT_FOLLOWED
has the remedies that no test can follow.
"""

import contextlib
import itertools
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile

import kernel_rules
from kernel_rules import as_nobody
from remedies_of_input import (ambiguous_name, cores, damaged_snapshot, no_such_process, outputs, run_command_line,
                               run_in_background, temporary_folder, usage)
from remedy_tool import make_core, need_root, Skip, start, Tool

SKIPPED = 77

# Remedies that no test can follow here, each with what bars it.
NOT_FOLLOWED = {
    "set kernel.yama.ptrace_scope = 1 in /etc/sysctl.d/ and reboot": "a setting of the whole machine, and a reboot",
    "sudo sysctl vm.overcommit_ratio=90": "a setting of the whole machine",
    "sudo setsebool deny_ptrace off": "needs SELinux, and is a setting of the whole machine",
    "sudo ausearch -m avc -ts recent -c heapsnap": "needs SELinux",
    "sudo journalctl -k -g 'apparmor=.DENIED.*ptrace'": "needs AppArmor",
    "docker exec, docker run, podman run, kubectl debug": "needs a container engine outside",
    "sudo systemctl edit UNIT": "needs systemd",
    "start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off": "needs a processor and a C library with shadow stacks",
    "start it with LD_PRELOAD=libpthread.so.0": "needs a C library before 2.34; inject_glibc.py has them",
    "go tool pprof http://HOST:PORT/debug/pprof/heap": "needs a Go program that serves it",
    "use the heapsnap that it was started with": "needs another version of heapsnap",
    "please report it with the command line that you used": "needs a bug of heapsnap",
    "free some memory on this machine and try again": "needs a machine without memory",
}


def first_thread_ended(tool):
    """No obstacle: its other threads have code, memory and files."""
    program = ("import ctypes, os, sys, threading\n"
               "def serve():\n"
               "    for line in sys.stdin.buffer: os.write(1, line)\n"
               "    os._exit(0)\n"
               "threading.Thread(target=serve).start()\n"
               "ctypes.CDLL(None).pthread_exit(None)\n")
    with start(sys.executable, "-c", program) as target:
        while "\nState:\tZ" not in pathlib.Path(f"/proc/{target.pid}/status").read_text():
            target.check_alive()
        page = tool.succeed("doctor", target.pid)
        assert "its main thread has ended" in " ".join(page.split()) and "0 B resident" not in page, page
        for verb in ("attach", "trim", "inject", "stacks", "eject"):
            tool.succeed(verb, target.pid)
            target.check_alive()


def untracked(tool):
    """A process that runs: inject, not run."""
    churn_log = ["watch", "--format", "churnlog", "--every", "1ms", "--count", "1", "--interval", "1ms"]
    for verb in (churn_log, ["stacks"], ["eject"]):
        with start() as target:
            tool.follow(tool.remedy(*verb, target.pid), r"(heapsnap inject \d+)")
            tool.succeed(*verb, target.pid)
            target.check_alive()
    with start() as target:
        done = tool.run("eject", target.pid)
        assert done.returncode == 5 and "there is nothing to remove" in done.stderr, done
        assert f"process {target.pid}\n  why: it is not tracked" in tool.run("stacks", target.pid).stderr


def untracked_snapshot(tool):
    """A snapshot of a process that still runs: inject, and take it again."""
    with start() as target:
        tool.succeed("attach", target.pid)
        remedy = tool.remedy("stacks", tool.snapshot)
        tool.follow(remedy, r"\((heapsnap inject \d+)\), then take a snapshot again")
        tool.succeed("attach", target.pid)
        tool.succeed("stacks", tool.snapshot)


def nothing_recorded(tool):
    """No obstacle, but a listing without a row, of which nothing can be added up."""
    with start() as target:
        tool.succeed("inject", target.pid)
        page = " ".join(tool.succeed("stacks", target.pid).split())
        assert "live 0 B in 0 blocks" in page and "--by function" not in page, page
        tool.follow(page, rf"No allocation has been recorded yet\. [^:]*: (heapsnap stacks {target.pid})")
        tool.succeed("attach", target.pid)
        page = tool.succeed("stacks", tool.snapshot)
        assert "--by function" not in page, page
        tool.follow(page, r"No allocation had been recorded by then\. [^:]*:\n *(heapsnap report \S+)")


def untracked_core(tool):
    """A core: the program must be started under the tracker."""
    core = make_core(tool, [sys.executable, "-c", "import os; os.abort()"])
    again = tool.output / "core.hsnap"
    tool.succeed("core", core, "-o", again)
    assert tool.remedy("stacks", again).endswith(": heapsnap run -- COMMAND")
    tool.succeed("run", "--at-exit", tool.snapshot, "--", sys.executable, "-c", "")
    tool.succeed("stacks", tool.snapshot)


def tracker_gone(tool):
    """It calls execve while it is watched."""
    program = "import os\nos.write(1, os.read(0, 5))\nos.read(0, 1)\nos.execvp('cat', ['cat'])"
    with start(sys.executable, "-c", program) as target:
        tool.succeed("inject", target.pid)
        watch = subprocess.Popen(tool.command("watch", "--interval", "1ms", target.pid), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        watch.stdout.readline()
        target.process.stdin.write(b"\n")
        target.check_alive()
        errors = watch.communicate(timeout=60)[1]
        assert watch.returncode == 3 and "heapsnap inject" in errors, errors
        tool.succeed("inject", target.pid)
        tool.succeed("watch", "--count", "1", "--interval", "1ms", target.pid)


def may_raise_limits():
    return subprocess.run(["bash", "-c", "ulimit -n 20; prlimit --pid $$ --nofile=256"], capture_output=True).returncode == 0


def tracker_ejected(tool):
    """Its tracker is ejected while it is watched."""
    with start() as target:
        tool.succeed("inject", target.pid)
        watch = subprocess.Popen(tool.command("watch", "--interval", "1ms", target.pid), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        watch.stdout.readline()
        tool.succeed("eject", target.pid)
        errors = watch.communicate(timeout=60)[1]
        assert watch.returncode == 5 and "eject" in errors, errors
        tool.follow(errors, r"do:  load it again: (heapsnap inject \d+)")
        tool.succeed("watch", "--count", "1", "--interval", "1ms", target.pid)


def descriptors(tool):
    """Too few files may be open: that, and not a process that is hidden or has no C library."""
    with start() as target:
        for verb in ("attach", "doctor", "inject", "stacks", "trim", "eject"):
            words = tool.command(verb, target.pid)
            for limit in ("ulimit -Sn 9", "ulimit -n 20"):
                def under_limit(extra="true"):
                    return subprocess.run(["bash", "-c", f'{limit}; {extra}; exec "$@"', "bash", *words],
                                          capture_output=True, text=True)
                refused = under_limit()
                assert refused.returncode == 4 and "EMFILE" in refused.stderr, refused
                remedy = re.search(r"^  do:  (?:sudo )?(.*)$", refused.stderr, re.MULTILINE)[1]
                if "prlimit" in remedy and not may_raise_limits():
                    print(f"{verb}: not followed without CAP_SYS_RESOURCE: {remedy}")
                    continue
                done = under_limit(remedy)
                assert done.returncode == 0, (remedy, done)
            print(f"{verb}: {remedy}")
        target.check_alive()


def many_threads(tool):
    """The room that is asked for is enough, however many threads there are."""
    with start(sys.executable, "-c", "import os, sys, threading\n"
               "for _ in range(300): threading.Thread(target=lambda: os.read(r, 1), daemon=True).start()\n"
               .replace("for _", "r, w = os.pipe()\nfor _", 1) +
               "for line in sys.stdin.buffer: os.write(1, line)\n") as target:
        for verb in ("attach", "inject", "stacks", "trim", "eject"):
            tool.succeed(verb, target.pid, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (68, 68)))
        target.check_alive()


def other_user(tool):
    need_root()
    with start() as target:
        remedy = tool.remedy("attach", target.pid, wrap=as_nobody)
        tool.follow(remedy, r"(?:^|: |sudo )(heapsnap attach \d+)")


def hidden_process(tool):
    need_root()
    def hide(argv):
        script = 'mount -t proc -o hidepid=2 none /proc && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "sh", *argv]
    if subprocess.run(hide(["true"]), capture_output=True).returncode != 0:
        raise Skip("no /proc can be mounted here")
    with start() as target:
        remedy = tool.remedy("attach", target.pid, why="hidepid", wrap=lambda argv: hide(as_nobody(argv)))
        tool.follow(remedy, r"(?:^|: |sudo )(heapsnap attach \d+)", wrap=hide)


def user_namespace(tool):
    inside = ["unshare", "--user", "--map-root-user"]
    if subprocess.run(inside + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("user namespaces cannot be made here")
    with start() as target:
        remedy = tool.remedy("attach", target.pid, wrap=lambda argv: inside + argv)
        tool.follow(remedy, r"as root on the host: sudo (heapsnap attach \d+)")


TRACER = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
assert libc.ptrace(0x4206, int(sys.argv[1]), None, None) == 0
print("tracing", flush=True)
signal.pause()
"""


def traced(tool):
    with start() as target:
        for verb in ("attach", "inject"):
            with subprocess.Popen([sys.executable, "-c", TRACER, str(target.pid)], stdout=subprocess.PIPE) as tracer:
                try:
                    tracer.stdout.readline()
                    tool.follow(tool.remedy(verb, target.pid, why="already traced"),
                                r"did not start the program, end it: (kill \d+)$")
                    tracer.wait()
                finally:
                    tracer.kill()  # while it traces, nobody else can wait for the target
            tool.succeed(verb, target.pid)
            target.check_alive()


def own_seccomp(tool):
    """heapsnap runs under a filter that is not that of its container."""
    if "Seccomp:\t0" not in pathlib.Path("/proc/1/status").read_text():
        raise Skip("process 1 runs under a seccomp filter: the remedy is another container")
    def confine():
        kernel_rules.install_filter({kernel_rules.SYS_PTRACE: kernel_rules.SECCOMP_RET_ERRNO | 1})
    with start() as target:
        remedy = tool.remedy("attach", target.pid, preexec_fn=confine)
        tool.follow(remedy, r"^start it from a shell without a seccomp filter \(.*\): (heapsnap attach \d+)$")
        # The check that it names.
        assert "Seccomp:\t0" in tool.follow(remedy, r"\((grep Seccomp /proc/self/status)\)")


def at_exit_barred(tool):
    def confine():
        kernel_rules.install_filter({kernel_rules.SYS_PTRACE: kernel_rules.SECCOMP_RET_ERRNO | 1})
    remedy = tool.remedy("run", "--at-exit", tool.snapshot, "--", "true", preexec_fn=confine)
    assert remedy.startswith("run it without --at-exit"), remedy
    tool.succeed("run", "--", "true", preexec_fn=confine)


def stopped(tool):
    with start() as target:
        for verb in ("inject", "trim", "eject"):
            os.kill(target.pid, signal.SIGSTOP)
            os.waitpid(target.pid, os.WUNTRACED)
            tool.follow(tool.remedy(verb, target.pid, why="SIGSTOP"), r"(kill -CONT \d+)$")
            target.check_alive()  # the signal has been dealt with
            tool.succeed(verb, target.pid)
            target.check_alive()


@contextlib.contextmanager


def control_group(controller, *files):
    """A new group that has one of the files: of that controller of version 1, or of version 2."""
    for root in (pathlib.Path("/sys/fs/cgroup") / controller, pathlib.Path("/sys/fs/cgroup")):
        group = root / f"heapsnap-remedies-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if any((group / file).exists() for file in files):
                yield group
                return
        finally:
            while group.exists():
                with contextlib.suppress(OSError):  # until the kernel has taken the process out of it
                    group.rmdir()
    raise Skip(f"no control group with {files[0]} can be made here")


def task_limit(tool):
    """No thread can be made in it: the limit is looked at, raised, and it can."""
    need_root()
    with control_group("pids", "pids.max") as group, start() as target:
        (group / "cgroup.procs").write_text(str(target.pid))
        (group / "pids.max").write_text("1")
        remedy = tool.remedy("trim", "--no-estimate", target.pid)
        assert "pids.max of its cgroup" in remedy, remedy
        (group / "pids.max").write_text("max")
        tool.succeed("trim", "--no-estimate", target.pid)
        target.check_alive()


def user_task_limit(tool):
    """The user of the process may have few tasks: no copy and no thread takes one of them, until the limit is raised."""
    need_root()
    user = 29170 + os.getpid() % 1000  # nobody else's

    def prepare():
        resource.setrlimit(resource.RLIMIT_NPROC, (3, 100))
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)

    with start(prepare=prepare) as target:
        freeze = json.loads(tool.succeed("attach", "--freeze", "fork", "-j", target.pid))["freeze"]
        assert freeze["method"] == "stop" and f"user {user} has 1 processes and threads" in freeze["why"], freeze
        remedy = tool.remedy("trim", "--no-estimate", target.pid, why="ulimit -u of it is 3")
        assert "ulimit -u" in remedy, remedy
        # By the user itself: root needs CAP_SYS_RESOURCE for it, which containers lack.
        subprocess.run(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
                        "prlimit", f"--pid={target.pid}", "--nproc=100:100"], check=True)
        tool.succeed("trim", "--no-estimate", target.pid)
        freeze = json.loads(tool.succeed("attach", "--freeze", "fork", "-j", target.pid))["freeze"]
        assert freeze["method"] == "fork", freeze
        target.check_alive()


def address_limit(tool):
    """What is mapped for the tracker would leave the process too little: nothing is, until the limit is raised."""
    with start() as target:
        def mapped():
            return int(re.search(r"VmSize:\s+(\d+)", pathlib.Path(f"/proc/{target.pid}/status").read_text())[1])

        before = mapped()
        room = 20 << 20  # some of the tables would fit
        resource.prlimit(target.pid, resource.RLIMIT_AS, ((before << 10) + room, resource.RLIM_INFINITY))
        remedy = tool.remedy("inject", target.pid, why="ulimit -v of it is")
        assert mapped() == before, (mapped(), before)
        tool.follow(remedy, r"(prlimit .*)$")
        tool.succeed("inject", target.pid)
        target.check_alive()


def own_address_limit(tool):
    """heapsnap itself may have too few addresses, for whatever it is that it loads or starts next."""
    with start() as target:
        words = tool.command("attach", target.pid)
        refused = None
        for limit in range(20000, 80000, 500):
            done = subprocess.run(["bash", "-c", f'ulimit -Sv {limit}; exec "$@"', "bash", *words], capture_output=True,
                                  text=True)
            if done.returncode == 0:
                break
            # The loader's refusal, that of a thread, or heapsnap's own.
            assert done.returncode == 127 or "ulimit -v" in done.stderr, (limit, done)
            if f"{limit} KiB" in done.stderr:
                refused = done
        assert refused and refused.returncode == 70, refused
        remedy = re.search(r"^  do:  .*: (ulimit .*)$", refused.stderr, re.MULTILINE)[1]
        subprocess.run(["bash", "-c", f'ulimit -Sv 20000; {remedy}; exec "$@"', "bash", *words], check=True, capture_output=True)
        target.check_alive()


def own_task_limit(tool):
    """heapsnap itself may have too few tasks: what cannot do without a thread is refused, until the limit is raised."""
    need_root()
    with control_group("pids", "pids.max") as group, start() as target:
        def enter():
            (group / "cgroup.procs").write_text(str(os.getpid()))

        refused = 0
        # Itself, its watched child, and their threads.
        for limit, freeze in itertools.product(range(1, 6), ("stop", "fork")):
            (group / "pids.max").write_text(str(limit))
            done = tool.run("attach", "--freeze", freeze, target.pid, preexec_fn=enter)
            assert done.returncode == 0 or "pids.max of its cgroup" in done.stderr, (limit, done)
            assert done.returncode in (0, 4), (limit, done)
            refused += done.returncode != 0
        assert refused, "no limit was too low"
        (group / "pids.max").write_text("max")
        tool.run("attach", target.pid, preexec_fn=enter).check_returncode()
        target.check_alive()


def table_limit(tool):
    with start() as target:
        remedy = tool.remedy("inject", "--memory-limit", "64KiB", target.pid)
        option = re.search(r"(--memory-limit) (\w+)$", remedy).groups()
        tool.succeed("inject", *option, target.pid)
        target.check_alive()


def static_program(tool):
    """Nothing can be loaded into it; it can be looked at."""
    source, program = tool.folder / "echo.c", tool.folder / "echo"
    source.write_text('#include <stdio.h>\nint main(void) { char l[99]; while (fgets(l, 99, stdin)) '
                      '{ fputs(l, stdout); fflush(stdout); } return 0; }\n')
    if subprocess.run(["cc", "-static", "-o", program, source], capture_output=True).returncode != 0:
        raise Skip("no static program can be built here")
    with start(program) as target:
        for verb in ("inject", "trim"):
            tool.follow(tool.remedy(verb, target.pid), r"(heapsnap attach \d+)$")
            target.check_alive()


def frozen_group(tool):
    """A group whose threads do not run: doctor names the file that thaws it."""
    need_root()
    def checks(target):
        return {one["id"]: one for one in json.loads(tool.succeed("doctor", "-j", target.pid))["checks"]}
    with control_group("freezer", "freezer.state", "cgroup.freeze") as group, start() as target:
        (group / "cgroup.procs").write_text(str(target.pid))
        is_v1 = (group / "freezer.state").exists()
        switch, frozen, thawed = (group / "freezer.state", "FROZEN", "THAWED") if is_v1 else (group / "cgroup.freeze", "1", "0")
        switch.write_text(frozen)
        try:
            remedy = checks(target)["frozen-cgroup"]["remedy"]
            print(remedy)
            for command in ("inject", "trim"):
                refused = tool.run(command, target.pid)
                assert refused.returncode == 5, refused.stderr
                assert "group is frozen" in refused.stderr and remedy in refused.stderr, refused.stderr
            value, file, path = re.search(r"or write (\w+) to ([\w.]+) of (\S+)$", remedy).groups()
            (pathlib.Path("/sys/fs/cgroup") / path.lstrip("/") / file).write_text(value)
            target.check_alive()
            assert "frozen-cgroup" not in checks(target)
            tool.succeed("trim", "--no-estimate", target.pid)
        finally:
            switch.write_text(thawed)  # what is frozen cannot be ended


def zombie(tool):
    with kernel_rules.zombie() as pid:
        shown = tool.follow(tool.remedy("attach", pid), r"(ps -o pid,stat,args -p \d+)$")
        assert str(os.getpid()) in shown, shown


def not_followed(_):
    for remedy, why in NOT_FOLLOWED.items():
        print(f"{remedy}: {why}")
    raise Skip(f"{len(NOT_FOLLOWED)} remedies cannot be followed here, as listed")


CASES = {case.__name__: case for case in (
    first_thread_ended, untracked, untracked_snapshot, nothing_recorded, untracked_core, tracker_gone, tracker_ejected, descriptors, many_threads,
    other_user, hidden_process, user_namespace, traced, own_seccomp, at_exit_barred, stopped, task_limit, user_task_limit, address_limit, own_address_limit, own_task_limit, table_limit,
    static_program,
    frozen_group, zombie, no_such_process, ambiguous_name, run_in_background, usage, run_command_line, outputs, temporary_folder, damaged_snapshot, cores,
    not_followed)}


def main():
    if sys.argv[1] == "--list":
        print("\n".join(CASES))
        return 0
    with tempfile.TemporaryDirectory(prefix="heapsnap-remedies.") as folder:
        try:
            CASES[sys.argv[1]](Tool(sys.argv[2], pathlib.Path(folder)))
        except Skip as reason:
            print(f"skipped: {reason}")
            return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
