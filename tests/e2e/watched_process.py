"""A process whose memory changes by known amounts, and heapsnap watch beside it, for tests of what it says and does."""

import calendar
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from owned_process import OwnedProcess

PROGRAM = """
import sys, threading
kept, threads, end = [], [], threading.Event()
def allocate(done):
    mine = [b'y' * (i % 400 + 1) for i in range(5000)]
    done.set()
    end.wait()
print('ready', flush=True)
for line in sys.stdin:
    word, number = line.split()
    if word == 'grow':
        kept.append(b'x' * int(number))
    elif word == 'shrink':
        for _ in range(int(number)):
            kept.pop()
    elif word == 'thread':
        for _ in range(int(number)):
            done = threading.Event()
            threads.append(threading.Thread(target=allocate, args=(done,)))
            threads[-1].start()
            done.wait()
    elif word == 'execute':
        import os
        os.execv(sys.executable, [sys.executable, '-c', 'import sys; print("done", flush=True); sys.stdin.read()'])
    print('done', flush=True)
end.set()
"""


class Target(OwnedProcess):
    """Does what it is told, with glibc's malloc alone, and says when that is done."""

    def __init__(self, *prefix):
        self.process = subprocess.Popen([*prefix, sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env=os.environ | {"PYTHONMALLOC": "malloc", "MALLOC_MMAP_THRESHOLD_": "131072"})
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid
        if prefix:
            children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii")
            self.pid = int(children)

    def do(self, word, number=1):
        """Gives when it was done."""
        self.process.stdin.write(f"{word} {number}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"
        return time.time()

    def is_well(self):
        """It runs, nobody traces it, and it has no child."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii")
        return re.search(r"^State:\t[SR]", status, re.MULTILINE) and "TracerPid:\t0\n" in status and not children

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)


class Watcher(OwnedProcess):
    """heapsnap watch -j, line by line."""

    def __init__(self, heapsnap, target, *options, interval="20ms", **how):
        self.process = subprocess.Popen([heapsnap, "watch", str(target.pid), "-j", "--interval", interval, *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)
        self.rows = []

    def row(self):
        line = self.process.stdout.readline()
        assert line.endswith("\n"), (line, self.process.stderr.read())
        self.rows.append(json.loads(line))
        assert (self.rows[-1]["kind"], self.rows[-1]["version"]) == ("watch", 1), line
        return self.rows[-1]

    def row_after(self, moment):
        """The first that was looked at later."""
        while time_of(self.row()) <= moment + 0.001:
            pass
        return self.rows[-1]

    def row_with(self, name):
        """The next one that has it."""
        while name not in self.row():
            pass
        return self.rows[-1]

    def snapshots(self):
        return [row["snapshot"] for row in self.rows if "snapshot" in row]

    def notes(self):
        return [note for row in self.rows for note in row.get("notes", [])]

    def finish(self):
        """Its exit code and what it said; the rest of its rows are read."""
        rest, errors = self.process.communicate(timeout=60)
        assert not rest or rest.endswith("\n"), rest
        self.rows += [json.loads(line) for line in rest.splitlines()]
        return self.process.returncode, errors

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        code, errors = self.finish()
        assert (code, errors) == (-signal.SIGINT, ""), (code, errors)


def time_of(row):
    whole, fraction = row["time"].rstrip("Z").split(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float("0." + fraction)
