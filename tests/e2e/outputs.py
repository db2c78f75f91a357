#!/usr/bin/env python3
"""What heapsnap writes, and where: no secrets unasked, nobody else's file, no half of a file.

    outputs.py CASE HEAPSNAP
"""

import array
import fcntl
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import termios
import time

SKIP = 77
SECRET = "--password=hunter2-of-the-target"


def fail(what):
    print("FAILED:", what)
    sys.exit(1)


def check(condition, what):
    if not condition:
        fail(what)


class Sleeper:
    """A process with a secret in its command line, and a heap of some size."""

    def __init__(self, make="kept = [bytes(i % 900 + 1) for i in range(50000)]"):
        script = f"import sys; {make}; print('ready', flush=True); sys.stdin.read()"
        self.process = subprocess.Popen([sys.executable, "-c", script, SECRET], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=dict(os.environ, PYTHONMALLOC="malloc"))
        self.process.stdout.readline()
        self.pid = str(self.process.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, **more)


def attach(heapsnap, folder, *options):
    path = f"{folder}/a.hsnap"
    with Sleeper() as target:
        made = run(heapsnap, "attach", "-q", "-o", path, "-f", *options, target.pid)
    check(made.returncode == 0, f"attach: {made.stderr}")
    return path


def command_line_of(heapsnap, path):
    return json.loads(run(heapsnap, "report", "--json", path).stdout)["command_line"]


def arguments(heapsnap, folder):
    plain = command_line_of(heapsnap, attach(heapsnap, folder))
    check(SECRET not in plain, f"the snapshot holds the arguments: {plain}")
    check(plain == os.path.realpath(sys.executable), f"the program's path is not kept: {plain}")
    kept = command_line_of(heapsnap, attach(heapsnap, folder, "--with-arguments"))
    check(SECRET in kept, f"asked for, but not there: {kept}")


# Every verb that writes a file of a name that it is given.
def writers(heapsnap, snapshot):
    return {"export": [heapsnap, "export", snapshot, "--format", "ndjson"],
            "sums": [heapsnap, "export", snapshot, "--format", "ndjson", "--rows", "sums"],
            "dump": [heapsnap, "export", snapshot, "--format", "ptmallocdump"],
            "render": [heapsnap, "render", snapshot],
            "view": [heapsnap, "view", snapshot]}


def other_files(heapsnap, folder):
    """-f replaces a name, it does not write into the file that has it: another name of that file, its
    owner and its mode stay as they are."""
    snapshot = attach(heapsnap, folder)
    for verb, command in writers(heapsnap, snapshot).items():
        out, other = f"{folder}/{verb}.out", f"{folder}/{verb}.other"
        with open(other, "w", encoding="ascii") as file:
            file.write("somebody else's")
        os.chmod(other, 0o644)
        os.link(other, out)
        made = run(*command, "-o", out)
        check(made.returncode == 2 and "exists" in made.stderr, f"{verb} without -f: {made}")
        made = run(*command, "-f", "-o", out)
        check(made.returncode == 0, f"{verb} -f: {made.stderr}")
        with open(other, encoding="ascii") as file:
            check(file.read() == "somebody else's", f"{verb} -f wrote into a file that was there")
        check(stat.S_IMODE(os.stat(out).st_mode) == 0o600, f"{verb} gave a file mode {os.stat(out).st_mode:o}")
        os.unlink(out)
        os.symlink(other, out)
        made = run(*command, "-f", "-o", out)
        check(made.returncode == 2 and "symbolic link" in made.stderr, f"{verb} -f on a link: {made}")


def write_errors(heapsnap, folder, limits):
    snapshot = attach(heapsnap, folder)
    for verb, command in writers(heapsnap, snapshot).items():
        for old in (None, b"what was there"):
            with limits() as (place, words, preexec):
                out = f"{place}/out"
                before = set(os.listdir(place))
                if old is not None:
                    with open(out, "wb") as file:
                        file.write(old)
                    before.add("out")
                made = run(*command, "-f", "-o", out, preexec_fn=preexec)
                check(made.returncode == 7, f"{verb}: exit code {made.returncode}: {made.stderr}")
                check(words in made.stderr and "do:" in made.stderr, f"{verb}: {made.stderr}")
                check(set(os.listdir(place)) == before, f"{verb} left {os.listdir(place)}")
                if old is not None:
                    with open(out, "rb") as file:
                        check(file.read() == old, f"{verb} spoilt the file that was there")


