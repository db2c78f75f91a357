#!/usr/bin/env python3
"""Debuggers and profilers look at a process that the tracker is in, and was in: they come to an end, and it goes on.

    debuggers.py TOOL HEAPSNAP MALLOC_CHURN

Descriptors 3 to 40 of each tool are pipes: one that opens a library by a name that means its own descriptors would wait
for ever. Exit code 77: skipped, with the reason.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
LIBRARY = "/memfd:libheapsnap_tracker.so (deleted)"
PATIENCE = 120  # of a loaded machine
PIPES = range(3, 41)


class Tool:
    """Runs commands in a folder with `pid` and the program of the target; each gives what it prints."""

    def __init__(self, pid, program, folder):
        self.pid, self.program, self.core = str(pid), program, f"{folder}/core.{pid}"
        self.folder = folder

    def ended(self, *words):
        return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=PATIENCE, close_fds=False, cwd=self.folder)

    def run(self, *words):
        done = self.ended(*words)
        assert done.returncode == 0, (words, done.stdout)
        return done.stdout

    def gcore(self):
        self.run("gcore", "-o", f"{self.folder}/core", self.pid)
        assert os.path.getsize(self.core) > 0

    def gdb(self):
        look = ["gdb", "-nx", "-batch", "-ex", "thread apply all backtrace 3", "-ex", "info sharedlibrary"]
        for words in (["-p", self.pid], [self.program, self.core]):
            if words[0] != "-p":
                self.gcore()
            seen = self.run(*look, *words)
            assert LIBRARY in seen and "Thread 1 " in seen, seen

    def lldb(self):
        self.gcore()
        for words in (["-p", self.pid], ["-c", self.core, self.program]):
            seen = self.run("lldb", "-b", *words, "-o", "thread list", "-o", "image list")
            assert "thread #1" in seen, seen

    def eu_stack(self):
        self.gcore()
        for words in (["-p", self.pid], ["--core", self.core, "-e", self.program]):
            seen = self.unwound(words)
            assert seen.count("TID ") >= 4, seen

    def unwound(self, words):
        """eu-stack fails where a thread is in code without unwind information, such as a stub of ld.so. Not in ours."""
        for _ in range(20):
            done = self.ended("eu-stack", *words)
            without = [line for line in done.stdout.splitlines() if line.endswith("no matching address range")]
            assert not [line for line in without if LIBRARY in line], without
            if done.returncode == 0 or not without:
                break
            if words[0] != "-p":
                self.gcore()
        assert done.returncode == 0, (words, done.stdout)
        return done.stdout

    def perf(self):
        self.run("perf", "record", "-q", "-e", "cpu-clock", "-g", "-o", "data", "-p", self.pid, "--", "sleep", "0.2")
        seen = self.run("perf", "script", "-i", "data", "-F", "comm,ip,sym,dso")
        assert "malloc_churn" in seen, seen


PROGRAMS = {"gdb": ["gdb", "gcore"], "lldb": ["lldb", "gcore"], "eu_stack": ["eu-stack", "gcore"], "perf": ["perf"]}


def check_free(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    assert re.search(r"^TracerPid:\s+0$", status, re.MULTILINE), status
    assert re.search(r"^State:\s+[RS]", status, re.MULTILINE), status


def main():
    tool, heapsnap, program = sys.argv[1:4]
    for needed in PROGRAMS[tool]:
        if not shutil.which(needed):
            print(f"skipped: {needed} is not installed")
            return SKIP
    ends = os.pipe()
    for number in PIPES:
        if number not in ends:
            os.dup2(ends[0], number, inheritable=True)
    target = subprocess.Popen([program, "3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with tempfile.TemporaryDirectory(prefix="heapsnap-debuggers.") as folder:
        try:
            assert target.stdout.readline() == "ready\n"
            for verb in ("inject", "eject"):
                subprocess.run([heapsnap, verb, str(target.pid)], check=True, stdout=subprocess.DEVNULL)
                getattr(Tool(target.pid, program, folder), tool)()
                check_free(target.pid)
            output = target.communicate("")[0]  # it ends with its standard input, and has checked every byte
            assert target.returncode == 0 and output.startswith("errors=0 "), (target.returncode, output)
        finally:
            target.kill()
            target.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
