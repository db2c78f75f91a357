#!/usr/bin/env python3
"""heapsnap prune: what it keeps, and that it removes nothing that collect did not write.

    prune.py CASE HEAPSNAP SHIFTED_CLOCK
"""

import json
import os
import shutil
import subprocess
import sys
import time

from collect_store import SKIP, Program, run_case
from kernel_rules import as_nobody

DAY = 24 * 3600


def prune(store, *options):
    done = subprocess.run([store.heapsnap, "prune", "--config", str(store.config), *options], capture_output=True,
                          text=True, check=False)
    return done


def collected(store, program, count, name="web"):
    """So many snapshots, oldest first."""
    while len(store.snapshots(name)) < count:
        lines, code = store.lines()
        assert code == 0, lines
        time.sleep(1.02)  # a name has whole seconds
    return store.snapshots(name)


def keeps(store):
    """last, max_bytes and max_age, over two targets; a dry run removes nothing."""
    with Program() as program:
        targets = {"web": store.pid_file(program)}
        store.configure(targets)
        files = collected(store, program, 4)
        done = prune(store)
        assert done.returncode == 0 and "it has no keep, so every snapshot is kept" in done.stdout, done
        store.configure(targets, "keep = { last = 2 }")
        done = prune(store, "--dry-run")
        assert done.returncode == 0 and store.snapshots() == files, done
        for path in files[:2]:
            assert f"would remove {path}: no count of keep holds it" in done.stdout, done.stdout
        done = prune(store, "-j")
        row = json.loads(done.stdout)
        assert row["snapshots"] == 4 and [removed["snapshot"] for removed in row["removed"]] == list(map(str, files[:2]))
        assert store.snapshots() == files[2:], store.snapshots()
        assert prune(store).stdout.startswith("web: 2 snapshots of "), prune(store).stdout
        store.configure(targets, f"keep = {{ max_bytes = {files[3].stat().st_size} }}")
        assert prune(store).returncode == 0 and store.snapshots() == files[3:]
        time.sleep(2)
        store.configure(targets, 'keep = { max_age = "1s" }')
        assert prune(store).returncode == 0 and store.snapshots() == files[3:]  # the newest never goes


def clock_back(store):
    """Snapshots of a clock that was ahead stay and are told, and what is collected after them is kept as ever."""
    with Program() as program:
        store.configure({"web": store.pid_file(program)}, "keep = { last = 2 }")
        for shift in (DAY, 2 * DAY):
            assert store.run(env=store.clock_ahead_by(shift)).returncode == 0
        ahead = store.snapshots()
        new = [path for path in collected(store, program, 5) if path not in ahead]
        done = prune(store, "-j")
        row = json.loads(done.stdout)
        assert store.snapshots() == new[1:] + ahead, (new, ahead, store.snapshots(), row)
        assert [removed["snapshot"] for removed in row["removed"]] == [str(new[0])], row
        why = "its time is in the future: the clock was set back"
        assert row["left_alone"] == [{"name": path.name, "why": why} for path in ahead], row


def edited(store):
    """A store that was edited by hand: links, folders, copies, others' files and damaged ones stay."""
    with Program() as program:
        store.configure({"web": store.pid_file(program)}, "keep = { last = 1 }")
        first, second, newest = collected(store, program, 3)
        place = store.place()
        other = place.parent / "other"
        other.mkdir()
        copied = other / first.name  # a copy in another folder
        shutil.copy(first, copied)
        stays = [copied]
        renamed = place / f"20200101T000000Z-{program.pid}.hsnap"  # a copy with another time
        shutil.copy(first, renamed)
        notes = place / "notes.txt"
        notes.write_text("somebody's", encoding="utf-8")
        folder = place / f"20200102T000000Z-{program.pid}.hsnap"
        folder.mkdir()
        (folder / "inside").write_text("somebody's", encoding="utf-8")
        outside = store.folder / "outside.hsnap"
        shutil.copy(first, outside)
        link = place / f"20200103T000000Z-{program.pid}.hsnap"
        link.symlink_to(outside)
        fifo = place / f"20200104T000000Z-{program.pid}.hsnap"
        os.mkfifo(fifo)
        fake = place / f"20200105T000000Z-{program.pid}.hsnap"
        fake.write_bytes(b"HEAPSNAP" + bytes(1000))
        by_hand = place / f"20200106T000000Z-{program.pid}.hsnap"
        subprocess.run([store.heapsnap, "attach", str(program.pid), "-q", "-o", by_hand], check=True)
        damaged = second
        damaged.write_bytes(damaged.read_bytes()[:-7])
        (place.parent / "linked").symlink_to(place)  # the folder again, by another name
        (store.store / "otherhost").symlink_to(place.parent)
        stays += [renamed, notes, folder, folder / "inside", outside, link, fifo, fake, by_hand, damaged, newest]
        for options in ([], ["--all-hosts"]):
            done = prune(store, *options)
            assert done.returncode == 0 and not done.stderr, done
            for path in stays:
                assert path.is_symlink() or path.exists(), (path, done.stdout)
            assert not first.exists(), done.stdout
        rows = [json.loads(line) for line in prune(store, "-j").stdout.splitlines()]
        left = {entry["name"] for row in rows for entry in row["left_alone"] if row["target"] == "web"}
        assert left == {path.name for path in stays if path.parent == place and path != newest}, left
        odd = {entry["name"] for row in rows for entry in row["left_alone"] if row["target"] == ""}
        assert odd == {"linked"}, rows
        assert f"{store.host}/: 1 left alone: linked (it is no folder of a target)" in prune(store).stdout


