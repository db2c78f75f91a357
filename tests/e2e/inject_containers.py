#!/usr/bin/env python3
"""Injects into processes that see nothing of ours: other pid and mount namespaces, a root without /proc; and watches
by strace that heapsnap opens and changes no file of theirs.

    inject_containers.py CASE HEAPSNAP
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

from kernel_rules import Echo

SKIP = 77


WRITES = "openat,openat2,open,creat,mkdir,mkdirat,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,truncate"


def check_writes(log, pid):
    """heapsnap itself has changed nothing but memory of the process, and its own place with the OOM killer."""
    calls = re.findall(r"^\d+ +(\w+)\((.*)$", log, re.MULTILINE)
    assert len(calls) > 50, log
    for call, words in calls:
        changes = not call.startswith("open") or re.search("O_RDWR|O_WRONLY|O_CREAT", words)
        memory = re.match(rf'AT_FDCWD, "/proc/{pid}(/task/\d+)?/mem", O_RDWR', words)
        own = words.startswith('AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY|O_CLOEXEC)')
        assert not changes or memory or own, f"{call}({words}"


def inject_and_eject(heapsnap, pid, target):
    for command in ("inject", "inject", "eject", "trim"):
        with tempfile.NamedTemporaryFile("r") as log:
            watched = command != "trim" and shutil.which("strace")  # a trim estimates first, by a snapshot
            watch = ["strace", "-f", "-q", "-e", f"trace={WRITES}", "-o", log.name] if watched else []
            done = subprocess.run([*watch, heapsnap, command, str(pid)], capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, (command, done.stderr)
            assert not done.stderr, done.stderr
            if watched:
                check_writes(log.read(), pid)
        print(done.stdout, end="")
        target.check_alive()


def other_namespaces(heapsnap):
    unshare = ["unshare", "--pid", "--mount", "--fork", "--mount-proc"]
    tried = subprocess.run(unshare + ["true"], capture_output=True, text=True)
    if tried.returncode != 0:
        print(f"skipped: no namespaces of its own can be made here: {tried.stderr.strip()}")
        return SKIP
    with Echo(unshare + ["cat"]) as target:
        with open(f"/proc/{target.pid}/task/{target.pid}/children", encoding="ascii") as children:
            pid = int(children.read().split()[0])
        inject_and_eject(heapsnap, pid, target)
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            assert "/memfd:libheapsnap_tracker.so (deleted)" in maps.read(), "a file was made where memory would do"
    return 0


def bare_chroot(heapsnap):
    """cat and what it needs, without /proc, in a root folder of their own."""
    if os.getuid() != 0:
        print("skipped: chroot(2) takes root")
        return SKIP
    with tempfile.TemporaryDirectory() as root:
        program = shutil.which("cat")
        needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for path in {program, *re.findall(r"(/\S+) \(0x", needed)}:
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)
        os.makedirs(f"{root}/tmp")
        before = sorted(os.listdir(f"{root}/tmp"))
        with Echo(prepare=lambda: os.chroot(root), argv=(program,)) as target:
            inject_and_eject(heapsnap, target.pid, target)
        assert sorted(os.listdir(f"{root}/tmp")) == before, "a file was left behind"
    return 0


CASES = {case.__name__: case for case in (other_namespaces, bare_chroot)}


if __name__ == "__main__":
    sys.exit(CASES[sys.argv[1]](sys.argv[2]))
