#!/usr/bin/env python3
"""Snapshots of many hosts in ClickHouse and DuckDB: what is loaded, and that each query of packaging/fleet gives the
answer that this test computes by itself.

    fleet.py CASE clickhouse|duckdb|chdb HEAPSNAP SOURCE_FOLDER NPM_FOLDER

clickhouse is the server that is installed, as old as Debian's may be; chdb is a present one.

HEAPSNAP_LONG=1 in the environment: 10 hosts with a million rows each.

Exits 77 where the database cannot be installed."""

import contextlib
import importlib.util
import json
import math
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import clickhouse_server
from collect_store import SKIP, Program, Store
from synthetic_fleet import Shape, SyntheticFleet
from tracked_cat import TrackedCat

LONG = os.environ.get("HEAPSNAP_LONG") == "1"
SMALL_FLEET = Shape(hosts=3, targets=3, snapshots=41, step=6, sizes=20, stacks=30)
LARGE_FLEET = Shape(hosts=10, targets=5, snapshots=240, step=1, sizes=100, stacks=716)
QUERIES = ("growing_owners", "growing_sizes", "growing_stacks", "leaking_hosts", "memory_now", "release")


def skip(why):
    print("skipped:", why)
    sys.exit(SKIP)


class Work:
    """The database under test, empty, and the files of packaging/fleet."""

    def __init__(self, stack, kind, heapsnap, source, npm):
        self.heapsnap, self.fleet, self.kind = os.path.abspath(heapsnap), pathlib.Path(source, "packaging/fleet").resolve(), kind
        self.source = pathlib.Path(source)
        specification = importlib.util.spec_from_file_location("load", self.fleet / "load.py")
        self.load = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(self.load)
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="heapsnap-fleet-")))
        self.server = None
        if kind == "clickhouse":
            if clickhouse_server.program() is None:
                skip("there is no clickhouse-server here")
            self.server = stack.enter_context(clickhouse_server.ClickHouseServer())
            self.address = self.server.url
            self.database = self.load.ClickHouse(self.address)
        elif kind == "chdb":
            install_package("chdb", pathlib.Path(npm))
            self.kind = "clickhouse"
            self.database = chdb_database(self.load, self.folder / "chdb")
        else:
            install_package("@duckdb/node-api", pathlib.Path(npm))
            self.address = str(self.folder / "fleet.duckdb")
            self.database = self.load.DuckDB(self.address)

    def run_load(self, store, code=0):
        done = subprocess.run([sys.executable, "-B", self.fleet / "load.py", store, f"--{self.kind}", self.address, "--heapsnap",
                               self.heapsnap], capture_output=True, text=True, check=False)
        assert done.returncode == code, done
        return done

    def cpu_seconds(self):
        """Of the database up to now."""
        if self.server:
            with open(f"/proc/{self.server.process.pid}/stat", encoding="ascii") as file:
                user, system = file.read().rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return of_children.ru_utime + of_children.ru_stime

    def query(self, name):
        return self.database.query((self.fleet / self.kind / f"{name}.sql").read_text(encoding="utf-8"))

    def count(self, table="heapsnap_rows", where="1 = 1"):
        (row,) = self.database.query(f"SELECT count(*) AS n FROM {table} WHERE {where}")
        return row["n"]

    def columns(self, table):
        if self.kind == "duckdb":
            return set(self.database.columns(table))
        return {row["name"] for row in self.database.query(f"SELECT name FROM system.columns WHERE table = '{table}'")}


def install_package(name, folder):
    if shutil.which("node") is None or shutil.which("npm") is None:
        skip("there is no npm here")
    os.environ["NODE_PATH"] = str((folder / "node_modules").resolve())
    if not (folder / "node_modules" / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", name],
                              capture_output=True, text=True, check=False, timeout=600)
        if done.returncode != 0:
            skip(f"npm cannot install {name}: {done.stderr[-300:]}")


def chdb_database(load, folder):
    """A present ClickHouse, to which this test's process gives SQL instead of a server's HTTP interface."""

    class ChDB(load.ClickHouse):
        def ask(self, sql, body=None, **settings):
            words = " SETTINGS " + ", ".join(f"{name} = {value}" for name, value in settings.items()) if settings else ""
            sql = sql.replace(" FORMAT JSONEachRow", words + " FORMAT JSONEachRow").replace("\nFORMAT", words + "\nFORMAT")
            data = sql.encode() + (b"\n" + body if body is not None else b"")
            done = subprocess.run(["node", pathlib.Path(__file__).with_name("chdb.mjs"), folder], input=data,
                                  capture_output=True, check=False)
            if done.returncode != 0:
                raise load.DatabaseError(done.stderr.decode())
            return done.stdout.decode()

    return ChDB("in this process")