def no_folder(store):
    """A store without anything of this host, and a link in place of its folder: both are told, and nothing is touched."""
    with Program() as program:
        store.configure({"web": store.pid_file(program)}, "keep = { last = 1 }")
        store.store.mkdir()
        said = prune(store)
        assert said.returncode == 0 and said.stdout == f"{store.store}: there are no snapshots of this host ({store.host})\n", said
        assert not prune(store, "-j").stdout
        files = collected(store, program, 2)
        elsewhere = store.folder / "elsewhere"
        (store.store / store.host).rename(elsewhere)
        (store.store / store.host).symlink_to(elsewhere)
        said = prune(store)
        assert said.returncode == 0 and f"{store.host}/: 1 left alone: {store.host} (it is no folder of a host)" in said.stdout, said
        assert all(path.exists() for path in files), files


def many_folders(store):
    """More targets than this process may open files: each of them is pruned."""
    with Program() as program:
        store.configure({"web": store.pid_file(program)}, "keep = { last = 1 }")
        for number in range(150):
            (store.place().parent / f"a{number:03}").mkdir(parents=True)
        first, newest = collected(store, program, 2)
        command = ["prlimit", "--nofile=100", store.heapsnap, "prune", "--config", str(store.config), "-j"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(rows) == 151 and not any(row["failure"] for row in rows), (len(rows), rows[-1])
        assert store.snapshots() == [newest] and not first.exists()


def unreadable(store):
    """A folder that may not be opened is told, with exit code 7, and the others are pruned."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("skipped: not root, or no setpriv")
        sys.exit(SKIP)
    store.configure({"web": 'process = "no"'}, "keep = { last = 1 }")
    os.chmod(store.folder, 0o755)
    for name in ("closed", "open"):
        store.place(name).mkdir(parents=True)
        store.place(name).chmod(0o700 if name == "closed" else 0o755)
    command = as_nobody([store.heapsnap, "prune", "--config", str(store.config)])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7 and "closed: its folder cannot be opened: Permission denied (EACCES)" in done.stdout, done
    assert "open: 0 snapshots of 0 B, 0 removed" in done.stdout, done
    # Whether a snapshot that may not be read is to be kept is not known.
    with Program() as program:
        store.configure({"web": store.pid_file(program)}, "keep = { last = 1 }")
        (snapshot,) = collected(store, program, 1)
    store.place().chmod(0o755)
    shutil.rmtree(store.place("closed"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7 and f"1 left alone: {snapshot.name} (Permission denied (EACCES))" in done.stdout, done
    told = subprocess.run([*command[:-3], "history", "web", *command[-2:]], capture_output=True, text=True, check=False)
    assert told.returncode == 6 and "check the path and that you may read it" in told.stderr, told
    store.place().parent.chmod(0o700)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7 and f"{store.host}/: its folder cannot be opened: Permission denied (EACCES)" in done.stdout, done
    store.store.chmod(0o700)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7 and "do:  run it as a user who may read the store, or with sudo\n" in done.stderr, done


if __name__ == "__main__":
    sys.exit(run_case(globals()))
