#!/usr/bin/env python3
"""heapsnap collect when the machine, the disk or others are in its way.

    collect_faults.py CASE HEAPSNAP
"""

import contextlib
import errno
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from collect_store import SKIP, TEMPORARY, Program, run_case


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIP)


def need_root():
    if os.geteuid() != 0:
        skip("it takes root")


@contextlib.contextmanager
def mounted(where, kind, *options, source=None):
    where.mkdir()
    words = ["-o", ",".join(options)] if options else []
    done = subprocess.run(["mount", "-t", kind, *words, source or kind, where], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        skip(f"no {kind} can be mounted here: {done.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", where], check=True)


def by_hand(store):
    """Never two attaches to one process: collect passes a process over that somebody attaches to, and attach waits."""
    with Program(200000) as program:
        store.configure({"web": store.pid_file(program)})
        attach = [store.heapsnap, "attach", str(program.pid), "-q", "-o"]
        # It holds the process as long as nobody reads what it writes.
        with subprocess.Popen([*attach, "-"], stdout=subprocess.PIPE, pipesize=4096) as reader:
            assert reader.stdout.read(1)
            lines, code = store.lines()
            assert code == 5 and lines["web"]["result"] == "failed", lines
            holder = re.search(r"another heapsnap \(process (\d+)\) is working in it", lines["web"]["why"])
            assert pathlib.Path(f"/proc/{holder[1]}/exe").samefile(store.heapsnap), lines
            assert lines["web"]["remedy"] and not store.snapshots()
            second = subprocess.Popen([*attach, str(store.folder / "b.hsnap")])
            time.sleep(0.5)
            assert second.poll() is None
            assert len(reader.stdout.read()) > 2 * 4096, "the pipe took it all"
            assert reader.wait(timeout=60) == 0 and second.wait(timeout=60) == 0
        assert program.is_well()
        lines, code = store.lines()
        assert code == 0 and lines["web"]["result"] == "collected", lines


def file_systems(store):
    """A store on another file system than everything else, whatever that can do."""
    need_root()
    with Program() as program, contextlib.ExitStack() as stack:
        places = {"tmpfs": stack.enter_context(mounted(store.folder / "tmpfs", "tmpfs", "size=16m")),
                  "ramfs": stack.enter_context(mounted(store.folder / "ramfs", "ramfs"))}
        upper, work = places["tmpfs"] / "upper", places["tmpfs"] / "work"
        upper.mkdir()
        work.mkdir()
        places["overlay"] = stack.enter_context(mounted(
            store.folder / "overlay", "overlay", f"lowerdir={store.folder}", f"upperdir={upper}", f"workdir={work}"))
        image = store.folder / "image"
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        if subprocess.run(["mkfs.ext2", "-q", image], capture_output=True, check=False).returncode == 0:
            places["ext2"] = stack.enter_context(mounted(store.folder / "ext2", "ext2", "loop", source=image))
        for kind, place in places.items():
            store.store = place / "store"
            store.configure({"web": store.pid_file(program) + '\nwhen = { every = "1h" }'})
            lines, code = store.lines()
            assert code == 0 and lines["web"]["result"] == "collected", (kind, lines)
            lines, code = store.lines()
            assert code == 0 and lines["web"]["result"] == "not due", (kind, lines)
            store.check_whole()
        assert program.is_well()
        print("stores on", *places)