def export(work, path):
    done = subprocess.run([work.heapsnap, "export", path, "--format", "ndjson", "--rows", "sums"], capture_output=True,
                          check=True)
    return done.stdout.splitlines(keepends=True)


def collect_snapshots(work, store, passes=2):
    """Snapshots of a tracked program and of another one."""
    with Program() as plain, TrackedCat(work.heapsnap) as tracked:
        store.configure({"web": store.pid_file(plain), "db": store.pid_file(tracked, "db")})
        for _ in range(passes):
            lines, code = store.lines()
            assert code == 0, lines
            time.sleep(1.02)  # a file's name has its second
    return store.snapshots("web") + store.snapshots("db")


def of_store(work):
    """Every snapshot of a store once, whatever is loaded again; what heapsnap collect did not write is left out."""
    with Store(work.heapsnap) as store:
        files = collect_snapshots(work, store)
        lines = [line for path in files for line in export(work, path)]
        rows = [json.loads(line) for line in lines]
        done = work.run_load(store.store)
        assert f"{len(files)} snapshots loaded" in done.stdout and not done.stderr, done
        expected = {}
        for row in rows:
            if row["kind"] != "frames":
                key = row["kind"], row["target"]
                count, total = expected.get(key, (0, 0))
                expected[key] = count + 1, total + row["bytes"]
        assert {("stack", "db"), ("size", "web"), ("process", "db"), ("account", "web")} <= set(expected), expected
        found = {(row["kind"], row["target"]): (row["n"], row["total"]) for row in work.database.query(
            "SELECT kind, target, count(*) AS n, sum(bytes) AS total FROM heapsnap_rows GROUP BY kind, target")}
        assert found == expected, (found, expected)
        stacks = {row["id"] for row in rows if row["kind"] == "frames"}
        assert work.count("heapsnap_stacks") >= len(stacks) > 0, stacks
        process = next(row for row in rows if row["kind"] == "process" and row["target"] == "db")
        (kept,) = work.database.query("SELECT host, boot_id, pid, start_time, exe, build_id, taken_at_ms, blocks, snapshot FROM "
                                      f"heapsnap_rows WHERE kind = 'process' AND snapshot = '{process['snapshot']}'")
        assert kept == {name: process[name] for name in kept}, (kept, process)
        keys = [(row["host"], row["pid"], row["taken_at_ms"], row["kind"], row["name"], row.get("id")) for row in rows]
        assert len(set(keys)) == len(keys), "two rows of a snapshot have the same kind, name and id"
        members = {name for row in rows if row["kind"] != "frames" for name in row} - {"version", "taken_at"}
        assert members == work.columns("heapsnap_rows"), members ^ work.columns("heapsnap_rows")

        before = work.count()
        again = work.run_load(store.store)
        assert "0 snapshots loaded" in again.stdout and f"{len(files)} were there" in again.stdout, again
        web = store.place("web")
        (web / "20200101T000000Z-1.hsnap").write_bytes(files[0].read_bytes())  # a copy under another name
        (web / "20200101T000001Z-1.hsnap").write_bytes(files[0].read_bytes()[:500])
        (web / "20200101T000002Z-1.hsnap").symlink_to(files[0])
        (web / "notes.txt").write_text("somebody's", encoding="ascii")
        (store.store / "it's a host").mkdir()
        left = work.run_load(store.store, code=1)
        assert left.stderr.count("left out: ") == 3 and "did not write it there" in left.stderr, left
        assert work.count() == before
        # One that a clock named which was ahead: by its name, and by what it says itself.
        ahead = web / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(time.time() + 2 * 86400))}-1.hsnap"
        ahead.write_bytes(files[0].read_bytes())
        left = work.run_load(store.store, code=1)
        assert f"{ahead.name}: its time is more than a day ahead of now" in left.stderr and work.count() == before, left
        work.load.time_ms = lambda path: 0
        lines, why = work.load.rows_of(work.heapsnap, files[0], str(files[0].relative_to(store.store)), (time.time() - 3 * 86400) * 1000)
        assert lines and "ahead of now" in why, why


