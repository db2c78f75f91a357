#!/usr/bin/env python3
"""The last snapshot of programs with threads, in every way to end: `heapsnap run --at-exit` holds the program at its
end or says that it could not, and passes on how it ended. at_exit.py CASE HEAPSNAP FOLDER_OF_TARGETS

HEAPSNAP_LONG=1 in the environment repeats each end 200 times."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

SKIPPED = 77
LONG = os.environ.get("HEAPSNAP_LONG") == "1"
BLOCKS, BLOCK_SIZE = 1000, 7777  # of tests/targets/threaded_end.c

# How it ends, and the exit code of that in a shell.
ENDS = {
    "exit": 5, "return": 0, "thread": 6, "leave": 0, "filter": 5, "execute": 5,
    "abort": 128 + signal.SIGABRT, "segv": 128 + signal.SIGSEGV, "term": 128 + signal.SIGTERM,
    "kill": 128 + signal.SIGKILL, "realtime": 128 + signal.SIGRTMIN + 1,
}


class Run:
    """`heapsnap run --at-exit` of a program."""

    def __init__(self, heapsnap, work, argv, stdin=subprocess.PIPE):
        self.heapsnap, self.path = heapsnap, work / "last.hsnap"
        self.path.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [str(word) for word in (heapsnap, "run", "--at-exit", self.path, "--", *argv)],
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)

    def await_line(self, line):
        for one in self.process.stdout:
            if one.rstrip("\n") == line:
                return
        raise RuntimeError(f"no {line!r}: {self.process.stderr.read()}")

    def pid(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def check_end(self, expected):
        _, errors = self.process.communicate(timeout=300)
        assert self.process.returncode == expected, (self.process.returncode, expected, errors)
        assert self.path.exists(), errors
        assert not errors, errors

    def report(self):
        done = subprocess.run([self.heapsnap, "report", "-j", self.path], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)


def states_of(pid):
    """The state of each thread."""
    states = []
    for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            states.append(stat.read_text().rpartition(")")[2].split()[0])
        except OSError:
            pass
    return states


def check_report(report, busy_in_malloc):
    freeze = report["freeze"]
    assert freeze["method"] == "stop", freeze
    assert "stopped" in freeze["why"], freeze
    assert report["comm"] == "threaded_end", report["comm"]
    # What its pages hold is known: they were counted while it stood.
    assert report["rss"]["resident"] > 1 << 20 and report["rss"]["basis"] == "resident", report["rss"]
    if not freeze["threads_in_malloc"]:
        assert not report["corruptions"], report["corruptions"]
    # One thread at a time is new or at its end, and for a moment inside then.
    assert freeze["threads_in_malloc"] <= 1 + busy_in_malloc, freeze


def check_blocks(heapsnap, path):
    rows = subprocess.run([heapsnap, "export", "--format", "ndjson", path], capture_output=True, text=True, check=True)
    usable = (BLOCK_SIZE + 8 + 15) // 16 * 16 - 8
    found = rows.stdout.count(f'"usable":{usable},')
    assert found == BLOCKS, found


def every_end(heapsnap, targets, work):
    """Every end, as it comes."""
    times = 200 if LONG else 1
    for how, expected in ENDS.items():
        for busy_in_malloc in (False, True):
            for _ in range(times):
                run = Run(heapsnap, work, [targets / "threaded_end", how, *(["malloc"] if busy_in_malloc else [])],
                          stdin=subprocess.DEVNULL)
                run.check_end(expected)
                check_report(run.report(), busy_in_malloc)
            if not busy_in_malloc:
                check_blocks(heapsnap, run.path)
        print(f"{how}: {2 * times} of {2 * times} stopped")


def forced(heapsnap, targets, work):
    """heapsnap stands while the program comes to its end, and looks when everybody is there already."""
    for how, expected in ENDS.items():
        if how in ("filter", "execute"):
            continue  # they go on, and would wait for it
        for _ in range(20 if LONG else 1):
            run = Run(heapsnap, work, [targets / "threaded_end", how])
            run.await_line("ready")
            pid = run.pid()
            os.kill(run.process.pid, signal.SIGSTOP)
            run.process.stdin.close()
            run.process.stdin = None
            # Signals wait for heapsnap, so the others run on; else all come to stand.
            stand = "tZD" if how in ("exit", "return", "thread", "leave", "kill") else None
            while stand and not all(state in stand for state in states_of(pid)):
                pass
            if stand is None:
                while "t" not in states_of(pid):
                    pass
            os.kill(run.process.pid, signal.SIGCONT)
            run.check_end(expected)
            check_report(run.report(), False)
            check_blocks(heapsnap, run.path)


def killed_while_stopped(heapsnap, targets, work):
    """A SIGKILL that arrives while the program is stopped for another signal changes how it ends, not what is read."""
    for _ in range(40 if LONG else 2):
        run = Run(heapsnap, work, [targets / "threaded_end", "term"])
        run.await_line("ready")
        pid = run.pid()
        os.kill(run.process.pid, signal.SIGSTOP)
        run.process.stdin.close()
        run.process.stdin = None
        while "t" not in states_of(pid):
            pass
        os.kill(pid, signal.SIGKILL)
        os.kill(run.process.pid, signal.SIGCONT)
        run.check_end(128 + signal.SIGKILL)
        check_report(run.report(), False)
        check_blocks(heapsnap, run.path)


def lost(heapsnap, targets, work):
    """No snapshot is an error, and never the exit code 0."""
    for how, expected in (("return", 7), ("exit", ENDS["exit"])):
        run = subprocess.run([heapsnap, "run", "--at-exit", str(work / "nowhere" / "last.hsnap"), "--",
                              targets / "threaded_end", how], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert run.returncode == expected and "no snapshot at exit" in run.stderr, run


def programs(heapsnap, targets, work):
    """Real programs with threads."""
    python = "import threading, time\n" \
             "for _ in range(6): threading.Thread(target=lambda: [list(range(99)) for _ in iter(int, 1)], daemon=True).start()\n" \
             "time.sleep(0.05)"
    commands = {"node": ["node", "-e", "setTimeout(() => {}, 20)"], "python3": [sys.executable, "-c", python]}
    for name, argv in commands.items():
        if shutil.which(argv[0]) is None:
            print(f"{name} is not here")
            continue
        times = 200 if LONG else 2
        for _ in range(times):
            run = Run(heapsnap, work, argv, stdin=subprocess.DEVNULL)
            run.check_end(0)
            freeze = run.report()["freeze"]
            assert freeze["method"] == "stop" and "stopped" in freeze["why"], freeze
        print(f"{name}: {times} of {times} stopped")
    servers(heapsnap, work)


def servers(heapsnap, work):
    """A server with threads, ended by each deadly signal."""
    memcached = shutil.which("memcached")
    if memcached is None:
        print("memcached is not here")
        return
    for end in (signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL):
        times = 200 if LONG else 1
        for _ in range(times):
            socket = work / "memcached.socket"
            socket.unlink(missing_ok=True)
            run = Run(heapsnap, work, [memcached, "-u", "root", "-s", socket, "-t", "4"], stdin=subprocess.DEVNULL)
            while not socket.exists():
                assert run.process.poll() is None, run.process.stderr.read()
            os.kill(run.pid(), end)
            _, errors = run.process.communicate(timeout=300)
            # It catches SIGTERM, and ends by itself.
            assert run.process.returncode in (128 + end, 0 if end == signal.SIGTERM else -1), run.process.returncode
            assert run.path.exists(), errors
            freeze = run.report()["freeze"]
            assert freeze["method"] == "stop" and "stopped" in freeze["why"], freeze
        print(f"memcached by {end.name}: {times} of {times} stopped")


def main():
    case, heapsnap, targets = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        globals()[case](heapsnap, targets, pathlib.Path(folder))


if __name__ == "__main__":
    main()
