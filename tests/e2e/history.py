#!/usr/bin/env python3
"""heapsnap history: the slope of a leak, restarts and upgrades, and what it writes for machines.

    history.py CASE HEAPSNAP [HOLDER LEAKING MODULE]
"""

import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import sys
import time

import diff
import reference_sources
from collect_store import SKIP, Program, Store
from kernel_rules import as_nobody


def history(store, *options, code=0, **how):
    done = subprocess.run([store.heapsnap, "history", *map(str, options)], capture_output=True, text=True, check=False, **how)
    assert done.returncode == code, done
    return done.stdout or done.stderr


def attach(store, pid, path):
    subprocess.run([store.heapsnap, "attach", str(pid), "-q", "-o", str(path)], check=True, capture_output=True)


def leak(store, count, size, folder="leak"):
    """Snapshots of a program that allocates so many bytes between them; of each, the times between which it was taken
    and what the program had allocated."""
    place = store.folder / folder
    place.mkdir()
    counted = []
    with Program() as program:
        for turn in range(count):
            before = time.time()
            attach(store, program.pid, place / f"{turn:03}.hsnap")
            counted.append((before, time.time(), turn * size))
            program.grow(size)
            time.sleep(0.3)
    return place, counted


def slope_of(points, counted):
    """Least squares, of what the program says of itself, over the snapshots' times, which are true."""
    times = [datetime.datetime.fromisoformat(point["time"].replace("Z", "+00:00")).timestamp() for point in points]
    assert len(times) == len(counted)
    for at, (before, after, _) in zip(times, counted):
        assert before - 0.001 <= at <= after, (before, at, after)
    values = [value for _, _, value in counted]
    mean_time, mean = statistics.mean(times), statistics.mean(values)
    return (sum((at - mean_time) * (value - mean) for at, value in zip(times, values))
            / sum((at - mean_time) ** 2 for at in times))


OWN_TIME = ("--least-span", "1ms")  # the programs of these tests run for seconds


def hasty(store):
    """Seconds of snapshots tell no trend, whatever the slope: no rate a day, no forecast, no alarm."""
    place, _ = leak(store, 6, 3 << 20)
    text = history(store, place, "--fail-on-growth")
    assert "too short a time to tell a trend" in " ".join(text.split()) and "/minute" in text, text
    assert "/day" not in text and "forecast" not in text and "95 %:" not in text, text
    row = json.loads(history(store, place, "-j"))
    assert row["trend"] == "too-short" and not row["grows"] and "forecast" not in row, row
    assert 0 < row["observed_seconds"] < 60 and row["change"] > 10 << 20, row
    metrics = history(store, place, "--textfile", "-")
    assert re.search(r'^heapsnap_grows\{target="[^"]*"\} 0$', metrics, re.M), metrics
    assert "\nheapsnap_resident_growth_bytes_per_second{" not in metrics, metrics


def leaky(store):
    """The slope is within 5 % of what the program counts itself; the block size that grows is named."""
    place, counted = leak(store, 10, 3 << 20)
    row = json.loads(history(store, place, "-j", *OWN_TIME))
    own = slope_of(row["points"], counted) * 86400
    resident = row["series"][0]
    assert resident["of"] == "resident" and len(resident["values"]) == 10, resident
    slope = resident["slope"]
    print(f"own count {own:.0f}, found {slope['per_day']:.0f} bytes a day ({slope['per_day'] / own - 1:+.1%})")
    assert abs(slope["per_day"] - own) <= 0.05 * own, (slope, own)
    assert slope["low_per_day"] <= slope["per_day"] <= slope["high_per_day"], slope
    assert row["grows"] and row["restarts"] == 0 and len(row["runs"]) == 1, row
    fastest = {(each["of"], each["name"]) for each in row["series"][1:6]}
    assert ("account", "mmapped") in fastest and any(of == "size" for of, _ in fastest), fastest
    # The memory of this machine lasts for longer than 10 times the seconds that the leak was observed.
    assert row["trend"] == "grows" and "forecast" not in row, row
    text = history(store, place, *OWN_TIME)
    assert "grows by " in text and "▁" in text and "█" in text and "forecast   none: " in text, text
    assert "used by the program" in text, text  # as the report calls it
    assert max(map(len, text.splitlines())) <= 80, text
    history(store, place, "--fail-on-growth", *OWN_TIME, code=1)
    history(store, place, "--fail-on-growth", "--tolerance", "1000TiB", *OWN_TIME)


