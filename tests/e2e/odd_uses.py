#!/usr/bin/env python3
"""heapsnap used in ways that are seldom thought of: what it says and leaves is right all the same.

    odd_uses.py CASE HEAPSNAP [TARGET]

TARGET: tests/targets/thread_relay.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

SKIP = 77
STOPS_ITSELF = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTSTP); os._exit(7)"]


def stopped_child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        for child in children.read().split():
            with open(f"/proc/{child}/stat", encoding="ascii") as stat:
                if stat.read().rpartition(") ")[2][0] in "Tt":
                    return int(child)
    raise RuntimeError("no child of it is stopped")


def await_stop(pid):
    """As a shell does that has started it."""
    told, status = os.waitpid(pid, os.WUNTRACED)
    assert told == pid and os.WIFSTOPPED(status), status


def run_and_stop(heapsnap, options, go_on):
    with tempfile.TemporaryDirectory() as folder:
        options = [word.format(folder=folder) for word in options]
        started = subprocess.Popen([heapsnap, "run", *options, "--", *STOPS_ITSELF], stderr=subprocess.PIPE,
                                   preexec_fn=os.setpgrp)
        signal.alarm(60)
        await_stop(started.pid)
        go_on(started.pid, stopped_child_of(started.pid))
        _, status = os.waitpid(started.pid, 0)
        assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7, status
        started.returncode = 7
        assert not options or os.path.getsize(options[-1]) > 0
        started.stderr.close()


def own_stop(heapsnap):
    """A command that stops itself: so does heapsnap, whoever lets the two go on."""
    for options in ([], ["--at-exit", "{folder}/last.hsnap"]):
        run_and_stop(heapsnap, options, lambda pid, _: os.killpg(pid, signal.SIGCONT))
        run_and_stop(heapsnap, options, lambda pid, _: os.kill(pid, signal.SIGCONT))
        run_and_stop(heapsnap, options, lambda _, command: os.kill(command, signal.SIGCONT))


def small_stack(heapsnap):
    """`ulimit -s 64`: the demangler and the reports need more."""
    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    program = [sys.executable, "-c", "import json, ssl, decimal; print(flush=True); input()"]
    with tempfile.TemporaryDirectory() as folder, \
            subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        target.stdout.readline()
        path = f"{folder}/a.hsnap"
        for words in (["doctor", str(target.pid)], ["inject", str(target.pid)],
                      ["attach", "-o", path, str(target.pid)], ["report", path], ["stacks", path],
                      ["export", path, "--format", "ndjson"], ["eject", str(target.pid)],
                      ["run", "--at-exit", f"{folder}/b.hsnap", "--", "true"]):
            done = subprocess.run([heapsnap, *words], capture_output=True, text=True, preexec_fn=limit, timeout=120)
            assert done.returncode in (0, 1), (words, done.returncode, done.stderr)
        refused = subprocess.run([heapsnap, "attach", "4194304"], capture_output=True, text=True, preexec_fn=limit)
        assert refused.returncode == 3 and refused.stderr.startswith("heapsnap: "), refused
        shown = subprocess.run([heapsnap, "run", "--", "sh", "-c", "ulimit -s"], capture_output=True, text=True,
                               preexec_fn=limit, check=True)
        assert shown.stdout == "64\n", shown.stdout
        target.communicate("\n", timeout=60)


def hidden_name(heapsnap):
    """A process that calls itself ".x": its snapshot is to be seen."""
    rename = "import ctypes; ctypes.CDLL(None).prctl(15, b'.x', 0, 0, 0); print(flush=True); input()"
    with tempfile.TemporaryDirectory() as folder, \
            subprocess.Popen([sys.executable, "-c", rename], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True) as target:
        target.stdout.readline()
        subprocess.run([heapsnap, "attach", "-q", "-o", f"{folder}/%n.hsnap", str(target.pid)], check=True)
        assert os.listdir(folder) == ["_x.hsnap"], os.listdir(folder)
        target.communicate("\n", timeout=60)


def checked_malloc(heapsnap):
    """libc_malloc_debug.so.0 answers malloc: the heap is read; the tracker, which would see nothing, is refused."""
    if subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libc_malloc_debug.so.0')"],
                      capture_output=True).returncode != 0:
        return SKIP
    checked = dict(os.environ, LD_PRELOAD="libc_malloc_debug.so.0", MALLOC_CHECK_="3")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=checked) as target:
        target.stdin.write("\n")
        target.stdin.flush()
        target.stdout.readline()
        refused = subprocess.run([heapsnap, "inject", str(target.pid)], capture_output=True, text=True)
        assert refused.returncode == 5 and "libc_malloc_debug" in refused.stderr, refused
        assert f"heapsnap attach {target.pid}" in refused.stderr, refused.stderr
        checks = json.loads(subprocess.run([heapsnap, "doctor", "-j", str(target.pid)], capture_output=True,
                                           text=True).stdout)["checks"]
        assert any("libc_malloc_debug" in json.dumps(one) for one in checks if one["id"] == "allocator"), checks
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([heapsnap, "attach", "-q", "-o", f"{folder}/a.hsnap", str(target.pid)], check=True)
            report = json.loads(subprocess.run([heapsnap, "report", "-j", f"{folder}/a.hsnap"], capture_output=True,
                                               text=True, check=True).stdout)
        assert report["states"]["used"]["count"] > 0, report["states"]
        target.communicate("", timeout=60)
    ran = subprocess.run([heapsnap, "run", "--", "true"], capture_output=True, text=True, env=checked)
    assert ran.returncode == 0 and re.search(r"none of its blocks.*\n.*libc_malloc_debug", ran.stderr), ran.stderr
    return 0


ENTERS_ITS_NAMESPACE = """
import ctypes, os, select, sys
libc = ctypes.CDLL(None, use_errno=True)
namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY)
def enter():
    return ctypes.get_errno() if libc.setns(namespace, 0x20000) else 0
