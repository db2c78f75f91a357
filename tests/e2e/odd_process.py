"""A process of an odd kind, and what can be seen of it from outside."""

import mmap
import os
import re
import select
import struct
import subprocess
import time

from odd_starts import start_of
from owned_process import OwnedProcess

# Within this it shows that it goes on, on a busy machine too.
PATIENCE = 60
# Between two looks, unless it ends before.
LOOK = 0.002
TRUTH = struct.Struct("QQII232s")


class Failure(Exception):
    pass


class Skipped(Exception):
    pass


class OddProcess(OwnedProcess):
    def __init__(self, kind, target, folder):
        path = f"{folder}/truth"
        with open(path, "wb") as file:
            file.write(bytes(4096))
        os.chmod(path, 0o666)
        with open(path, "r+b") as file:
            self.truth = mmap.mmap(file.fileno(), 4096)
        try:
            start = start_of(kind, target, folder, path)
        except LookupError as reason:
            raise Skipped(reason) from None
        self.process = subprocess.Popen(start.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=start.environment, preexec_fn=start.before)
        said = self.process.stdout.readline().strip()
        if not said.startswith("ready "):
            self.__exit__()
            raise Skipped(said.removeprefix("skipped: ") or f"it ended with {self.process.returncode}")
        start.after()
        self.pid = self.process.pid
        self.ending = os.pidfd_open(self.pid)

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        if hasattr(self, "ending"):
            os.close(self.ending)
        self.truth.close()

    def told(self):
        """Work done, errors, and the first of them."""
        work, errors, _, _, text = TRUTH.unpack_from(self.truth)
        return work, errors, text.split(b"\0")[0].decode(errors="replace")

    def wait_for_file(self, file, seconds):
        """Whether the file has become readable within this time."""
        events = select.poll()
        if file is not None:
            events.register(file, select.POLLIN)
        return bool(events.poll(seconds * 1000))

    def await_truth(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if self.wait_for_file(self.ending, LOOK):
                code = self.process.wait()
                raise Failure(f"{what}: the process has ended with {code}; {self.told()}")
            if time.monotonic() > deadline:
                raise Failure(f"{what}: not within {PATIENCE} s; {self.told()}; {self.states()}")

    def tasks(self):
        try:
            return [f"/proc/{self.pid}/task/{tid}" for tid in os.listdir(f"/proc/{self.pid}/task")]
        except OSError:
            return []

    def states(self):
        return [read(f"{task}/stat").rpartition(")")[2][:3] + read(f"{task}/wchan") for task in self.tasks()[:8]]

    def has_tracer(self):
        texts = [read(f"{task}/status") for task in self.tasks()]
        return any("TracerPid:\t" in text and "TracerPid:\t0\n" not in text for text in texts)

    def has_copy(self):
        found = [read(f"/proc/{child}/comm").strip() for task in self.tasks() for child in read(f"{task}/children").split()]
        return any(name.startswith("heapsnap") for name in found)

    def check(self, when, may_have_copy):
        work = self.told()[0]
        self.await_truth(lambda: self.told()[0] > work + 1, when)
        self.await_truth(lambda: not self.has_tracer(), f"{when}: no tracer")
        if not may_have_copy:
            self.await_truth(lambda: not self.has_copy(), f"{when}: no copy")
        _, errors, text = self.told()
        if errors:
            raise Failure(f"{when}: {errors} errors, the first: {text}")

    def belongings(self):
        """Its mappings and descriptors; None where they change by themselves."""
        first = self.look()
        for _ in range(2):
            self.wait_for_file(None, LOOK)
            if self.look() != first:
                return None
        return first

    def look(self):
        lines = read(f"/proc/{self.pid}/maps").splitlines()
        # The main stack and the heap may grow by themselves.
        kept = [line for line in lines if not re.search(r"\[(heap|stack)\]", line)]
        try:
            return kept, sorted(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            return kept, []

    def compare(self, before, when):
        """After an operation that leaves nothing. What changes by itself shows that when looked at again."""
        deadline = time.monotonic() + PATIENCE
        while True:
            now = self.look()
            mappings = [line for line in now[0] if line not in before[0] and "heapsnap_tracker" in line]
            files = set(now[1]).symmetric_difference(before[1])
            if not mappings and not files:
                return
            self.wait_for_file(None, LOOK)
            if self.look() != now:
                return
            if time.monotonic() > deadline:
                raise Failure(f"{when} has left something: {mappings} {files}")

    def end(self):
        struct.pack_into("I", self.truth, 16, 1)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(f"it does not end: {self.states()}") from None
        _, errors, text = self.told()
        if errors:
            raise Failure(f"at its end: {errors} errors, the first: {text}")
        if code != 0:
            raise Failure(f"it ended with {code}")


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
