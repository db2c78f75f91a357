#!/usr/bin/env python3
"""heapsnap collect where something else than a target is amiss: collect_trust.py CASE HEAPSNAP SHIFTED_CLOCK

Who may name a process, a log that cannot be written, a store that cannot be read, errors of the whole pass."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

from collect_store import SKIP, Program, run_case
from kernel_rules import as_nobody

NOBODY = 65534


def need_nobody():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("skipped: not root, or no setpriv")
        sys.exit(SKIP)


@contextlib.contextmanager
def process_of_nobody():
    """Its pid; it runs when it is given."""
    with subprocess.Popen(as_nobody(["cat"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"x\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"x\n"
        yield process.pid
        process.stdin.close()


def pid_file_owner(store):
    """A pid file counts if it is root's or of the user of the process that it names: nobody else may choose one."""
    need_nobody()
    with Program() as program:
        store.configure({"web": store.pid_file(program)})
        path = store.folder / "web.pid"
        os.chown(path, NOBODY, NOBODY)
        lines, code = store.lines()
        assert code == 3 and lines["web"]["result"] == "absent", lines
        assert lines["web"]["why"].endswith("it belongs to neither root nor the user of the process that it names"), lines
        assert not store.snapshots()
        os.chown(path, 0, 0)
        assert store.lines()[1] == 0
    with process_of_nobody() as pid:
        path.write_text(f"{pid}\n", encoding="ascii")
        os.chown(path, NOBODY, NOBODY)
        lines, code = store.lines("--check")
        assert code == 0 and lines["web"]["pid"] == pid, lines


def full_log(store):
    """Lines that cannot be written keep no target from being collected; the exit code tells."""
    with Program() as first, Program() as second:
        store.configure({name: store.pid_file(program, name) for name, program in (("one", first), ("two", second))})
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run(store.command(), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 7 and "standard output cannot be written" in done.stderr, done
        assert len(store.snapshots("one")) == len(store.snapshots("two")) == 1


def unreadable_store(store):
    """--check by who may not read the store does not say that there is no snapshot."""
    need_nobody()
    with process_of_nobody() as pid:
        path = store.folder / "web.pid"
        path.write_text(f"{pid}\n", encoding="ascii")
        store.configure({"web": f'pid_file = "{path}"\nwhen = {{ every = "1h" }}'})
        assert store.lines()[1] == 0
        store.folder.chmod(0o755)
        store.config.chmod(0o644)
        path.chmod(0o644)
        command = as_nobody([store.heapsnap, "collect", "--config", str(store.config), "--check", "-j"])
        for closed in (store.store, store.place().parent, store.place()):
            for each in (store.store, store.place().parent, store.place()):
                each.chmod(0o700 if each == closed else 0o755)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            row = json.loads(done.stdout)
            assert row["result"] == "matched" and done.returncode in (6, 7), row
            assert row["why"].startswith("whether it is due is not known: cannot open the "), row
            assert "EACCES" in row["why"] and row["remedy"] == "run it as a user who may read the store, or with sudo", row


def whole_pass(store):
    """What prevents the whole pass is a line as others are, for who reads JSON or the journal; else an error as ever."""
    store.configure({"web": 'process = "x"'})
    store.store.write_text("in the way", encoding="ascii")
    done = store.run()
    assert done.returncode == 7 and "why: " in done.stderr and not done.stdout, done
    done = store.run("-j")
    row = json.loads(done.stdout)
    assert done.returncode == row["exit_code"] == 7 and not done.stderr, done
    assert row["target"] == "" and row["result"] == "failed" and "ENOTDIR" in row["why"] and row["remedy"], row
    reader, writer = os.pipe()
    status = os.fstat(writer)
    subprocess.run(store.command(), stdout=writer, check=False,
                   env={**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
    os.close(writer)
    with open(reader, encoding="utf-8") as journal:
        assert journal.read().startswith("<3>collect: failed: cannot open the store ")


def priorities(store):
    """Of a target that may be absent, the journal has a line of information."""
    store.configure({"web": 'process = "no such"', "job": 'process = "no such"\noptional = true'})
    reader, writer = os.pipe()
    status = os.fstat(writer)
    done = subprocess.run(store.command(), stdout=writer, check=False,
                          env={**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
    os.close(writer)
    with open(reader, encoding="utf-8") as journal:
        lines = journal.read().splitlines()
    assert done.returncode == 3 and lines[0].startswith("<4>web: absent") and lines[1].startswith("<6>job: absent"), lines


def no_process(store):
    """A target for which no process can be made fails, and so does the next, each with its line."""
    need_nobody()
    store.folder.chmod(0o777)
    with Program() as first, Program() as second:
        store.configure({name: store.pid_file(program, name) for name, program in (("one", first), ("two", second))})
        store.config.chmod(0o644)
        for name in ("one", "two"):
            (store.folder / f"{name}.pid").chmod(0o644)
        done = subprocess.run(as_nobody(["prlimit", "--nproc=1", *store.command("-j")]), capture_output=True, text=True,
                              check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["target"] for row in rows] == ["one", "two"], done
    assert all(row["result"] == "failed" and "EAGAIN" in row["why"] and "ulimit -u" in row["remedy"] for row in rows), rows


def left_temporaries(store):
    """A temporary file goes also from the folder of a target that matches nothing, or that is configured no longer."""
    store.configure({"web": 'process = "no such"'})
    left = []
    for name in ("web", "former"):
        store.place(name).mkdir(parents=True)
        left.append(store.place(name) / ".heapsnap-0123456789abcdef.tmp")
        left[-1].write_bytes(b"half a snapshot")
    assert store.run().returncode == 3
    assert not any(path.exists() for path in left), left


def references(store):
    """They are taken as configured: with them, owners has an answer."""
    with Program() as program:
        for choice, code in (("yes", 0), ("no", 5)):
            store.configure({"web": store.pid_file(program) + f'\nreferences = "{choice}"'})
            assert store.lines()[1] == 0
            done = subprocess.run([store.heapsnap, "owners", store.snapshots()[-1]], capture_output=True, check=False)
            assert done.returncode == code, (choice, done)
            time.sleep(1.1)  # a name has whole seconds


def lock_in_store(store):
    """Where the lock is in the host's folder, prune does not wonder about it."""
    with Program() as program:
        store.configure({"web": store.pid_file(program)}, "keep = { last = 1 }")
        path = store.place().parent / "collect.lock"
        store.config.write_text(store.config.read_text(encoding="utf-8").replace(f"{store.folder}/lock", str(path)),
                                encoding="utf-8")
        path.parent.mkdir(parents=True)
        assert store.lines()[1] == 0 and path.exists()
        done = subprocess.run([store.heapsnap, "prune", "--config", str(store.config)], capture_output=True, text=True,
                              check=True)
        assert "left alone" not in done.stdout, done


if __name__ == "__main__":
    sys.exit(run_case(globals()))
