"""A store, a configuration and targets for the tests of collect, prune and history."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from owned_process import OwnedProcess

SKIP = 77
TEMPORARY = re.compile(r"\.heapsnap-[0-9a-f]{16}\.tmp")


class Program(OwnedProcess):
    """Python with a heap of some size; a line on its standard input makes it allocate so many bytes more."""

    def __init__(self, blocks=20000, executable=sys.executable):
        script = (f"import sys; kept = [bytes(i % 900 + 1) for i in range({blocks})]; print('ready', flush=True)\n"
                  "for line in sys.stdin:\n"
                  "    kept.append(b'x' * int(line)); print('grown', flush=True)\n")
        self.process = subprocess.Popen([executable, "-c", script], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        self.pid = self.process.pid

    def grow(self, size):
        self.process.stdin.write(f"{size}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def is_well(self, after_a_kill=False):
        """It runs, nobody traces it, and nothing of heapsnap's is left in it. When heapsnap was killed, the dead
        copy may wait for the next attach to reap it."""
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
            status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
        with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as file:
            children = file.read().split()
        if after_a_kill:
            children = [child for child in children if not self.is_dead_copy(child)]
        return status["State"][0] in "SRD" and int(status["TracerPid"]) == 0 and not children

    @staticmethod
    def is_dead_copy(child):
        with open(f"/proc/{child}/stat", encoding="ascii", errors="replace") as file:
            return "(heapsnap-copy) Z " in file.read()


class Store:
    """A folder with the configuration, the store and the lock; gone with the `with` statement."""

    def __init__(self, heapsnap, folder=None, shifted_clock=None):
        self.heapsnap = heapsnap
        self.shifted_clock = shifted_clock  # the library
        self.owned = tempfile.TemporaryDirectory(prefix="heapsnap-collect-")
        self.folder = pathlib.Path(self.owned.name)
        self.store = pathlib.Path(folder) if folder else self.folder / "store"
        self.host = re.sub(r"[^A-Za-z0-9._-]", "_", os.uname().nodename)[:64]
        self.config = self.folder / "collect.toml"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.owned.cleanup()

    def configure(self, targets, top=""):
        """`targets`: a name, and the lines of its table."""
        text = f'store = "{self.store}"\nlock = "{self.folder}/lock"\n{top}\n'
        if "skip" not in top:  # a loaded test machine has pressure
            text += ('skip = { memory_below = 1, disk_below = 1, memory_pressure_over = "100%", '
                     'io_pressure_over = "100%" }\n')
        for name, lines in targets.items():
            text += f'[[target]]\nname = "{name}"\n{lines}\n'
        self.config.write_text(text, encoding="utf-8")

    def pid_file(self, program, name="web"):
        path = self.folder / f"{name}.pid"
        path.write_text(f"{program.pid}\n", encoding="ascii")
        return f'pid_file = "{path}"'

    def command(self, *options):
        return [self.heapsnap, "collect", "--config", str(self.config), "--at-once", *options]

    def run(self, *options, **how):
        return subprocess.run(self.command(*options), capture_output=True, text=True, check=False, **how)

    def clock_ahead_by(self, seconds):
        """The environment of a heapsnap whose clock is ahead by so much, or behind."""
        asan = "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")
        return {**os.environ, "LD_PRELOAD": self.shifted_clock, "CLOCK_SHIFT": str(seconds), "ASAN_OPTIONS": asan}

    def lines(self, *options):
        """The JSON lines of one pass, by target, and the exit code."""
        done = self.run("-j", *options)
        assert not done.stderr, done.stderr
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return {row["target"]: row for row in rows}, done.returncode

    def snapshots(self, name="web"):
        return sorted((self.store / self.host / name).glob("*.hsnap"))

    def place(self, name="web"):
        return self.store / self.host / name

    def check_whole(self):
        """No temporary file, and each snapshot is one that can be read to its end."""
        for path in self.store.rglob("*"):
            assert not TEMPORARY.fullmatch(path.name), path
            if path.name.endswith(".hsnap"):
                done = subprocess.run([self.heapsnap, "report", "-j", str(path)], capture_output=True, text=True,
                                      check=False)
                assert done.returncode == 0, (path, done.stderr)


def run_case(cases):
    """The case that the command line names, in a store of its own: PROGRAM CASE HEAPSNAP [SHIFTED_CLOCK]."""
    case, heapsnap, *shifted_clock = sys.argv[1:]
    with Store(heapsnap, shifted_clock=next(iter(shifted_clock), None)) as store:
        cases[case](store)
    return 0