def many_hosts(work):
    """What is loaded is asked for a few times, however many hosts there are, and of each host its own: names may be
    beginnings of others, and a database has more hosts and older snapshots than the store."""
    names = sorted(["a", "a-b", "a.b", "a0", "ab", "b", *(f"host{number:03}" for number in range(1200))])
    rows = []
    now = int(time.time() * 1000)
    for name in [*names, "Z", "aa", "zz"]:
        for target in ("web", "db"):
            place = f"{name}/{target}/{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now / 1000))}-1.hsnap"
            rows.append({**json.loads(LIKE_REAL[0]), "kind": "process", "taken_at_ms": now, "host": name, "snapshot": place})
    work.database.create()
    batch = work.load.Batch(work.database)
    batch.add("202611", [(json.dumps(row) + "\n").encode() for row in rows])
    batch.flush()
    store = work.folder / "store"
    for row in rows:
        if row["host"] in names:
            file = store / row["snapshot"]
            file.parent.mkdir(parents=True)
            file.touch()
    asked, loaded = [], work.database.loaded
    work.database.loaded = lambda condition: asked.append(condition) or loaded(condition)
    done = work.load.load_store(store, work.database, shutil.which("false"))
    assert done == (0, 2 * len(names), 0), done
    assert len(asked) == 3, len(asked)


def hostile(work):
    """Names that end JSON, SQL or a terminal's line arrive as they are, and what a later heapsnap adds is passed over."""
    rows = [json.loads(line) for line in LIKE_REAL]
    nasty = "a'; DROP TABLE heapsnap_rows; --\"\\\n\t\x1b[2J\u0085é{}"
    for row in rows:
        row.update(host=nasty, target=nasty, comm=nasty, exe=nasty, name=nasty, new_member=[1, {"a": 2}])
    rows.append({**rows[-1], "kind": "owner", "bytes": 2**63 + 1})
    lines = [(json.dumps(row) + "\n").encode() for row in rows]
    work.database.create()
    work.database.create()
    batch = work.load.Batch(work.database)
    batch.add("202611", lines)
    batch.flush()
    assert work.count() == len(rows)
    found = work.database.query("SELECT DISTINCT host, target, comm, exe, name FROM heapsnap_rows")
    assert found == [{name: nasty for name in ("host", "target", "comm", "exe", "name")}], found
    owners = work.database.query("SELECT bytes FROM heapsnap_rows WHERE kind = 'owner'")
    assert [float(row["bytes"]) for row in owners] == [float(2**63 + 1)], owners


LIKE_REAL = [b'{"kind":"account","version":1,"host":"h","target":"t","boot_id":null,"pid":1,"start_time":null,"comm":"c",'
             b'"exe":"e","build_id":null,"taken_at":"2026-11-22T00:00:00.0Z","taken_at_ms":1795000000000,"name":"used",'
             b'"bytes":1,"swapped":0}\n']


def ahead(work):
    """A host whose clock is a month ahead, in a table of before load.py left it out, changes no answer."""
    fleet = SyntheticFleet(SMALL_FLEET)
    work.database.create()
    batch = work.load.Batch(work.database)
    last = None
    for rows, frames in fleet.snapshots():
        batch.add(time.strftime("%Y%m", time.gmtime(fleet.runs[-1].times[-1] / 1000)), frames + rows)
        last = rows
    batch.flush()
    for days in (2, 30):
        then = int((time.time() + days * 86400) * 1000)
        batch.add(time.strftime("%Y%m", time.gmtime(then / 1000)), [
            (json.dumps({**json.loads(line), "taken_at_ms": then}) + "\n").encode() for line in last])
        batch.flush()
    for name in QUERIES:
        if name != "release":  # which is of builds, not of a time
            check_answer(name, work.query(name), getattr(fleet, name)())


def same(found, expected):
    if isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-3)
    return found == expected


def check_answer(name, found, expected):
    assert expected, name
    assert len(found) == len(expected), (name, len(found), len(expected), found[:2], expected[:2])
    for number, (one, other) in enumerate(zip(found, expected)):
        assert set(one) == set(other), (name, set(one) ^ set(other))
        wrong = [key for key in other if not same(one[key], other[key])]
        assert not wrong, (name, number, wrong, one, other)


