#!/usr/bin/env python3
"""heapsnap collect: what is due, who is meant, and what happens when things go wrong.

    collect.py CASE HEAPSNAP SHIFTED_CLOCK
"""

import ctypes
import fcntl
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time

from collect_store import SKIP, Program, run_case


def due(store):
    """First a snapshot, then none, then one because it grew; and what they are called."""
    with Program() as program:
        store.configure({"web": store.pid_file(program) + '\nwhen = { every = "1h", grown_by = "20%" }'})
        lines, code = store.lines()
        assert code == 0 and lines["web"]["result"] == "collected", lines
        path = pathlib.Path(lines["web"]["snapshot"])
        assert [path] == store.snapshots(), path
        assert path.name.endswith(f"Z-{program.pid}.hsnap") and path.name[8] == "T", path
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, oct(path.stat().st_mode)
        assert lines["web"]["snapshot_bytes"] == path.stat().st_size, lines
        lines, code = store.lines()
        assert code == 0 and lines["web"]["result"] == "not due", lines
        program.grow(64 << 20)
        time.sleep(1.1)  # a name has whole seconds
        lines, code = store.lines()
        assert code == 0 and lines["web"]["result"] == "collected", lines
        assert lines["web"]["why"].startswith("grown by 6"), lines
        assert len(store.snapshots()) == 2 and program.is_well()
        done = store.run()
        assert done.stdout.startswith(f"web: not due: {program.pid} ") and done.stdout.count("\n") == 1, done.stdout
    store.check_whole()


def matches(store):
    """The oldest, or all; one process once in a pass; none is exit code 3, unless it is optional."""
    # Of a name that no other process has.
    executable = shutil.copy(os.path.realpath(sys.executable), store.folder / f"py{os.getpid()}")
    with Program(executable=executable) as first, Program(executable=executable) as second:
        group = pathlib.Path(f"/proc/{first.pid}/cgroup").read_text(encoding="ascii").splitlines()[0].split(":", 2)[2]
        name = os.path.basename(executable)
        store.configure({"one": f'process = "{name}"\ncgroup = "{group}"',
                         "all": f'process = "{name}"\ncgroup = "{group}"\nall = true',
                         "none": 'process = "no-such-program"'})
        done = store.run("--check")
        assert done.returncode == 3, done
        assert f"(the oldest of" in done.stdout.splitlines()[0], done.stdout
        assert "no process no-such-program runs" in done.stdout, done.stdout
        assert not store.store.exists()
        done = store.run()
        assert done.returncode == 3, done
        lines = [line for line in done.stdout.splitlines() if line.startswith("all: ")]
        for program in (first, second):
            assert any(f" {program.pid} " in line for line in lines), lines
            assert program.is_well()
        store.configure({"none": 'process = "no-such-program"\noptional = true'})
        lines, code = store.lines()
        assert code == 0 and lines["none"]["result"] == "absent", lines
        store.configure({"a": store.pid_file(first), "b": store.pid_file(first)})
        lines, code = store.lines()
        assert code == 0 and lines["a"]["result"] == "collected", lines
        assert lines["b"]["why"] == "collected as a in this pass", lines