@contextlib.contextmanager
def without_tmpfile(store):
    """A file system that knows neither O_TMPFILE nor RENAME_NOREPLACE: FUSE, without a file system's own support."""
    need_root()
    if shutil.which("bindfs") is None:
        skip("there is no bindfs here, and no other file system without O_TMPFILE")
    below, place = store.folder / "below", store.folder / "fuse"
    below.mkdir()
    place.mkdir()
    done = subprocess.run(["bindfs", "-o", "nonempty", below, place], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        skip(f"nothing can be mounted by FUSE here: {done.stderr.strip()}")
    try:
        try:
            os.close(os.open(place, os.O_TMPFILE | os.O_WRONLY))
        except OSError as error:
            assert error.errno == errno.EOPNOTSUPP, error
        else:
            skip("FUSE knows O_TMPFILE here")
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def no_unnamed_files(store):
    """Collect, prune and attach where a file that is being written has a name: none is left, also by a collect that was
    killed, and what is being written by another one stays."""
    with without_tmpfile(store) as place, Program(100000) as program:
        store.store = place / "store"
        store.configure({"web": store.pid_file(program)}, "keep = { last = 1 }")
        assert store.lines()[1] == 0 and len(store.snapshots()) == 1
        store.check_whole()
        left = 0

        def temporaries():
            return [path.name for path in store.place().iterdir() if TEMPORARY.fullmatch(path.name)]

        for _ in range(8):
            collector = subprocess.Popen(store.command(), stdout=subprocess.DEVNULL, start_new_session=True)
            # Each begins with the removal of what the one before has left.
            before = set(temporaries())
            while not set(temporaries()) - before and collector.poll() is None:
                pass
            if collector.poll() is None:
                os.killpg(collector.pid, signal.SIGKILL)
            collector.wait()
            left += bool(set(temporaries()) - before)
            time.sleep(1.02)  # a name has whole seconds
        assert left > 0, "no collect was killed while it wrote"
        # One that is written now is open.
        in_use = store.place() / ".heapsnap-0123456789abcdef.tmp"
        with open(in_use, "wb"):
            deadline = time.monotonic() + 10
            while not program.is_well(after_a_kill=True):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            time.sleep(1.1)  # a name has whole seconds
            lines, code = store.lines()
            assert code == 0 and lines["web"]["result"] == "collected", lines
            assert temporaries() == [in_use.name], temporaries()
        time.sleep(1.1)
        assert store.lines()[1] == 0
        store.check_whole()
        done = subprocess.run([store.heapsnap, "prune", "--config", str(store.config)], capture_output=True, text=True,
                              check=True)
        assert len(store.snapshots()) == 1, done
        attach = [store.heapsnap, "attach", str(program.pid), "-q", "-o", str(place / "a.hsnap")]
        assert subprocess.run(attach, capture_output=True, check=False).returncode == 0
        first = (place / "a.hsnap").read_bytes()
        assert subprocess.run(attach, capture_output=True, check=False).returncode == 2
        assert (place / "a.hsnap").read_bytes() == first
        assert subprocess.run([*attach, "-f"], capture_output=True, check=False).returncode == 0
        assert sorted(path.name for path in place.iterdir()) == ["a.hsnap", "store"] and program.is_well()
        print(left, "temporary files of killed collects were removed")


def read_only(store):
    """Exit code 7 with what to do, and the target is not touched."""
    need_root()
    with mounted(store.folder / "disk", "tmpfs", "size=1m") as place, Program() as program:
        store.store = place / "store"
        store.configure({"web": store.pid_file(program)})
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        done = store.run()
        assert done.returncode == 7 and "Read-only file system" in done.stderr and "do:" in done.stderr, done
        assert program.is_well()


def full_disk(store):
    """Skipped while the store's disk is fuller than disk_below or has no inodes, with exit code 1 and the reason."""
    need_root()
    with Program() as program:
        with mounted(store.folder / "full", "tmpfs", "size=1m") as place:
            store.store = place / "store"
            store.configure({"web": store.pid_file(program)}, 'skip = { disk_below = "40%" }')
            ballast = place / "ballast"
            ballast.write_bytes(bytes(700 << 10))
            lines, code = store.lines()
            assert code == 1 and lines["web"]["result"] == "skipped", lines
            assert "is free on the store's file system, less than disk_below = " in lines["web"]["why"], lines
            assert not store.snapshots()
            ballast.unlink()
            assert store.lines()[1] == 0 and len(store.snapshots()) == 1
        with mounted(store.folder / "inodes", "tmpfs", "size=1m", "nr_inodes=8") as place:
            store.store = place / "store"
            store.configure({"web": store.pid_file(program)})
            (store.store / store.host / "web").mkdir(parents=True)
            for number in range(8):
                with contextlib.suppress(OSError):
                    (place / str(number)).write_bytes(b"")
            lines, code = store.lines()
            assert code == 1 and "has no inodes left" in lines["web"]["why"], lines


def pressure(store):
    """Skipped while the machine has more pressure than the configuration allows."""
    path = pathlib.Path("/proc/pressure/cpu")
    try:
        path.read_bytes()
    except OSError:
        skip("this kernel tells no pressure")
    with Program() as program:
        store.configure({"web": store.pid_file(program)}, 'skip = { cpu_pressure_over = "1%", memory_below = 1, '
                        'memory_pressure_over = "100%", io_pressure_over = "100%" }')
        loops = [subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", "while True: pass"])
                 for _ in range(2 * os.cpu_count())]
        try:
            deadline = time.monotonic() + 20
            while "some avg10=0." in path.read_text(encoding="ascii"):
                if time.monotonic() > deadline:
                    skip("no pressure can be made here")
                time.sleep(0.2)
            lines, code = store.lines()
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        assert code == 1 and lines["web"]["result"] == "skipped", lines
        assert "cpu pressure is " in lines["web"]["why"] and "over cpu_pressure_over = 1 %" in lines["web"]["why"], lines
        assert not store.snapshots() and program.is_well()


def restart_in_pass(store):
    """A target that is replaced while another one is collected: said, and the next run takes the new one."""
    with Program(600000) as large:
        with Program() as program:
            store.configure({"large": store.pid_file(large, "large"), "web": store.pid_file(program)})
            collector = subprocess.Popen(store.command("-j"), stdout=subprocess.PIPE, text=True)
            while not store.place("large").exists():
                assert collector.poll() is None
                time.sleep(0.001)
        with Program() as again:
            store.pid_file(again)
            said = collector.communicate(timeout=60)[0].splitlines()
            assert collector.returncode in (0, 3) and len(said) == 2, said
            assert '"result":"collected"' in said[0], said
            assert '"result":"absent"' in said[1] or f'"pid":{again.pid}' in said[1], said
            print(said[1])
            if '"result":"absent"' in said[1]:
                lines, code = store.lines()
                assert code == 0 and lines["web"]["pid"] == again.pid, lines
            assert len(store.snapshots()) == 1
            store.check_whole()


def no_memory(store):
    """Snapshots whose processes run out of memory: told, each by itself, nothing is left, and the next run goes on."""
    need_root()
    group = pathlib.Path("/sys/fs/cgroup/memory") / f"heapsnap-faults-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        skip("no control group of the memory controller can be made here")
    try:
        with Program() as one, Program() as other:
            store.configure({"one": store.pid_file(one, "one"), "web": store.pid_file(other)})
            (group / "memory.limit_in_bytes").write_text(str(8 << 20))
            done = subprocess.run(["sh", "-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"", group, *store.command()],
                                  capture_output=True, text=True, check=False)
            said = done.stdout.splitlines()
            assert done.returncode == 5 and len(said) == 2, done
            for line, name in zip(said, ("one", "web")):
                assert line.startswith(f"{name}: failed: ") and "heapsnap was killed: by SIGKILL" in line, said
                assert f"{group.name} may have 8 MiB; do: raise the limit of that group" in line, said
            assert not store.snapshots("one") and not store.snapshots()
            store.check_whole()
            deadline = time.monotonic() + 10
            while not all(each.is_well(after_a_kill=True) for each in (one, other)):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            lines, code = store.lines()
            assert code == 0 and {line["result"] for line in lines.values()} == {"collected"}, lines
            assert one.is_well() and other.is_well()
    finally:
        group.rmdir()


if __name__ == "__main__":
    sys.exit(run_case(globals()))
