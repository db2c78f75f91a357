#!/usr/bin/env python3
"""heapsnap watch: what its lines say of a process whose memory changes by known amounts, when it takes snapshots,
what it removes, and how it ends.

    watching.py CASE HEAPSNAP
"""

import errno
import fcntl
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types

from collect_store import SKIP, TEMPORARY
from kernel_rules import LIBC, PTRACE_DETACH, SECCOMP_RET_ERRNO, SYS_PIDFD_OPEN, as_nobody, check, install_filter
from watched_process import Target, Watcher, time_of

MIB = 1 << 20
PTRACE_TRACEME = 0
# What the kernel's counts of resident pages may lag behind, and what Python does besides.
SLACK = 2 * MIB


def near(number, expected, slack=SLACK):
    return abs(number - expected) <= slack


def is_rate(row, name, change):
    """Of the row's own interval, which is told in whole microseconds."""
    return near(row[name] * row["seconds"], change, 1 + 1e-6 * abs(row[name]))


def attach(heapsnap, target, folder):
    done = subprocess.run([heapsnap, "attach", str(target.pid), "-j", "-o", f"{folder}/attach.hsnap"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def report(heapsnap, snapshot):
    done = subprocess.run([heapsnap, "report", snapshot, "-j"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def rows(heapsnap, folder):
    """Growth, shrinking and threads are in the next line, by as much; rates are of the interval."""
    with Target() as target, Watcher(heapsnap, target) as watcher:
        before = watcher.row()
        assert "rss_per_s" not in before and "live_bytes" not in before, before
        assert before["rss"] == before["anonymous"] + before["file"] + before["shmem"], before
        grown = watcher.row_after(target.do("grow", 64 * MIB))
        assert near(grown["rss"] - before["rss"], 64 * MIB), (before, grown)
        assert near(grown["anonymous"] - before["anonymous"], 64 * MIB), (before, grown)
        assert 64 * MIB <= grown["mmapped_bytes"] - before["mmapped_bytes"] <= 64 * MIB + 8192, (before, grown)
        assert grown["mmapped_chunks"] == before["mmapped_chunks"] + 1, (before, grown)
        assert grown["growth"] == grown["rss"] + grown["swap"] - before["rss"] - before["swap"], grown
        quiet = watcher.row()
        assert abs(quiet["rss_per_s"]) * quiet["seconds"] < SLACK, quiet
        smaller = watcher.row_after(target.do("shrink"))
        assert near(smaller["rss"], before["rss"]), (before, smaller)
        assert min(row.get("rss_per_s", 0) for row in watcher.rows) < 0
        threads = watcher.row_after(target.do("thread", 3))
        assert threads["threads"] == before["threads"] + 3, (before, threads)
        for one, other in zip(watcher.rows, watcher.rows[1:]):
            assert is_rate(other, "rss_per_s", other["rss"] - one["rss"]), (one, other)
            assert near(other["seconds"], time_of(other) - time_of(one), 0.1), (one, other)
        # The process holds still: malloc's counters are those that a walk finds.
        walked = attach(heapsnap, target, folder)
        assert threads["arenas"] == len(walked["arenas"]) > 1, (threads, len(walked["arenas"]))
        assert threads["arena_bytes"] == sum(arena["system_mem"] for arena in walked["arenas"]), threads
        assert threads["mmapped_bytes"] == sum(malloc["mmapped_mem"] for malloc in walked["mallocs"]), threads
        watcher.stop()
        assert target.is_well()


def tracked(heapsnap, folder):
    """Of a tracked process also live bytes, churn and allocations, of the interval."""
    with Target(heapsnap, "run", "--") as target, Watcher(heapsnap, target) as watcher:
        before = watcher.row()
        grown = watcher.row_after(target.do("grow", 32 * MIB))
        assert near(grown["live_bytes"] - before["live_bytes"], 32 * MIB, MIB), (before, grown)
        assert grown["growth"] == grown["live_bytes"] - before["live_bytes"], (before, grown)
        smaller = watcher.row_after(target.do("shrink"))
        assert near(smaller["live_bytes"], before["live_bytes"], MIB), (before, smaller)
        assert near(smaller["freed_bytes"] - grown["freed_bytes"], 32 * MIB, MIB), (grown, smaller)
        for one, other in zip(watcher.rows, watcher.rows[1:]):
            moved = [row["allocated_bytes"] + row["freed_bytes"] for row in (one, other)]
            assert is_rate(other, "churn_per_s", moved[1] - moved[0]), (one, other)
            assert is_rate(other, "live_per_s", other["live_bytes"] - one["live_bytes"]), (one, other)
            assert is_rate(other, "allocations_per_s", other["allocations"] - one["allocations"]), (one, other)
        watcher.stop()
        # Much more was freed than is in use.
        _, lines = page(heapsnap, target, 2, {})
        assert lines[-1] == f"    heapsnap stacks {target.pid} --by function --sort churn", lines
        assert "allocated and freed again, much more than is in use" in " ".join(lines), lines
    # Its thresholds are of live bytes; memory that was live before the begin does not count.
    with Target(heapsnap, "run", "--") as target:
        _, lines = page(heapsnap, target, 2, {})
        assert lines[-3:] == ["What next", "  To see which code allocated what is in use:",
                              f"    heapsnap stacks {target.pid}"], lines
        target.do("grow", 8 * MIB)
        with Watcher(heapsnap, target, "--growth", "16MiB", "--count", "1", "-o", folder) as watcher:
            watcher.row()
            watcher.row_after(target.do("grow", 8 * MIB))
            assert not watcher.snapshots(), watcher.rows
            target.do("grow", 9 * MIB)
            taken = watcher.row_with("snapshot")
            assert near(taken["growth"], 17 * MIB, MIB) and taken["why"].startswith("grew by 1"), taken
            assert watcher.finish() == (0, "")
        assert "tracking" in report(heapsnap, taken["snapshot"])


def rss_over(heapsnap, folder):
    """One snapshot for each crossing, none for memory that stays over the limit or wavers about it."""
    with Target() as target:
        with Watcher(heapsnap, target) as watcher:
            limit = watcher.row()["rss"] + 80 * MIB
            watcher.stop()
        with Watcher(heapsnap, target, "--rss-over", str(limit), "-o", folder) as watcher:
            watcher.row()
            for crossing in (1, 2):
                watcher.row_after(target.do("grow", 76 * MIB))
                assert len(watcher.snapshots()) == crossing - 1, watcher.rows
                target.do("grow", 16 * MIB)
                taken = watcher.row_with("snapshot")
                assert limit < taken["rss"] and "over" in taken["why"] and taken["pause_ns"] > 0, taken
                # The look may have met it while it grew.
                size = report(heapsnap, taken["snapshot"])["rss"]["process_rss"]
                assert taken["rss"] - SLACK <= size <= taken["rss"] + 16 * MIB + SLACK, (size, taken)
                # It stays over the limit, and then goes a little below it (95 % of the limit is further down).
                watcher.row_after(target.do("grow", 16 * MIB))
                watcher.row_after(target.do("shrink", 2))
                watcher.row_after(target.do("grow", 16 * MIB))
                assert len(watcher.snapshots()) == crossing, watcher.rows
                watcher.row_after(target.do("shrink", 2))
            watcher.stop()
        assert len(list(pathlib.Path(folder).glob("*.hsnap"))) == 2
        # Over it at the first look.
        target.do("grow", 128 * MIB)
        with Watcher(heapsnap, target, "--rss-over", str(limit), "--count", "1", "-o", folder) as watcher:
            assert watcher.finish() == (0, "") and len(watcher.rows) == 1 and watcher.snapshots(), watcher.rows
        assert target.is_well()


def keep(heapsnap, folder):
    """Of its own snapshots the newest stay; what others put there, and what was changed, stays too."""
    folder = pathlib.Path(folder)
    (folder / "notes.txt").write_text("mine", encoding="ascii")
    with Target() as target:
        attach(heapsnap, target, folder)
        with Watcher(heapsnap, target, "--growth", "16MiB", "--count", "1", "-o", folder) as watcher:
            watcher.row()
            target.do("grow", 18 * MIB)
            earlier = [watcher.row_with("snapshot")["snapshot"]]
            assert watcher.finish() == (0, "")
        with Watcher(heapsnap, target, "--growth", "16MiB", "--keep", "2", "-o", folder) as watcher:
            watcher.row()
            for turn in range(5):
                target.do("grow", 18 * MIB)
                taken = watcher.row_with("snapshot")
                if turn == 1:  # somebody puts his own file in the place of one
                    replaced = pathlib.Path(watcher.snapshots()[0])
                    replaced.rename(folder / "moved.hsnap")
                    replaced.write_text("mine", encoding="ascii")
                assert ("notes" in taken) == (turn == 2), (turn, taken)
            assert re.search(f"{re.escape(str(replaced))} was not removed: ", watcher.notes()[0]), watcher.rows
            watcher.stop()
            expected = {"notes.txt", "attach.hsnap", "moved.hsnap", replaced.name}
            expected |= {os.path.basename(path) for path in earlier + watcher.snapshots()[-2:]}
        assert {path.name for path in folder.iterdir()} == expected, sorted(folder.iterdir())
        assert target.is_well()
    # Another process with the same folder: the numbers go on, the files of the first one stay.
    with Target() as target, Watcher(heapsnap, target, "--every", "1ms", "--keep", "1", "--count", "3", "-o",
                                     folder) as watcher:
        assert watcher.finish() == (0, ""), watcher.rows
        expected.add(os.path.basename(watcher.snapshots()[-1]))
    assert {path.name for path in folder.iterdir()} == expected, sorted(folder.iterdir())


def ends(heapsnap, folder):
    """The end of the process is told at once, whatever the interval; exit code 3."""
    for options in ([], ["--growth", "1GiB", "-o", folder]):
        with Target() as target, Watcher(heapsnap, target, *options, interval="2h") as watcher:
            watcher.row()
            target.kill()
            code, errors = watcher.finish()
            assert code == 3 and f"process {target.pid} (python3" in errors and "has ended" in errors, (code, errors)
            assert len(watcher.rows) == 1
            done = subprocess.run([heapsnap, "watch", str(target.pid)], capture_output=True, text=True, check=False)
            assert done.returncode == 3, done  # a zombie
    # Between two looks, and during snapshots.
    for _ in range(5):
        with Target() as target, Watcher(heapsnap, target, "--every", "1ms", "-o", folder, interval="1ms") as watcher:
            watcher.row_with("snapshot")
            target.kill()
            code, errors = watcher.finish()
            assert code == 3, (code, errors)
    check_whole(heapsnap, folder)


def no_pidfd(heapsnap, folder):
    """Where pidfd_open(2) is refused or unknown, as before Linux 5.3, the end of the process is noticed all the same."""
    for error in (errno.EPERM, errno.ENOSYS):
        how = {"preexec_fn": lambda error=error: install_filter({SYS_PIDFD_OPEN: SECCOMP_RET_ERRNO | error})}
        for reaped in (False, True):
            with Target() as target, Watcher(heapsnap, target, interval="2h", **how) as watcher:
                watcher.row()
                target.kill()
                if reaped:
                    target.process.wait()
                begin = time.monotonic()
                code, errors = watcher.finish()
                assert code == 3 and f"process {target.pid} (python3" in errors and "has ended" in errors, (code, errors)
                assert time.monotonic() - begin < 30 and len(watcher.rows) == 1
        with Target() as target:
            target.do("thread", 2)
            with Watcher(heapsnap, target, "--every", "1ms", "--count", "3", "-o", folder, **how) as watcher:
                assert watcher.finish() == (0, "") and len(watcher.snapshots()) == 3, watcher.rows
            assert target.is_well()
    check_whole(heapsnap, folder)


def interrupted(heapsnap, folder):
    """SIGINT ends it by the signal, in silence, after a whole line, with nothing left and the target as it was."""
    with Target() as target:
        for moment in range(6):
            with Watcher(heapsnap, target, "--every", "1ms", "-o", folder, interval="1ms") as watcher:
                for _ in range(1 + moment):
                    watcher.row_with("snapshot")
                watcher.stop()
            assert target.is_well()
        with Watcher(heapsnap, target, interval="2h") as watcher:
            watcher.row()
            watcher.stop()
    check_whole(heapsnap, folder)


def check_whole(heapsnap, folder):
    """Every snapshot can be read to its end, and there is no temporary file."""
    for path in pathlib.Path(folder).iterdir():
        assert not TEMPORARY.fullmatch(path.name), path
        if path.suffix == ".hsnap":
            report(heapsnap, path)


def no_stop(heapsnap, folder):
    """It makes no call of ptrace(2) and sends the process no signal, unless it takes a snapshot."""
    if not shutil.which("strace"):
        print("skipped: no strace")
        sys.exit(SKIP)

    def calls(target, *options):
        """Those that trace the process or send it a signal."""
        log = pathlib.Path(folder) / "calls"
        subprocess.run(["strace", "-f", "-q", "-e", "trace=ptrace,kill,tgkill,pidfd_send_signal", "-o", log, heapsnap,
                        "watch", str(target.pid), "--interval", "1ms", "-o", folder, *options],
                       stdout=subprocess.DEVNULL, check=True)
        text = log.read_text(encoding="ascii", errors="replace")
        return re.findall(rf"ptrace\(.*|kill\({target.pid}.*|pidfd_send_signal\(.*", text)

    with Target() as target:
        target.do("thread", 2)
        made = calls(target, "--count", "50")
        assert not made, made
        made = calls(target, "--count", "1", "--rss-over", "1")
        assert any(call.startswith("ptrace(PTRACE_SEIZE") for call in made), made
        assert target.is_well()


def page(heapsnap, target, count, environment):
    done = subprocess.run([heapsnap, "watch", str(target.pid), "--interval", "1ms", "--count", str(count)],
                          stdout=subprocess.PIPE, text=True, check=True, env=os.environ | environment)
    lines = done.stdout.splitlines()
    first = next(i for i, line in enumerate(lines) if re.match(r"\d{4}-", line))
    return lines[:first], lines[first:]


def table(heapsnap, _):
    """Columns line up under a header that repeats for each screen; fewer of them where it is narrow."""
    with Target() as target:
        titles = {}
        for width in (60, 80, 120):
            head, lines = page(heapsnap, target, 29, {"COLUMNS": str(width), "LINES": "13"})
            assert re.fullmatch(rf"Process {target.pid}: \S+ \(K, M, G: KiB, MiB, GiB\)", head[0]), head
            assert any(f"heapsnap inject {target.pid}" in line for line in head), head
            assert all(len(line) <= width for line in head + lines), (width, lines)
            assert lines[-4:] == ["", "What next", "  To see what its memory is used for:",
                                  f"    heapsnap attach {target.pid}"], lines[-4:]
            del lines[-4:]
            headers = [i for i, line in enumerate(lines) if re.match(r"\d{4}-\d\d-\d\d ", line)]
            assert headers == [0, 11, 22] and len(lines) == 33, headers
            ends_of = [[found.end() for found in re.finditer(r"\S+", line)][1:] for line in lines]
            assert all(each == ends_of[0] for each in ends_of), (width, lines)
            titles[width] = lines[0].split()[1:]
            assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3}Z ", line) for i, line in enumerate(lines) if i not in headers)
        assert titles[120] == ["rss", "rss/s", "anon", "file", "shmem", "swap", "thr", "malloc", "arenas"], titles
        assert titles[60][:2] == ["rss", "rss/s"] and len(titles[60]) < len(titles[80]) <= len(titles[120]), titles


def next_step(heapsnap, folder):
    """For people, every end but Ctrl-C leads on, and the first lines say where that leads."""
    def watch(target, *options):
        return subprocess.Popen([heapsnap, "watch", str(target.pid), "--interval", "5ms", "-o", folder, *options],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "200"})

    def follow(output, expected):
        _, found, tail = output.partition("\nWhat next\n")
        commands = [line.strip() for line in tail.splitlines() if line.startswith("    ")]
        assert found and len(commands) == len(expected), output
        for command, begin in zip(commands, expected):
            assert command.startswith(begin), (command, begin)
            if "COMMAND" not in command:
                subprocess.run([heapsnap, *command.split()[1:]], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        return commands

    with Target() as target:
        # --keep leaves the last two of three.
        for options, commands in ((("--count", "1"), ["heapsnap report "]),
                                  (("--count", "3", "--keep", "2"), ["heapsnap report ", "heapsnap history "])):
            with watch(target, "--every", "1ms", *options) as process:
                output, errors = process.communicate(timeout=60)
            assert process.returncode == 0 and "Ctrl-C" not in output, (output, errors)
            follow(output, commands)
        with watch(target) as process:
            lines = [process.stdout.readline() for _ in range(4)]
            assert any(f"Ctrl-C ends this; heapsnap attach {target.pid} then shows" in line for line in lines), lines
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        with watch(target) as untouched, watch(target, "--rss-over", "1") as taking:
            untouched.stdout.readline()
            while ".hsnap" not in taking.stdout.readline():
                pass
            target.kill()
            for process, commands in ((untouched, ["heapsnap run --at-exit last.hsnap -- COMMAND"]),
                                      (taking, ["heapsnap report "])):
                output, errors = process.communicate(timeout=60)
                assert process.returncode == 3 and "has ended" in errors, (output, errors)
                follow(output, commands)


def busy(heapsnap, folder):
    """While another heapsnap works in the process it takes no snapshot, says so, and takes it afterwards."""
    with Target() as target:
        with open(f"/proc/{target.pid}/mem", "rb") as memory:
            fcntl.flock(memory, fcntl.LOCK_EX)
            with Watcher(heapsnap, target, "--rss-over", "1", "--count", "1", "-o", folder) as watcher:
                noted = watcher.row()
                assert "snapshot" not in noted, noted
                assert noted["notes"] == [f"no snapshot at this look: another heapsnap (process {os.getpid()}) is "
                                          "working in it"], noted
                fcntl.flock(memory, fcntl.LOCK_UN)
                assert watcher.finish() == (0, "") and len(watcher.snapshots()) == 1, watcher.rows
        assert target.is_well()


def full_disk(heapsnap, folder):
    """A disk that is full is reported, watch goes on, and takes the snapshot when there is room; nothing is left."""
    disk = pathlib.Path(folder, "disk")
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if done.returncode != 0:
        print("skipped: no file system can be mounted here:", done.stderr.decode().strip())
        sys.exit(SKIP)
    try:
        with Target() as target:
            ballast = disk / "ballast"
            with open(ballast, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass
            with Watcher(heapsnap, target, "--rss-over", "1", "--count", "1", "-o", str(disk)) as watcher:
                noted = [watcher.row_with("notes") for _ in range(2)]
                for row, wait in zip(noted, (1, 2)):
                    (note,) = row["notes"]
                    assert note.startswith(f"no snapshot: cannot write {disk}/") and "ENOSPC" in note, note
                    assert f"tried again in {wait} s; do: free some space" in note, note
                assert time_of(noted[1]) - time_of(noted[0]) >= 1, noted
                assert os.listdir(disk) == ["ballast"] and not watcher.snapshots()
                ballast.unlink()
                assert watcher.finish() == (0, ""), watcher.rows
            (path,) = watcher.snapshots()
            assert path.endswith(".1.hsnap") and os.listdir(disk) == [os.path.basename(path)], path
            check_whole(heapsnap, disk)
            assert target.is_well()
    finally:
        subprocess.run(["umount", disk], check=True)


def executes(heapsnap, folder):
    """A process that executes another program is watched on: that is told, and growth counts from there."""
    with Target() as target, Watcher(heapsnap, target, "--growth", "16MiB", "-o", folder) as watcher:
        watcher.row_after(target.do("grow", 12 * MIB))
        watcher.row_after(target.do("execute"))
        noted = [row for row in watcher.rows if "notes" in row]
        assert len(noted) == 1 and noted[0]["notes"][0].startswith("it executed another program: "), noted
        assert "rss_per_s" not in noted[0], noted
        following = watcher.row()
        grown = following["rss"] + following["swap"] - noted[0]["rss"] - noted[0]["swap"]
        assert following["arenas"] >= 1 and following["growth"] == grown, (noted, following)
        assert not watcher.snapshots(), watcher.rows
        watcher.stop()


def just_started(heapsnap, _):
    """A process that was stopped before its C library was loaded: malloc's counters come when it goes on."""
    def stop():
        LIBC.ptrace(PTRACE_TRACEME, 0, None, None)

    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=stop)
    try:
        os.waitpid(process.pid, os.WUNTRACED)  # at the entry of the program, which the loader has yet to run
        with Watcher(heapsnap, types.SimpleNamespace(pid=process.pid), interval="5ms") as watcher:
            assert "arenas" not in watcher.row(), watcher.rows
            check(LIBC.ptrace(PTRACE_DETACH, process.pid, None, None))
            process.stdin.write(b"x")
            process.stdin.flush()
            process.stdout.read(1)
            assert watcher.row_with("arenas")["arenas"] >= 1, watcher.rows
            watcher.stop()
    finally:
        process.kill()
        process.communicate()


def not_permitted(heapsnap, folder):
    """Where its memory may not be read, /proc says the rest; what needs an attach is refused before the first line."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("skipped: not root, or no setpriv")
        sys.exit(SKIP)
    os.chmod(folder, 0o777)
    with Target() as target:
        command = as_nobody([heapsnap, "watch", str(target.pid), "--interval", "1ms", "--count", "1"])
        done = subprocess.run([*command, "-j"], capture_output=True, text=True, check=True)
        row = json.loads(done.stdout.splitlines()[0])
        assert row["rss"] > MIB and row["threads"] == 1 and "arenas" not in row, row
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "malloc's counters cannot be read: " in done.stdout and " malloc " not in done.stdout, done.stdout
        assert "not tracked" not in done.stdout, done.stdout  # which nobody knows
        done = subprocess.run([*command, "--rss-over", "1", "-o", folder], capture_output=True, text=True, check=False)
        assert done.returncode == 4 and not done.stdout and "do:" in done.stderr, done


def refused(heapsnap, folder):
    """What cannot be done is said before anything is."""
    with Target() as target:
        for options, code, words in ((["--keep", "3"], 2, "--keep"), (["--churn", "1MiB"], 5, "not tracked"),
                                     (["--format", "churnlog", "--every", "1s"], 5, "not tracked"),
                                     (["--format", "churnlog", "--every", "1s", "-j"], 2, "--json"),
                                     (["--rss-over", "much"], 2, "--rss-over"),
                                     (["--rss-over", "1", "-o", f"{folder}/none"], 7, "create the folder first")):
            done = subprocess.run([heapsnap, "watch", str(target.pid), *options], capture_output=True, text=True,
                                  check=False)
            assert done.returncode == code and words in done.stderr and not done.stdout, (options, done)


def cost(heapsnap, _):
    """A look costs less than 1 ms of processor time, however many threads there are."""
    def used(target, count):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([heapsnap, "watch", str(target.pid), "-j", "--interval", "5ms", "--count", str(count)],
                       stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    with Target() as target:
        for threads in (0, 200):
            target.do("thread", threads)
            begin = used(target, 1)
            look = (used(target, 401) - begin) / 400
            print(f"{1 + threads} threads: {begin * 1e3:.0f} ms to begin, {look * 1e6:.0f} us a look")
            assert look <= 1e-3, look


def main():
    case, heapsnap = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="heapsnap-watching-") as folder:
        globals()[case](heapsnap, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
