#!/usr/bin/env python3
"""heapsnap attach --via ruby: a Ruby process dumps itself: via_ruby.py HEAPSNAP [FOLDER VERSION...]

In each state of the process: the dump has every object of a class that the process counts, with what it refers to, and
the process goes on with the same threads, descriptors and objects, and no child. The same when heapsnap is killed at any
moment: then the child ends by itself, and leaves no FIFO. Without FOLDER for the Ruby of this system; the versions are
kept in FOLDER."""

import ctypes
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from ruby_target import HERE, rubies

STATES = ("reading", "reaping", "sleeping", "busy", "threads", "collecting", "trapping")
COUNT = 3000
KILLS = 300 if os.environ.get("HEAPSNAP_LONG") else 12
FOLDERS = ("dev/shm", "run", "tmp", "var/tmp")


def take_orphans():
    """As the first process of a container has to: what this process executes keeps that."""
    pr_set_child_subreaper = 36
    assert ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0


class Target:
    def __init__(self, ruby, root, state):
        command = [*ruby, "--disable-gems"]
        self.root = pathlib.Path(root)
        script = f"{HERE}/via_ruby_process.rb"
        if root != "/":
            (self.root / "tmp/via_ruby_process.rb").write_text(pathlib.Path(script).read_text(encoding="ascii"), encoding="ascii")
            command, script = ["chroot", root, *command], "/tmp/via_ruby_process.rb"
        self.process = subprocess.Popen([*command, script, state, str(COUNT)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=take_orphans if state == "reaping" else None)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"
        self.before = self.look()

    def look(self):
        """What must be as before: descriptors, and what it maps of files."""
        place = pathlib.Path(f"/proc/{self.pid}")
        names = sorted(os.readlink(fd) for fd in (place / "fd").iterdir())
        return names, {line.split(maxsplit=5)[5] for line in (place / "maps").read_text(encoding="utf-8").splitlines()
                       if line.count("/")}

    def children(self):
        found = []
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            try:
                found += (task / "children").read_text(encoding="ascii").split()
            except OSError:
                pass
        return found

    def fifos(self):
        return [path for folder in FOLDERS for path in (self.root / folder).glob(".heapsnap-ruby-*")]

    def settle(self):
        """Waits until nothing of a dump is left."""
        deadline = time.monotonic() + 60
        while self.children() or self.fifos() or dumpers():
            assert time.monotonic() < deadline, (self.children(), self.fifos(), dumpers())
            time.sleep(0.02)

    def finish(self):
        self.settle()
        assert self.look()[0] == self.before[0], (self.before[0], self.look()[0])
        said, _ = self.process.communicate("")
        assert self.process.returncode == 0, self.process.returncode
        words = said.split()
        assert words[:2] == [str(COUNT)] * 2, said
        assert len(words) == 3, f"it has noticed: {said}"


def dumpers():
    """Children that dump, whoever their parent is by now."""
    found = []
    for place in pathlib.Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                if b"heapsnap: dump of Ruby's objects" in (place / "cmdline").read_bytes():
                    found.append(place.name)
            except OSError:
                pass
    return found


def check_dump(path, target_version):
    lines = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    rows = [json.loads(line) for line in lines]
    by_address = {row["address"]: row for row in rows if "address" in row}
    names = {row["address"]: row.get("name") for row in rows if row.get("type") == "CLASS"}
    orders = [row for row in by_address.values() if row["type"] == "OBJECT" and names.get(row.get("class")) == "Order"]
    assert len(orders) == COUNT, (len(orders), target_version)
    # Each has its text, and the constant all of them.
    texts = sum(any(by_address.get(to, {}).get("type") == "STRING" for to in row.get("references", ())) for row in orders)
    assert texts == COUNT, texts
    held = max((row for row in by_address.values() if row.get("type") == "ARRAY"), key=lambda row: row.get("length", 0))
    assert {row["address"] for row in orders} <= set(held["references"])
    assert any(row.get("type") == "ROOT" for row in rows)
    return len(rows)


def check_states(heapsnap, name, ruby, root, folder):
    for state in STATES:
        target = Target(ruby, root, state)
        path = f"{folder}/{state}.json"
        done = subprocess.run([heapsnap, "attach", "--via", "ruby", str(target.pid), "-o", path], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, (name, state, done.stdout, done.stderr)
        rows = check_dump(path, name)
        assert f"{rows:,} lines" in done.stdout, done.stdout
        # To a pipe, the same again.
        again = subprocess.run([heapsnap, "attach", "--via", "ruby", str(target.pid), "-o", "-"], capture_output=True,
                               text=True, check=False, errors="replace")
        assert again.returncode == 0 and again.stdout.startswith("{") and again.stdout.endswith("}\n"), again.stderr
        target.finish()
        os.unlink(path)
    print(f"{name}: {', '.join(STATES)}: {COUNT} of {COUNT} objects, nothing left")


def check_kills(heapsnap, name, ruby, root, folder):
    target = Target(ruby, root, "threads")
    moments = random.Random(7)
    complete = 0
    for number in range(KILLS):
        path = f"{folder}/killed.json"
        started = subprocess.Popen([heapsnap, "attach", "--via", "ruby", str(target.pid), "-o", path, "-f", "-q"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.random() * 0.4)
        started.kill()
        complete += started.wait() == 0
        if os.path.exists(path):
            check_dump(path, name)
            os.unlink(path)
    # One that is not killed works all the same.
    subprocess.run([heapsnap, "attach", "--via", "ruby", str(target.pid), "-o", f"{folder}/last.json", "-q"], check=True)
    check_dump(f"{folder}/last.json", name)
    target.finish()
    print(f"{name}: killed {KILLS - complete} times of {KILLS}")


def state_of(pid):
    """R, S, T, ...; Z also of one that is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0].replace("X", "Z")
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def check_interrupt(heapsnap, name, ruby, root, folder):
    """heapsnap ends when it is asked to, also while the child writes nothing."""
    target = Target(ruby, root, "reading")
    stops = 0
    while stops < 5:  # some come when all is written
        started = subprocess.Popen([heapsnap, "attach", "--via", "ruby", str(target.pid), "-o", f"{folder}/asked.json", "-f", "-q"])
        while not (found := dumpers()):
            pass
        # The FIFO is gone once both have opened it.
        for is_there in (True, False):
            while bool(target.fifos()) != is_there and started.poll() is None:
                pass
        child = int(found[0])
        try:
            os.kill(child, signal.SIGSTOP)
            while (state := state_of(child)) not in "TZ":
                pass
            if state != "T":
                raise ProcessLookupError
            started.send_signal(signal.SIGINT)
            result = started.wait(timeout=10)
            stops += 1
            assert result == -signal.SIGINT, result
            os.kill(child, signal.SIGCONT)
        except ProcessLookupError:  # it was ready before
            started.wait()
        except subprocess.TimeoutExpired:
            os.kill(child, signal.SIGCONT)
            raise
    target.finish()
    print(f"{name}: ends when it is asked to")


def check_lost_child(heapsnap, name, ruby, root, folder):
    """A child that is killed before it has begun: another one dumps, and no FIFO is left."""
    target = Target(ruby, root, "threads")
    lost = 0
    while lost < 2:
        path = f"{folder}/lost.json"
        started = subprocess.Popen([heapsnap, "attach", "--via", "ruby", str(target.pid), "-o", path, "-f", "-q"])
        while not (found := dumpers()):
            pass
        started.send_signal(signal.SIGSTOP)  # so that it opens no FIFO yet
        while not target.fifos() and dumpers():
            pass
        left = False
        try:
            os.kill(int(found[0]), signal.SIGKILL)
            while dumpers():
                pass
            left = bool(target.fifos())
        except ProcessLookupError:  # it was ready before
            pass
        started.send_signal(signal.SIGCONT)
        result = started.wait()
        if not left:
            continue
        lost += 1
        assert result == 0, result
        check_dump(path, name)
        target.settle()  # where the process was slow, it was asked twice: the second child gives up after a while
    target.finish()
    print(f"{name}: another child dumps where one was lost")


def check_refusals(heapsnap, folder):
    with subprocess.Popen(["sleep", "600"]) as other:
        done = subprocess.run([heapsnap, "attach", "--via", "ruby", str(other.pid), "-o", f"{folder}/no.json"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 5 and "it runs no Ruby" in done.stderr, done
        assert not os.listdir(folder), os.listdir(folder)
        other.send_signal(signal.SIGTERM)
    for words in (["--via", "perl", "1"], ["--via", "ruby", "--contents", "1"], ["--via", "ruby", "--freeze", "stop", "1"],
                  ["--via", "ruby", "--deadline", "100", "1"]):
        done = subprocess.run([heapsnap, "attach", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 2, done


def main():
    heapsnap, *words = sys.argv[1:]
    for name, ruby, root in rubies(words):
        with tempfile.TemporaryDirectory() as folder:
            check_refusals(heapsnap, folder)
            check_states(heapsnap, name, ruby, root, folder)
            check_interrupt(heapsnap, name, ruby, root, folder)
            check_kills(heapsnap, name, ruby, root, folder)
            check_lost_child(heapsnap, name, ruby, root, folder)


main()