print(enter(), flush=True)
calls, errors = 0, 0
while not select.select([0], [], [], 0)[0]:
    for _ in range(100):
        calls += 1
        errors += enter() != 0
print(calls, errors)
"""


def changing_mounts(heapsnap):
    """setns(CLONE_NEWNS) is refused to a thread that shares its root with another: ours does not."""
    with subprocess.Popen([sys.executable, "-c", ENTERS_ITS_NAMESPACE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as target:
        if target.stdout.readline() != "0\n":
            target.communicate("\n")
            return SKIP
        for _ in range(3):
            for words in (["inject"], ["trim", "--no-estimate"], ["eject"]):
                subprocess.run([heapsnap, *words, str(target.pid)], check=True, capture_output=True, timeout=120)
        told = target.communicate("\n", timeout=60)[0]
    calls, errors = map(int, told.split())
    assert errors == 0, f"{errors} of {calls} calls were refused"
    return 0


def ending_threads(heapsnap, relay):
    """Each thread of it ends at once and another goes on: nobody may say that the process has ended."""
    with tempfile.TemporaryDirectory() as folder, \
            subprocess.Popen([relay], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        target.stdout.readline()
        for _ in range(30):
            done = subprocess.run([heapsnap, "attach", "-q", "-f", "-o", f"{folder}/a.hsnap", str(target.pid)],
                                  capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
        target.stdin.close()
        assert target.wait(timeout=60) == 0
    return 0


def slips(heapsnap, target):
    """The words of a command in the other order, and a name without its ending."""
    with tempfile.TemporaryDirectory() as folder, \
            subprocess.Popen([target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        while process.stdout.readline() != "ready\n":
            pass
        snapshot = f"{folder}/a.hsnap"

        def said(*words, code=0):
            done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
            assert done.returncode == code, done
            return done.stdout or done.stderr

        said("attach", str(process.pid), "--references", "yes", "-o", snapshot)
        addr = re.search(r"heapsnap why (0x[0-9a-f]+) ", said("owners", snapshot)).group(1)
        assert said("why", snapshot, addr) == said("why", addr, snapshot)
        assert f"did you mean {snapshot}?" in said("owners", f"{folder}/a", code=6)
        process.communicate("")


CASES = {case.__name__: case for case in (own_stop, slips, small_stack, hidden_name, checked_malloc, changing_mounts,
                                            ending_threads)}


if __name__ == "__main__":
    sys.exit(CASES[sys.argv[1]](*sys.argv[2:]))
