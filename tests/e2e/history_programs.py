#!/usr/bin/env python3
"""heapsnap history of a folder that has snapshots of several programs, or from several hosts.

    history_programs.py CASE HEAPSNAP
"""

import json
import re
import shutil
import subprocess
import sys

from collect_store import SKIP, Program, run_case
from history import attach, history


def several_programs(store):
    """Each program has a history of its own, whatever folder they share; what cannot be read is told once."""
    place = store.folder / "programs"
    place.mkdir()
    names = ("short", "cut_after_15_bytes_a", "cut_after_15_bytes_b")
    for name in names:
        shutil.copy(shutil.which("cat"), store.folder / name)
    for turn in range(2):
        for name in names:
            with subprocess.Popen([store.folder / name], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
                attach(store, process.pid, place / f"{turn}_{name}.hsnap")
                process.stdin.close()
    (place / "9.hsnap").write_bytes(b"damaged")
    rows = [json.loads(line) for line in history(store, place, "-j").splitlines()]
    assert [row["comm"] for row in rows] == ["cut_after_15_by", "cut_after_15_by", "short"], rows
    for row, name in zip(rows, sorted(names)):
        assert [point["snapshot"] for point in row["points"]] == [f"{place}/{turn}_{name}.hsnap" for turn in range(2)], row
        assert {run["exe"] for run in row["runs"]} == {f"{store.folder}/{name}"}, row["runs"]
        assert [run["begin"] for run in row["runs"]] == ["first", "restart"], row["runs"]
    assert [len(row["unread"]) for row in rows] == [0, 0, 1] and "9.hsnap" in rows[2]["unread"][0], rows
    text = history(store, place)
    assert text.count("Growth, the fastest first") == text.count("2, one after the other") == 3 and "upgrade" not in text, text
    metrics = history(store, place, "--textfile", "-")
    targets = re.findall(r'^heapsnap_resident_bytes{target="(.*)"} ', metrics, re.M)
    assert targets == [*(f"cut_after_15_by ({store.folder}/{name})" for name in names[1:]), "short"], targets
    told = history(store, place, "--picture", store.folder / "a.png", code=2)
    assert "more than one history: cut_after_15_by, cut_after_15_by, short" in told and not (store.folder / "a.png").exists(), told
    history(store, *place.glob("*_short.hsnap"), "--picture", store.folder / "a.png")


def several_hosts(store):
    """A program of two hosts has two histories: neither process is a restart of the other."""
    place = store.folder / "hosts"
    place.mkdir()
    hosts = ("alpha", "beta")
    for host in hosts:
        with Program() as program:
            named = ["unshare", "--uts", "sh", "-c", f'hostname {host} || exit {SKIP}; exec "$@"', "sh"]
            done = subprocess.run([*named, store.heapsnap, "attach", str(program.pid), "-q", "-o", place / f"{host}.hsnap"],
                                  capture_output=True, text=True, check=False)
        if done.returncode == SKIP or done.stderr.startswith("unshare: "):
            print(f"skipped: no host name of its own for a process here: {done.stderr}")
            sys.exit(SKIP)
        assert done.returncode == 0, done
    rows = [json.loads(line) for line in history(store, place, "-j").splitlines()]
    assert [(row["host"], row["restarts"], len(row["points"])) for row in rows] == [(host, 0, 1) for host in hosts], rows
    metrics = history(store, place, "--textfile", "-")
    targets = re.findall(r'^heapsnap_resident_bytes{target="(.*)"} ', metrics, re.M)
    assert targets == [f"{row['comm']} on {row['host']}" for row in rows], (targets, rows)


if __name__ == "__main__":
    sys.exit(run_case(globals()))