class SizeLimit:
    def __init__(self, folder):
        self.folder = tempfile.mkdtemp(dir=folder)

    def __enter__(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        return self.folder, "File too large", limit

    def __exit__(self, *_):
        pass


class FullDisk:
    def __init__(self, folder):
        self.folder = tempfile.mkdtemp(dir=folder)

    def __enter__(self):
        made = run("mount", "-t", "tmpfs", "-o", "size=4k", "heapsnap-test", self.folder)
        if made.returncode != 0:
            print("skipped: cannot mount a small file system:", made.stderr)
            sys.exit(SKIP)
        return self.folder, "No space left on device", None

    def __exit__(self, *_):
        run("umount", self.folder)


def standard_output(heapsnap, folder):
    """SIGXFSZ is an error in words there as well."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
    snapshot = attach(heapsnap, folder)
    for command in ([heapsnap, "report", snapshot], [heapsnap, "completions", "bash"],
                    [heapsnap, "export", snapshot, "--format", "ndjson"],
                    [heapsnap, "export", snapshot, "--format", "ndjson", "-o", "-"]):
        with open(f"{folder}/stdout", "wb") as out:
            made = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, preexec_fn=limit,
                                  check=False)
        check(made.returncode == 7 and "File too large" in made.stderr, f"{command}: {made}")


def closed_pipe(heapsnap, folder):
    """A reader that has seen enough (head) ends heapsnap by SIGPIPE, in silence, with the target unharmed."""
    snapshot = attach(heapsnap, folder)
    with subprocess.Popen(["sleep", "60"]) as target:
        try:
            for command in (["report", snapshot], ["export", snapshot, "--format", "ndjson"], ["completions", "bash"],
                            ["attach", str(target.pid), "-o", f"{folder}/attached.hsnap"]):
                read_end, write_end = os.pipe()
                os.close(read_end)
                made = subprocess.run([heapsnap, *command], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
                os.close(write_end)
                check(made.returncode == -signal.SIGPIPE and made.stderr == "", f"{command}: {made}")
            check(os.path.exists(f"{folder}/attached.hsnap"), "the snapshot is there")
            check(target.poll() is None, "the target runs")
        finally:
            target.kill()


def idle_reader(heapsnap, folder):
    """A pipe that nobody reads holds no signal up, whichever thread waits to write to it."""
    references = ("import random; kept = [[None, None] for _ in range(400000)]; order = kept[:]; random.shuffle(order); "
                  "[one.__setitem__(0, other) for one, other in zip(kept, order)]")
    with Sleeper(references) as target:
        for _ in range(6):
            read_end, write_end = os.pipe()
            with subprocess.Popen([heapsnap, "attach", target.pid, "-o", "-", "--freeze", "fork", "--references", "yes"],
                                  stdout=write_end, stderr=subprocess.PIPE) as made:
                os.close(write_end)
                full = fcntl.fcntl(read_end, fcntl.F_GETPIPE_SZ)
                wait_until(lambda: bytes_in(read_end) == full, "the pipe is full")
                made.send_signal(signal.SIGTERM)
                try:
                    made.wait(20)
                except subprocess.TimeoutExpired:
                    made.kill()
                    fail("heapsnap goes on after SIGTERM")
                check(made.returncode == -signal.SIGTERM, f"ended by {made.returncode}")
            os.close(read_end)
            children = open(f"/proc/{target.pid}/task/{target.pid}/children", encoding="ascii").read()
            check(children == "", f"a copy is left: {children}")


def unwritable_output(heapsnap, folder):
    """Standard output that nothing can be written to is an error, and waited for by nobody."""
    pipe, _ = os.pipe()
    listener = socket.socket()
    listener.listen()
    with Sleeper() as target:
        for output in (pipe, listener.fileno(), os.pidfd_open(os.getpid())):
            made = subprocess.run([heapsnap, "attach", target.pid, "-o", "-"], stdout=output, stderr=subprocess.PIPE, text=True,
                                  timeout=60, check=False)
            check(made.returncode == 7 and "cannot write standard output" in made.stderr, f"{output}: {made}")


def bytes_in(pipe):
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def wait_until(holds, what):
    deadline = time.monotonic() + 60
    while not holds():
        check(time.monotonic() < deadline, what)
        time.sleep(0.01)


def standard_error(heapsnap, folder):
    """Where an error cannot be told, the exit code is the same."""
    for broken in ("/dev/full", None):
        def close_or_fill():
            if broken is None:
                os.close(2)
            else:
                os.dup2(os.open(broken, os.O_WRONLY), 2)
        for code, command in ((3, ["attach", "4194000"]), (6, ["report", f"{folder}/no-such-file"])):
            made = subprocess.run([heapsnap, *command], stdout=subprocess.DEVNULL, preexec_fn=close_or_fill, check=False)
            check(made.returncode == code, f"{command} with {broken or 'a closed'} standard error: {made}")


def full_output(heapsnap, folder):
    """What cannot be written is an error, of heapsnap itself and of each command, and also of what prints only help."""
    def onto_full_disk(*words):
        with open("/dev/full", "w", encoding="ascii") as full:
            return subprocess.run([heapsnap, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    commands = re.findall(r"^  (\w+) ", run(heapsnap, "--help").stdout.partition("Start here")[0], re.MULTILINE)
    check(len(commands) > 20, f"{commands}")
    with Sleeper() as target:
        path = f"{folder}/a.hsnap"
        check(run(heapsnap, "attach", "--references", "yes", "-q", "-o", path, target.pid).returncode == 0, "attach")
        reading = [[command, path] for command in ("report", "owners", "leaks", "types")]
        for words in ([["--help"], ["help"], ["--version"], []] + [[command, "--help"] for command in commands] + reading +
                      [["diff", path, path], ["doctor"], ["completions", "bash"], ["inject", target.pid]]):
            made = onto_full_disk(*words)
            check(made.returncode == 7 and "standard output cannot be written" in made.stderr and "  do:" in made.stderr,
                  f"{words}: {made}")


def default_names(heapsnap, folder):
    """Snapshots of one second have names of their own; one that was asked for is not changed."""
    with Sleeper() as target:
        for _ in range(3):
            made = run(heapsnap, "attach", "-q", target.pid, cwd=folder)
            check(made.returncode == 0, f"attach: {made.stderr}")
        check(len(os.listdir(folder)) == 3, f"three snapshots: {os.listdir(folder)}")
        run(heapsnap, "attach", "-q", "-o", "mine.hsnap", target.pid, cwd=folder)
        again = run(heapsnap, "attach", "-q", "-o", "mine.hsnap", target.pid, cwd=folder)
        check(again.returncode == 2 and len(os.listdir(folder)) == 4, f"{again}")


def closed_descriptors(heapsnap, folder):
    """What is meant for a closed standard output goes into no other file, and is missed; nor is a snapshot lost to a
    full standard error."""
    def without(*descriptors):
        return lambda: [os.close(each) for each in descriptors]
    with Sleeper() as target:
        for command in (["owners"], ["leaks"], ["types"], ["inject"], ["stacks"], ["eject"], ["trim"]):
            made = subprocess.run([heapsnap, *command, target.pid], stderr=subprocess.PIPE, text=True, check=False,
                                  preexec_fn=without(0, 1))
            check(made.returncode == 7 and "standard output cannot be written" in made.stderr, f"{command}: {made}")
        for number, prepare in enumerate((without(2), without(0, 1, 2),
                                          lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 2))):
            path = f"{folder}/{number}.hsnap"
            made = subprocess.run([heapsnap, "attach", "-v", "-o", path, target.pid], stdout=subprocess.DEVNULL,
                                  check=False, preexec_fn=prepare)
            check(made.returncode == (7 if number == 1 else 0), f"attach -v, {number}: {made}")
            check(run(heapsnap, "report", path).returncode == 0, f"attach -v, {number}: no snapshot")
        # A program has what heapsnap was given.
        look = "import os, sys; sys.exit(sum(1 << each for each in range(3) if not os.path.exists(f'/proc/self/fd/{each}')))"
        made = subprocess.run([heapsnap, "run", "--", sys.executable, "-c", look], check=False, preexec_fn=without(0, 1))
        check(made.returncode == 3, f"run: {made}")


def main():
    case, heapsnap = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        if case == "size_limit":
            write_errors(heapsnap, folder, lambda: SizeLimit(folder))
        elif case == "full_disk":
            write_errors(heapsnap, folder, lambda: FullDisk(folder))
        else:
            {"arguments": arguments, "other_files": other_files,
             "standard_output": standard_output, "standard_error": standard_error, "closed_pipe": closed_pipe,
             "idle_reader": idle_reader, "unwritable_output": unwritable_output,
             "closed_descriptors": closed_descriptors, "default_names": default_names,
             "full_output": full_output}[case](heapsnap, folder)


main()
