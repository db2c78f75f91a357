#!/usr/bin/env python3
"""What a host adds to a table of many hosts: rows and bytes of snapshots of real servers under load.

    fleet_bench.py HEAPSNAP [--snapshots 24]

For each server, first without the tracker and then with it: the mean of the snapshots that `heapsnap collect` takes of it,
and what that is in a day with a snapshot every ten minutes. Needs root, the servers and clickhouse-server."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/e2e"), str(SOURCE / "packaging/fleet")]

import load  # noqa: E402
import servers  # noqa: E402
from clickhouse_server import ClickHouseServer  # noqa: E402
from collect_store import Store  # noqa: E402

A_DAY = 144  # every = "10m"


class Target:
    def __init__(self, pid):
        self.pid = pid


def measure(heapsnap, name, pid, snapshots):
    with Store(heapsnap) as store:
        store.configure({name: store.pid_file(Target(pid))})
        for _ in range(snapshots):
            lines, code = store.lines()
            assert code == 0, lines
            time.sleep(1.02)  # a file's name has its second
        files = store.snapshots(name)
        lines = [line for path in files for line in subprocess.run(
            [heapsnap, "export", path, "--format", "ndjson", "--rows", "sums"], capture_output=True,
            check=True).stdout.splitlines(keepends=True)]
        with ClickHouseServer() as server:
            database = load.ClickHouse(server.url)
            database.create()
            begin = time.monotonic()
            load.load_store(store.store, database, heapsnap)
            took = time.monotonic() - begin
            for table in ("heapsnap_rows", "heapsnap_stacks"):
                database.ask(f"OPTIMIZE TABLE {table} FINAL")
            (stored,) = database.query("SELECT sum(bytes) AS n FROM system.parts WHERE active")
        count = len(files)
        file_bytes = sum(path.stat().st_size for path in files) / count
        rows, text, in_table = len(lines) / count, sum(map(len, lines)) / count, stored["n"] / count
        return (f"{file_bytes / 1024:8.1f} KiB {rows:7.0f} rows {text / 1024:8.1f} KiB of JSON {in_table / 1024:7.1f} KiB in "
                f"ClickHouse, loaded in {took / count * 1000:.0f} ms; a day: {file_bytes * A_DAY / 2**20:.1f} MiB, "
                f"{rows * A_DAY:.0f} rows, {in_table * A_DAY / 2**20:.2f} MiB in ClickHouse")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heapsnap")
    parser.add_argument("--snapshots", type=int, default=24)
    arguments = parser.parse_args()
    heapsnap = os.path.abspath(arguments.heapsnap)
    for kind in (servers.Nginx, servers.PostgreSQL, servers.MariaDB):
        if kind.missing():
            print(kind.missing())
            continue
        with tempfile.TemporaryDirectory(prefix="heapsnap-fleet-bench-") as folder:
            server = kind(folder)
            try:
                server.start()
                pid = server.pids()[-1]
                print(f"{kind.name:12} plain   {measure(heapsnap, kind.name, pid, arguments.snapshots)}", flush=True)
                subprocess.run([heapsnap, "inject", str(pid)], check=True, capture_output=True)
                time.sleep(10)
                print(f"{kind.name:12} tracked {measure(heapsnap, kind.name, pid, arguments.snapshots)}", flush=True)
            finally:
                server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