def passed_over(store):
    """What is called a snapshot in a folder and is no file is named, and nothing else of the folder is read."""
    place = store.folder / "mixed"
    place.mkdir()
    (store.folder / "none").mkdir()
    with Program() as program:
        attach(store, program.pid, place / "0.hsnap")
        attach(store, program.pid, store.folder / "elsewhere.hsnap")
    os.mkfifo(place / "fifo.hsnap")
    (place / "folder.hsnap").mkdir()
    (place / "gone.hsnap").symlink_to("nowhere")
    (place / "link.hsnap").symlink_to(store.folder / "elsewhere.hsnap")
    (place / "notes.txt").write_text("somebody's", encoding="ascii")
    row = json.loads(history(store, place, "-j"))
    link, no_file = "it is a symbolic link", "it is no regular file"
    expected = {"fifo": no_file, "folder": no_file, "gone": link, "link": link}
    assert row["unread"] == [f"{place}/{name}.hsnap: {why}" for name, why in expected.items()], row
    assert len(row["runs"]) == 1 and row["runs"][0]["snapshots"] == 1, row
    assert "\n  snapshots  1, of 20" in history(store, place)
    (place / "copy.hsnap").write_bytes((place / "0.hsnap").read_bytes())
    assert len(json.loads(history(store, place, place / "0.hsnap", "-j"))["points"]) == 1, "a copy is no other snapshot"
    assert f"there are no snapshots in {store.folder / 'none'}" in history(store, store.folder / "none", code=6)
    for name in ("copy", "0"):
        (place / f"{name}.hsnap").unlink()
    told = history(store, place, code=6)
    assert f"no snapshot can be read: {place}/link.hsnap: {link}" in told, told


def steady(store):
    """What does not grow is not told to, and few snapshots make nothing sure."""
    place = store.folder / "steady"
    place.mkdir()
    with Program() as program:
        for turn in range(7):
            attach(store, program.pid, place / f"{turn}.hsnap")
    row = json.loads(history(store, place, "-j", *OWN_TIME))
    assert not row["grows"] and "forecast" not in row, row
    history(store, place, "--fail-on-growth", *OWN_TIME)
    files = sorted(place.iterdir())
    assert "too few snapshots" in history(store, files[0]), files
    damaged = files[2]
    damaged.write_bytes(damaged.read_bytes()[:500])
    text = history(store, *files)
    assert str(damaged) in text.replace("\n             ", "") and "6 in" in text, text
    history(store, damaged, code=6)
    history(store, store.folder / "nowhere.hsnap", code=6)