def queries(work):
    """Rows like those of real snapshots, and each query's answer."""
    shape = LARGE_FLEET if LONG else SMALL_FLEET
    fleet = SyntheticFleet(shape)
    work.database.create()
    batch = work.load.Batch(work.database)
    begin, cpu_begin, in_database = time.monotonic(), work.cpu_seconds(), 0.0
    shapes = {}
    lines_bytes = 0
    for rows, frames in fleet.snapshots():
        before = time.monotonic()
        if not shapes.get("frames"):
            for line in rows + frames:
                shapes.setdefault(json.loads(line)["kind"], list(json.loads(line)))
        lines_bytes += sum(map(len, rows))
        batch.add(time.strftime("%Y%m", time.gmtime(fleet.runs[-1].times[-1] / 1000)), frames + rows)
        in_database += time.monotonic() - before
    before = time.monotonic()
    batch.flush()
    in_database += time.monotonic() - before
    assert work.count() == fleet.row_count == batch.total, (work.count(), fleet.row_count)
    if work.kind == "clickhouse":  # of chdb, too
        (size,) = work.database.query("SELECT sum(bytes) AS n FROM system.parts WHERE active AND table = 'heapsnap_rows'")
        size = size["n"]
    else:
        size = os.path.getsize(work.address)
    print(f"{fleet.row_count} rows ({lines_bytes / fleet.row_count:.0f} bytes of JSON each) loaded in {in_database:.1f} s "
          f"({time.monotonic() - begin:.1f} s with making them), {work.cpu_seconds() - cpu_begin:.1f} s of CPU in the database, "
          f"{size / fleet.row_count:.1f} bytes a row there", flush=True)
    for name in QUERIES:
        before, cpu_before = time.monotonic(), work.cpu_seconds()
        found = work.query(name)
        took, cpu = time.monotonic() - before, work.cpu_seconds() - cpu_before
        check_answer(name, found, getattr(fleet, name)())
        print(f"{name}: {took:.2f} s, {cpu:.2f} s of CPU, {len(found)} rows as computed here", flush=True)
    with Store(work.heapsnap) as store:
        real = [json.loads(line) for path in collect_snapshots(work, store, 1) for line in export(work, path)]
    of_real = {row["kind"]: list(row) for row in real}
    assert shapes == of_real, (shapes, of_real)
    # The files are all queries that there are.
    assert {path.stem for path in (work.fleet / work.kind).glob("*.sql")} == {*QUERIES, "schema"}


def document(work):
    """The commands of docs/fleet.md, one after the other, as they stand there."""
    text = (work.source / "docs/fleet.md").read_text(encoding="utf-8")
    blocks = re.findall(rf"<!-- run: {work.kind} -->\n```sh\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 1, "no commands"
    with Store(work.heapsnap) as store:
        collect_snapshots(work, store)
        folder = work.folder / "bin"
        folder.mkdir()
        (folder / "heapsnap").symlink_to(work.heapsnap)
        replaced = {"/usr/share/doc/heapsnap/examples/fleet": str(work.fleet), "/var/lib/heapsnap": str(store.store),
                    "http://localhost:8123": work.address, "sudo ": "", "fleet.duckdb": work.address}
        script = "".join(blocks)
        assert "npm install" not in script
        for here, there in replaced.items():
            script = script.replace(here, there)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=False,
                              cwd=work.folder, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        assert done.returncode == 0 and "4 snapshots loaded" in done.stdout, done
        assert '"target"' in done.stdout or "used" in done.stdout, done
        print(done.stdout)


def wrong_arguments(work):
    """A store that is not there or may not be read, and a heapsnap that is not there: said in a line, before all else."""
    with Store(work.heapsnap) as store:
        missing = store.folder / "missing"
        done = work.run_load(missing, code=2)
        assert done.stderr.splitlines()[-1].endswith(f"there is no folder {missing}"), done
        store.store.mkdir()
        work.heapsnap = str(missing)
        done = work.run_load(store.store, code=2)
        assert f"there is no program {missing}: install heapsnap" in done.stderr, done
        assert work.kind == "clickhouse" or not os.path.exists(work.address), "a database was made"


def unreachable(work):
    """A database that is not there, or refuses, is an error with what it said."""
    with Store(work.heapsnap) as store:
        collect_snapshots(work, store, 1)
        if work.kind == "clickhouse":
            with socket.create_server(("127.0.0.1", 0)) as closed:
                port = closed.getsockname()[1]
            work.address = f"http://127.0.0.1:{port}"
            assert "refused" in work.run_load(store.store, code=2).stderr
        else:
            pathlib.Path(work.address).write_bytes(b"not a database" * 1000)
            assert "duckdb.mjs: " in work.run_load(store.store, code=2).stderr


def main():
    case, kind, heapsnap, source, npm = sys.argv[1:]
    with contextlib.ExitStack() as stack:
        globals()[case](Work(stack, kind, heapsnap, source, npm))
    return 0


if __name__ == "__main__":
    sys.exit(main())
