"""The program under test where remedies are followed (remedies.py): it refuses, prints what to do, and that is done."""

import contextlib
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile

from kernel_rules import Echo


class Skip(Exception):
    pass


class Tool:
    """The program under test, in a folder that every user can read."""

    def __init__(self, heapsnap, folder):
        os.chmod(folder, 0o755)
        self.folder = folder
        self.path = folder / "heapsnap"
        shutil.copy(heapsnap, self.path)
        self.path.chmod(0o755)
        self.output = folder / "out"
        self.output.mkdir()
        self.output.chmod(0o777)
        self.snapshot = self.output / "a.hsnap"

    def command(self, *words):
        """`attach` writes into a folder that everybody may write to."""
        words = [str(word) for word in words]
        if words[0] == "attach" and "-o" not in words:
            words += ["-f", "-o", str(self.snapshot)]
        return [str(self.path), *words]

    def run(self, *words, wrap=lambda argv: argv, **how):
        return subprocess.run(wrap(self.command(*words)), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120, **how)

    def succeed(self, *words, **how):
        done = self.run(*words, **how)
        assert done.returncode == 0, (words, done.returncode, done.stderr)
        return done.stdout

    def remedy(self, *words, why="", **how):
        """Refused; gives what is printed behind "do:"."""
        done = self.run(*words, **how)
        assert done.returncode not in (0, 70), (words, done)
        found = re.search(r"^  do:  (.*)$", done.stderr, re.MULTILINE)
        assert found and why in done.stderr, (words, done.stderr)
        print(f"heapsnap {' '.join(map(str, words))}: {found[1]}")
        return found[1]

    def follow(self, remedy, pattern, **how):
        """Runs the command that `pattern` finds in the remedy, as a shell would."""
        found = re.search(pattern, remedy)
        assert found, (pattern, remedy)
        line = found[1].removeprefix("sudo ")
        print(f"  $ {line}")
        if line.startswith("heapsnap "):
            return self.succeed(*line.split()[1:], **how)
        done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120, **how)
        assert done.returncode == 0, (line, done)
        return done.stdout


def need_root():
    if os.geteuid() != 0:
        raise Skip("only root can become another user")


def start(*argv, **how):
    """A process that sleeps until it is told to end."""
    return Echo([str(word) for word in argv] or ("cat",), **how)


def make_core(tool, argv):
    """The kernel's core of a program that dies of itself."""
    import truth_process  # pylint: disable=import-outside-toplevel
    folder = pathlib.Path(tempfile.mkdtemp(dir=tool.folder))
    with contextlib.ExitStack() as stack:
        try:
            prefix = stack.enter_context(truth_process.kernel_core_file())
        except truth_process.Skip as reason:
            raise Skip(str(reason)) from reason
        subprocess.run(argv, cwd=folder, capture_output=True,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2))
        cores = list(folder.glob(prefix + "*"))
    if len(cores) != 1:
        raise Skip("the kernel wrote no core")
    return cores[0]
