#!/usr/bin/env python3
"""How `heapsnap doctor` looks to people, to programs and to shells: doctor.py HEAPSNAP"""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios

from kernel_rules import Echo

USAGE, NO_PROCESS = 2, 3


def run(heapsnap, *arguments, **environment):
    return subprocess.run([heapsnap, "doctor", *arguments], capture_output=True, text=True,
                          env=os.environ | environment)


def on_terminal(heapsnap, columns, *arguments, **environment):
    """What a terminal of that width is shown."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    base = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen([heapsnap, "doctor", *arguments], stdout=inside, stdin=inside,
                               env=base | {"TERM": "xterm"} | environment)
    os.close(inside)
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # EIO: the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(terminal)
    process.wait()
    return shown.decode().replace("\r\n", "\n")


def check_layout(heapsnap, pid):
    for columns in (60, 80, 132):
        page = on_terminal(heapsnap, columns, pid, NO_COLOR="1")
        assert "\x1b" not in page, page
        for line in page.splitlines():
            # A command is never broken: it is there to be copied.
            assert len(line) <= columns or line.lstrip().startswith("do: "), line
    assert "\x1b[" in on_terminal(heapsnap, 80, pid)
    assert "\x1b[" not in on_terminal(heapsnap, 80, pid, TERM="dumb")
    assert "\x1b[" not in on_terminal(heapsnap, 80, pid, "--color", "never")
    assert "\x1b[" not in run(heapsnap, pid).stdout
    assert "\x1b[" in run(heapsnap, pid, "--color", "always").stdout


def check_hostile_name(heapsnap):
    # A name that a program gives itself lasts; exec would replace it.
    program = ("import ctypes, sys\n"
               "ctypes.CDLL(None).prctl(15, b'\\x1b[31mevil\\n\\xff', 0, 0, 0)  # PR_SET_NAME\n"
               "for line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()\n")
    with Echo([sys.executable, "-B", "-c", program]) as target:
        done = run(heapsnap, str(target.pid))
        assert "evil" in done.stdout and "\x1b" not in done.stdout, done
        checks = json.loads(run(heapsnap, str(target.pid), "-j").stdout)["checks"]
        assert any("\x1b[31mevil\n" in check["what"] for check in checks), checks


def main():
    heapsnap = sys.argv[1]
    with Echo() as target:
        pid = str(target.pid)
        check_layout(heapsnap, pid)
        done = run(heapsnap, pid, "-j")
        report = json.loads(done.stdout)
        assert done.returncode == 0 and report["attachable"] and report["pid"] == target.pid, done
        for check in report["checks"]:
            assert set(check) == {"id", "severity", "what", "why", "remedy"}, check
            assert check["severity"] in ("ok", "note", "degraded"), check
        ids = [check["id"] for check in report["checks"]]
        assert len(ids) == len(set(ids)), ids
        target.check_alive()

    machine = json.loads(run(heapsnap, "-j").stdout)
    assert machine["pid"] == 0 and machine["checks"], machine
    done = run(heapsnap, "no-process-has-this-name")
    assert done.returncode == NO_PROCESS and "no-process-has-this-name" in done.stderr, done
    for wrong in (["--no-such-option"], ["1", "2"], ["0"], ["--color", "sometimes"]):
        done = run(heapsnap, *wrong)
        assert done.returncode == USAGE and done.stderr and not done.stdout, (wrong, done)
    done = run(heapsnap, "--help")
    assert done.returncode == 0 and "Examples:" in done.stdout and "not stopped" in done.stdout, done
    full = subprocess.run([heapsnap, "doctor"], stdout=open("/dev/full", "w"), stderr=subprocess.PIPE)
    assert full.returncode == 7, full
    check_hostile_name(heapsnap)
    return 0


if __name__ == "__main__":
    sys.exit(main())
