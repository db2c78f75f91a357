"""A tracked process that runs until the `with` statement ends."""

import subprocess

from owned_process import OwnedProcess


class TrackedCat(OwnedProcess):
    """cat, or a copy of it, with the tracker from its first allocation on; `pid` is its own, not that of `heapsnap
    run`."""

    def __init__(self, heapsnap, program="cat"):
        self.process = subprocess.Popen([heapsnap, "run", "--", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdin.write(b"x")
        self.process.stdin.flush()
        self.process.stdout.read(1)  # it runs
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            self.pid = file.read().strip()

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)
        super().__exit__()