def configuration(store):
    """What is wrong with it is said with its line, before anything is done."""
    store.configure({"web": 'proces = "nginx"'})
    done = store.run()
    line = store.config.read_text(encoding="utf-8").splitlines().index('proces = "nginx"') + 1
    assert done.returncode == 2 and f"{store.config}:{line}\n" in done.stderr, done
    assert 'there is no key "proces"' in done.stderr and "do:" in done.stderr, done
    assert not store.store.exists()
    done = subprocess.run([store.heapsnap, "collect", "--config", f"{store.folder}/none"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 6 and "--config" in done.stderr, done


def example(store):
    """The configuration that --help shows is one, at any width."""
    for columns in ("60", "80", "200"):
        done = subprocess.run([store.heapsnap, "collect", "--help"], capture_output=True, text=True, check=True,
                              env=os.environ | {"COLUMNS": columns})
        shown = done.stdout.partition("The configuration is TOML:\n\n")[2].partition("\n\n")[0]
        store.config.write_text(shown.replace("/var/lib/heapsnap", str(store.store)), encoding="utf-8")
        done = store.run("--check")
        assert done.returncode in (0, 1, 3) and "web: " in done.stdout, (shown, done)


def lock(store):
    """A file that is not a lock of ours is neither written to nor waited for."""
    with Program() as program:
        store.configure({"web": store.pid_file(program)})
        path, victim = store.folder / "lock", store.folder / "victim"
        victim.write_text("precious", encoding="ascii")
        def hard_link():
            os.link(victim, path)
        def no_lock():
            path.write_text("precious", encoding="ascii")
        def foreign():
            path.write_text("4711\n", encoding="ascii")
            os.chown(path, 65534, 65534)
        faults = [(hard_link, "hard link"), (lambda: os.mkfifo(path), "not a regular file"), (no_lock, "other contents")]
        if os.geteuid() == 0:
            faults.append((foreign, "belongs to another user"))
        for make, why in faults:
            make()
            done = store.run()
            assert done.returncode == 7 and why in done.stderr and "do:" in done.stderr, done
            assert victim.read_text(encoding="ascii") == "precious" and not store.snapshots()
            assert make is not no_lock or path.read_text(encoding="ascii") == "precious"
            path.unlink()
        assert store.lines()[1] == 0 and path.read_text(encoding="ascii").strip().isdigit()
        # The usual place is named, too; here it is in a /run of this test's own.
        if os.geteuid() == 0 and shutil.which("unshare"):
            config = store.config.read_text(encoding="utf-8")
            store.config.write_text("\n".join(config.splitlines()[:1] + config.splitlines()[2:]), encoding="utf-8")
            assert "lock" not in store.config.read_text(encoding="utf-8").splitlines()[1]
            usual = "mount -t tmpfs tmpfs /run && mkdir /run/heapsnap && mkfifo /run/heapsnap/collect.lock && exec \"$@\""
            done = subprocess.run(["unshare", "--mount", "sh", "-c", usual, "sh", *store.command()], capture_output=True,
                                  text=True, check=False)
            assert done.returncode == 7 and "cannot use the lock /run/heapsnap/collect.lock\n" in done.stderr, done


def skipped(store):
    """Too little memory, or another collector at work: exit code 1, and a line that says why."""
    with Program() as program:
        targets = {"web": store.pid_file(program)}
        store.configure(targets, 'skip = { memory_below = "1000TiB" }')
        lines, code = store.lines()
        assert code == 1 and lines["web"]["result"] == "skipped" and "memory_below" in lines["web"]["why"], lines
        assert not store.snapshots()
        store.configure(targets)
        with open(store.folder / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            done = store.run()
            assert done.returncode == 1 and not store.snapshots(), done
            assert f"another heapsnap collect (process {os.getpid()}) is at work" in done.stdout, done.stdout
        lines, code = store.lines()
        assert code == 0 and len(store.snapshots()) == 1, lines


def two_collectors(store):
    """Started together, only one attaches."""
    with Program(200000) as program:
        store.configure({"web": store.pid_file(program) + '\nwhen = { every = "1h" }'})
        for turn in range(8):
            before = len(store.snapshots())
            for path in store.snapshots():
                path.unlink()
            both = [subprocess.Popen(store.command(), stdout=subprocess.PIPE, text=True) for _ in range(2)]
            said = [process.communicate()[0] for process in both]
            assert len(store.snapshots()) == 1, (turn, before, said)
            assert sum("web: collected: " in words for words in said) == 1, said
            assert all("collected: " in words or "not due: " in words or "at work" in words for words in said), said
            assert program.is_well()
    store.check_whole()


def restarts(store):
    """A new process is due at once; one that ends meanwhile is told, and leaves nothing."""
    with Program() as program:
        store.configure({"web": store.pid_file(program) + '\nwhen = { every = "1h" }'})
        assert store.lines()[1] == 0
    with Program() as program:
        store.pid_file(program)
        lines, code = store.lines()
        assert code == 0 and lines["web"]["result"] == "collected", lines
    lines, code = store.lines()
    assert code == 3 and lines["web"]["result"] == "absent", lines
    store.configure({"web": f'pid_file = "{store.folder}/web.pid"'})
    seen = set()
    for turn in range(12):
        with Program(100000) as program:
            store.pid_file(program)
            collector = subprocess.Popen(store.command(), stdout=subprocess.PIPE, text=True)
            time.sleep(0.02 + 0.025 * turn)
            program.process.kill()
            said = collector.communicate(timeout=60)[0]
            assert collector.returncode in (0, 3), (collector.returncode, said)
            assert said.startswith("web: ") and said.count("\n") == 1, said
            seen.add(said.split(": ")[1])
    assert seen <= {"absent", "collected"}, seen
    store.check_whole()


def clock_back(store):
    """Snapshots from the future do not keep collect from work, nor make it take one each time."""
    with Program() as program:
        store.configure({"web": store.pid_file(program) + '\nwhen = { every = "1h" }'})
        assert store.lines()[1] == 0
        [path] = store.snapshots()
        path.rename(path.with_name(f"20990101T000000Z-{program.pid}.hsnap"))
        lines, code = store.lines()
        assert code == 0 and lines["web"]["result"] == "collected", lines
        assert lines["web"]["note"] == "the clock was set back: 1 snapshot in the store is newer than now", lines
        lines, code = store.lines()
        assert code == 0 and lines["web"]["result"] == "not due", lines
        assert len(store.snapshots()) == 2


def clock_wrong(store):
    """No snapshot gets a name that is not one: a clock before 1970 or past 2262 is an error, before anything is done."""
    with Program() as program:
        store.configure({"web": store.pid_file(program)})
        now = int(time.time())
        for shift, words in ((-now - 3600, "before 1970"), (9500 * 365 * 86400, "past the year 2262")):
            done = store.run("--check", env=store.clock_ahead_by(shift))
            assert done.returncode == 5 and words in done.stderr and "do:" in done.stderr, done
            done = store.run("-j", env=store.clock_ahead_by(shift))
            row = json.loads(done.stdout)
            assert done.returncode == row["exit_code"] == 5 and words in row["why"] and row["remedy"], done
        assert not store.store.exists() and program.is_well()


def damaged(store):
    """A damaged snapshot is told and passed over."""
    with Program() as program:
        store.configure({"web": store.pid_file(program) + '\nwhen = { every = "1h" }'})
        assert store.lines()[1] == 0
        [path] = store.snapshots()
        path.write_bytes(path.read_bytes()[:1000])
        time.sleep(1.1)
        lines, code = store.lines()
        assert code == 0 and lines["web"]["result"] == "collected", lines
        assert str(path) in lines["web"]["note"] and "cannot be used" in lines["web"]["note"], lines
        assert path.stat().st_size == 1000
        assert store.lines()[0]["web"]["result"] == "not due"


def mounted(store, size, options=()):
    where = store.folder / "disk"
    where.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", where],
                          capture_output=True, check=False)
    if done.returncode != 0:
        print(f"skipped: no file system can be mounted here: {done.stderr}")
        sys.exit(SKIP)
    return where


def disk_full(store):
    """On a file system of its own that fills up: exit code 7, nothing left, and the next run goes on."""
    where = mounted(store, "2m")
    try:
        store.store = where / "store"
        with Program(100000) as program:
            store.configure({"web": store.pid_file(program)})
            assert store.lines()[1] == 0 and len(store.snapshots()) == 1
            ballast = where / "ballast"
            file = os.open(ballast, os.O_WRONLY | os.O_CREAT)
            try:
                while True:
                    os.write(file, bytes(4096))
            except OSError:
                os.close(file)
            os.truncate(ballast, ballast.stat().st_size - 4096)  # or it would be skipped
            time.sleep(1.1)
            lines, code = store.lines()
            assert code == 7 and lines["web"]["result"] == "failed", (code, lines)
            assert "ENOSPC" in lines["web"]["why"] and lines["web"]["remedy"], lines
            assert len(store.snapshots()) == 1 and program.is_well()
            store.check_whole()
            ballast.unlink()
            time.sleep(1.1)
            assert store.lines()[1] == 0 and len(store.snapshots()) == 2
            store.check_whole()
    finally:
        subprocess.run(["umount", where], check=True)


def links(store):
    """A link in the place of a folder of the store is not followed; a temporary file that was left goes."""
    with Program() as program:
        store.configure({"web": store.pid_file(program)})
        elsewhere = store.folder / "elsewhere"
        elsewhere.mkdir()
        store.place().parent.mkdir(parents=True)
        store.place().symlink_to(elsewhere)
        lines, code = store.lines()
        assert code == 7 and "symbolic link" in lines["web"]["why"] and lines["web"]["remedy"], lines
        assert not list(elsewhere.iterdir())
        store.place().unlink()
        store.place().mkdir()
        left = store.place() / ".heapsnap-0123456789abcdef.tmp"
        left.write_bytes(b"half a snapshot")
        lines, code = store.lines()
        assert code == 0 and not left.exists(), lines


def moved_folder(store):
    """A folder that is exchanged for a link while snapshots are taken: none is written through the link."""
    exchange, at_cwd = 2, -100  # RENAME_EXCHANGE, AT_FDCWD
    libc = ctypes.CDLL(None)
    with Program() as program:
        store.configure({"web": store.pid_file(program)})
        elsewhere = store.folder / "elsewhere"
        elsewhere.mkdir()
        store.place().mkdir(parents=True)
        link = store.place().with_name("link")
        link.symlink_to(elsewhere)
        paths = os.fsencode(store.place()), os.fsencode(link)
        deadline = time.monotonic() + 12
        while time.monotonic() < deadline:
            collector = subprocess.Popen(store.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while collector.poll() is None:
                assert libc.renameat2(at_cwd, paths[0], at_cwd, paths[1], exchange) == 0
                time.sleep(0.002)
            assert not list(elsewhere.iterdir()), list(elsewhere.iterdir())
        real = store.place() if not store.place().is_symlink() else link
        assert list(real.glob("*.hsnap")) and program.is_well()


def bounds(store):
    """Past its time nothing is left; asked to end, it ends as asked, with the target untouched."""
    with Program(400000) as program:
        store.configure({"web": store.pid_file(program) + '\ntimeout = "1ms"'})
        lines, code = store.lines()
        assert code == 5 and "timeout = 1.0 ms" in lines["web"]["why"] and lines["web"]["remedy"], lines
        assert not store.snapshots() and program.is_well()
        store.configure({"web": store.pid_file(program) + '\ncpu = "1ms"'})
        lines, code = store.lines()
        assert code == 5 and "cpu = 1.0 ms" in lines["web"]["why"] and lines["web"]["remedy"], lines
        assert not store.snapshots() and program.is_well()
        store.configure({"web": store.pid_file(program)})
        for delay in (0.05, 0.15, 0.3):
            collector = subprocess.Popen(store.command(), stdout=subprocess.PIPE, text=True)
            time.sleep(delay)
            collector.send_signal(signal.SIGTERM)
            said = collector.communicate(timeout=60)[0]
            assert collector.returncode in (0, -signal.SIGTERM), (collector.returncode, said)
            assert program.is_well(), said
        store.check_whole()


def killed(store, times=15):
    """SIGKILL at random moments: what is in the store is whole, and the next run goes on."""
    choose = random.Random(times)
    with Program(100000) as program:
        store.configure({"web": store.pid_file(program), "again": 'optional = true\nprocess = "no-such-program"'})
        start = time.monotonic()
        store.run()
        whole = time.monotonic() - start
        for _ in range(times):
            collector = subprocess.Popen(store.command(), stdout=subprocess.DEVNULL)
            time.sleep(choose.random() * whole * 1.1)
            collector.kill()
            collector.wait()
            store.check_whole()
            for path in store.snapshots():  # the next one may get the same name
                path.unlink()
        deadline = time.monotonic() + 10
        while not program.is_well(after_a_kill=True) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert program.is_well(after_a_kill=True)
        lines, code = store.lines()
        # What the killed one has started holds its lock until it has ended, too.
        while "" in lines and "is at work on this host" in lines[""]["why"] and time.monotonic() < deadline:
            time.sleep(0.05)
            lines, code = store.lines()
        assert code == 0 and lines["web"]["result"] == "collected", lines
        assert program.is_well()
        program.grow(1000)
        store.check_whole()
        print(f"{times} kills within {whole:.3f} s")


def killed_300(store):
    killed(store, 300)


def cost(store):
    """A pass over 50 targets that need nothing takes 0.2 s of processor time at most."""
    programs = [Program(10) for _ in range(3)]
    try:
        targets = {f"t{i}": store.pid_file(programs[i % 3], f"t{i}") + '\nwhen = { every = "1h", grown_by = "90%" }'
                   for i in range(50)}
        store.configure(targets)
        for _ in range(17):  # a process is collected once in a pass
            store.lines()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        lines, code = store.lines()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert code == 0 and {line["result"] for line in lines.values()} == {"not due"}, lines
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"50 targets: {used:.3f} s of processor time")
        assert used <= 0.2, used
    finally:
        for program in programs:
            program.__exit__()


if __name__ == "__main__":
    sys.exit(run_case(globals()))