def restarts(store):
    """A restart and an upgrade of the program are told apart, and neither is shrinking."""
    server = store.folder / "server"
    place = store.folder / "runs"
    place.mkdir()
    for turn, program in enumerate(("cat", "cat", "tee")):
        shutil.copy(shutil.which(program), store.folder / "new")
        os.replace(store.folder / "new", server)
        process = subprocess.Popen([server], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        try:
            for each in range(2):
                attach(store, process.pid, place / f"{turn}{each}.hsnap")
        finally:
            process.stdin.close()
            process.wait()
    row = json.loads(history(store, place, "-j"))
    assert [run["begin"] for run in row["runs"]] == ["first", "restart", "upgrade"], row["runs"]
    assert row["restarts"] == 1 and row["upgrades"] == 1, row
    builds = [run["build_id"] for run in row["runs"]]
    assert builds[0] == builds[1] != builds[2] and all(builds), builds
    narrow = history(store, place, env=os.environ | {"COLUMNS": "60"})
    assert max(map(len, narrow.splitlines())) <= 60 and "those since the last upgrade" in narrow, narrow
    text = history(store, place)
    assert "; 1 upgrade" in text and "3, one after the other: a restart, or" in text, text
    assert "|" in text and builds[2][:8] in text, text


def executes(store):
    """A process that executes another program has not grown by the difference of the two."""
    place = store.folder / "executes"
    place.mkdir()
    script = "kept = [bytes(1000)] * 3000000; print(1, flush=True); input()"
    with subprocess.Popen(["bash", "-c", f"echo 0; read line; exec python3 -c '{script}'"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "0\n"
        for turn in range(2):
            attach(store, process.pid, place / f"a{turn}.hsnap")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "1\n"
        for turn in range(2):
            attach(store, process.pid, place / f"b{turn}.hsnap")
        row = json.loads(history(store, place, "-j", *OWN_TIME))
        assert [(run["pid"], run["begin"]) for run in row["runs"]] == [(process.pid, "first"), (process.pid, "upgrade")], row["runs"]
        assert row["restarts"] == 0 and row["upgrades"] == 1 and abs(row["change"]) < 1 << 20, row["change"]
        process.communicate("\n")


def side_by_side(store):
    """Of processes that run at the same time the one that grows fastest is followed."""
    place = store.folder / "both"
    place.mkdir()
    with Program() as still, Program() as growing:
        for turn in range(5):
            attach(store, still.pid, place / f"{turn}a.hsnap")
            attach(store, growing.pid, place / f"{turn}b.hsnap")
            growing.grow(4 << 20)
        row = json.loads(history(store, place, "-j", *OWN_TIME))
        followed = [run["pid"] for run in row["runs"] if run["followed"]]
        assert followed == [growing.pid] and row["restarts"] == 0 and row["grows"], row["runs"]
        assert "2 side by side" in history(store, place)


def of_store(store):
    """By the name of a target, and of all targets as metrics that promtool accepts."""
    if shutil.which("promtool") is None:
        print("skipped: there is no promtool here")
        sys.exit(SKIP)
    with Program() as program:
        store.configure({"web": store.pid_file(program), "db": store.pid_file(program, "db")})
        for _ in range(4):
            assert store.lines()[1] == 0
            time.sleep(1.02)
    config = ["--config", store.config]
    latest = store.snapshots()[-1]
    ahead = latest.with_name("20990101T000000Z-1.hsnap")
    shutil.copy(latest, ahead)
    told = history(store, "web", *config)
    assert f"{ahead.name}: its time is in the future" in " ".join(told.split()) and "2099-" not in told, told
    ahead.unlink()
    assert history(store, "web", *config).startswith("web: "), store.snapshots()
    (store.folder / "web").write_text("a file that has a target's name", encoding="ascii")
    assert history(store, "web", *config, cwd=store.folder).startswith("web: ")
    rows = [json.loads(line) for line in history(store, "-j", *config).splitlines()]
    assert [row["name"] for row in rows] == ["web"], rows  # the other target is the same process
    metrics = store.folder / "heapsnap.prom"
    history(store, "--textfile", metrics, *config)
    history(store, "--textfile", metrics, *config)  # replaces it
    assert metrics.stat().st_mode & 0o777 == 0o644, oct(metrics.stat().st_mode)
    text = metrics.read_text(encoding="utf-8")
    assert 'heapsnap_resident_bytes{target="web"}' in text and 'row="used"' in text, text
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stdout and not done.stderr, done
    # A target of which nothing can be read keeps no other one from being shown; it is told by the exit code.
    broken = store.place("aaa") / store.snapshots()[0].name
    broken.parent.mkdir()
    broken.write_bytes(store.snapshots()[0].read_bytes()[:1000])
    metrics.unlink()
    history(store, "--textfile", metrics, *config, code=6)
    assert 'heapsnap_resident_bytes{target="web"}' in metrics.read_text(encoding="utf-8")
    shutil.rmtree(broken.parent)
    link = store.place() / "20200101T000000Z-1.hsnap"
    link.symlink_to(store.snapshots()[0])
    linked = json.loads(history(store, "web", "-j", *config))
    assert len(linked["points"]) == 4 and any(link.name in why for why in linked["unread"]), linked["unread"]
    link.unlink()
    if os.geteuid() == 0 and shutil.which("setpriv"):
        os.chmod(store.folder, 0o755)
        store.store.chmod(0o755)
        done = subprocess.run(as_nobody([store.heapsnap, "history", "web", *map(str, config)]), capture_output=True,
                              text=True, check=False)
        assert done.returncode == 6 and "cannot open the folder" in done.stderr and "EACCES" in done.stderr, done
    assert "name a target" in history(store, "nothing", *config, code=2)
    assert "heapsnap collect --check" in history(store, "db", *config, code=2)  # a target, which has none yet
    history(store, "web", store.snapshots()[0], *config, code=2)


def check_leaked(store, *leaking):
    with subprocess.Popen(leaking, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        reference_sources.said_blocks(program.stdout)
        snapshot = diff.attach(store.heapsnap, program.pid, store.folder / "leaked.hsnap")
        program.stdin.close()
    leaked = json.loads(diff.run(store.heapsnap, "leaks", snapshot, "-j", code=1))["leaked_bytes"]
    found = json.loads(history(store, snapshot, "-j"))["series"]
    assert [each["values"] for each in found if each["of"] == "leaked"] == [[leaked]], (leaked, found)


def check_rows(store, snapshot):
    """The rows for a table of many hosts have the same figures."""
    rows = [json.loads(line) for line in diff.run(store.heapsnap, "export", snapshot, "--format", "ndjson", "--rows", "sums").splitlines()]
    told = {row["name"]: (row["blocks"], row["bytes"]) for row in rows if row["kind"] == "owner"}
    owned = {row["root"]: (row["retained_blocks"], row["retained_bytes"])
             for row in json.loads(diff.run(store.heapsnap, "owners", snapshot, "-j"))["owners"]}
    assert all(told[name] == owned[name] for name in diff.GROWING), (told, owned)
    assert len(told) < 100 and [row["bytes"] for row in rows if row["kind"] == "leaked"] == [0], rows


def owners(store, holder, *leaking):
    """What roots retain, types and leaks, as owners, types and leaks say of each snapshot; what grows is above the rest."""
    paths = []
    with diff.Holder(holder, step=0) as program:
        for step in range(5):
            program.go_to(step)
            paths.append(diff.attach(store.heapsnap, program.pid, store.folder / f"{step}.hsnap"))
        # One without references is no zero.
        paths.append(diff.attach(store.heapsnap, program.pid, store.folder / "5.hsnap", references="no"))
    found = json.loads(history(store, *paths, "-j", *OWN_TIME))
    series = {(each["of"], each["name"]): each for each in found["series"]}

    def said(verb, member, name_of, bytes_of):
        for at, path in enumerate(paths[:-1]):
            done = subprocess.run([store.heapsnap, verb, path, "-j"], capture_output=True, text=True, check=False)
            sums = dict.fromkeys(GROWING[member], 0)
            for row in json.loads(done.stdout)[member]:
                if name_of(row) in sums:
                    sums[name_of(row)] += row[bytes_of]
            for name, value in sums.items():
                yield at, name, value

    for of, verb, member, bytes_of in (("owner", "owners", "owners", "retained_bytes"), ("type", "types", "types", "bytes")):
        for at, name, value in said(verb, member, lambda row: row["root" if "root" in row else "type"], bytes_of):
            values = series[of, name]["values"]
            assert values[at] == value and value > 0, (of, name, at, values, value)
            assert values[-1] == -1, values
            assert series[of, name]["slope"], series[of, name]
    assert ("leaked", "leaked memory") not in series, "nothing was"
    check_leaked(store, *leaking)
    check_rows(store, paths[4])
    text = history(store, *paths, "--limit", "0", "--color", "never", *OWN_TIME)
    assert all(f"held by {name}" in text for name in GROWING["owners"]), text
    metrics = history(store, *paths[:-1], "--textfile", "-", *OWN_TIME)
    assert 'owner="g_sessions"' in metrics and 'type="Session"' in metrics, metrics


GROWING = {"owners": diff.GROWING, "types": diff.GROWING_CLASSES}


def picture(store):
    """A PNG of the size that it says, with the fit and the dots in it."""
    place, _ = leak(store, 5, 3 << 20)
    file = store.folder / "a.png"
    history(store, place, "--picture", file)
    data = file.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == (960, 360), data[:24]
    history(store, place, "--picture", file, code=2)
    history(store, place, "--picture", file, "--force")
    done = subprocess.run([store.heapsnap, "history", place, "--picture", "-"], capture_output=True, check=True)
    assert done.stdout == data


def main():
    case, heapsnap, *programs = sys.argv[1:]
    with Store(heapsnap) as store:
        globals()[case](store, *programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
