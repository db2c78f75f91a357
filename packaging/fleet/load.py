#!/usr/bin/env python3
"""Loads the snapshots of a store of `heapsnap collect` into ClickHouse or DuckDB, each of them once.

    python3 load.py STORE --clickhouse http://localhost:8123
    python3 load.py STORE --duckdb fleet.duckdb

Creates the tables where they are missing, asks the database which snapshots it has, and adds the rows of the others
(docs/fleet.md). What is in the store and was not written there by heapsnap collect is named and left out, and so is
what is damaged, and what lies more than a day ahead of now: a clock was ahead. Run it as often as you like, but one at a time for a store.

User and password for ClickHouse are read from the environment: HEAPSNAP_CLICKHOUSE_USER, HEAPSNAP_CLICKHOUSE_PASSWORD.

Exit code: 0, or 1 when a snapshot was left out, 2 when the store cannot be read, heapsnap cannot be run, or the
database cannot be reached or refuses."""

import argparse
import calendar
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
FILE = re.compile(r"((\d{6})\d{2}T\d{6})Z-\d+\.hsnap", re.ASCII)
HOSTS_AT_ONCE = 500
DAY_MS = 86_400_000
ROWS_AT_ONCE = 100_000
FRAMES = b'{"kind":"frames"'


class DatabaseError(Exception):
    pass


def statements(text):
    """The statements of a file: separated by semicolons, and no other semicolon in it."""
    without_comments = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return [one.strip() for one in without_comments.split(";") if one.strip()]


class ClickHouse:
    """A server, through its HTTP interface. What insert() is given is one block there: all of it arrives or nothing."""

    def __init__(self, url):
        self.url = url
        self.headers = {}
        for header, variable in (("User", "HEAPSNAP_CLICKHOUSE_USER"), ("Key", "HEAPSNAP_CLICKHOUSE_PASSWORD")):
            if os.environ.get(variable):
                self.headers["X-ClickHouse-" + header] = os.environ[variable]

    def ask(self, sql, body=None, **settings):
        parameters = urllib.parse.urlencode({**({"query": sql} if body is not None else {}), **settings})
        data = gzip.compress(body, 1) if body is not None else sql.encode()
        headers = {**self.headers, **({"Content-Encoding": "gzip"} if body is not None else {})}
        request = urllib.request.Request(f"{self.url}/?{parameters}", data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise DatabaseError(error.read(2000).decode(errors="replace")) from error
        except OSError as error:
            raise DatabaseError(f"{self.url}: {error}") from error

    def create(self):
        for one in statements((HERE / "clickhouse/schema.sql").read_text(encoding="utf-8")):
            self.ask(one)

    def loaded(self, condition):
        """Places of the snapshots."""
        return self.ask(f"SELECT DISTINCT snapshot FROM heapsnap_rows WHERE {condition} FORMAT TabSeparated").split()

    def insert(self, rows, frames):
        # The stacks first: where the rows are, the stacks are. A stack that comes twice is merged.
        for table, lines in (("heapsnap_stacks", frames), ("heapsnap_rows", rows)):
            if lines:
                self.ask(f"INSERT INTO {table} FORMAT JSONEachRow", b"".join(lines),
                         input_format_skip_unknown_fields=1, max_insert_block_size=len(lines) + 1)

    def query(self, sql):
        answer = self.ask(sql + "\nFORMAT JSONEachRow", output_format_json_quote_64bit_integers=0)
        return [json.loads(line) for line in answer.split("\n") if line]


class DuckDB:
    """A file, through the npm package @duckdb/node-api. insert() is one transaction."""

    def __init__(self, path):
        self.path = path
        self.known_columns = {}  # by table

    def query(self, sql):
        node = shutil.which("node") or shutil.which("nodejs")
        if node is None:
            raise DatabaseError("there is no node here: apt-get install nodejs, npm install @duckdb/node-api")
        done = subprocess.run([node, HERE / "duckdb.mjs", self.path], input=sql, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DatabaseError(done.stderr.strip())
        return json.loads(done.stdout)

    def create(self):
        self.query((HERE / "duckdb/schema.sql").read_text(encoding="utf-8"))

    def loaded(self, condition):
        return [row["snapshot"] for row in self.query(f"SELECT DISTINCT snapshot FROM heapsnap_rows WHERE {condition}")]

    def columns(self, table):
        """Types by name."""
        if table not in self.known_columns:
            self.known_columns[table] = {row["column_name"]: row["data_type"] for row in self.query(
                "SELECT column_name, data_type FROM information_schema.columns "
                f"WHERE table_name = '{table}' ORDER BY ordinal_position")}
        return self.known_columns[table]

    def insert(self, rows, frames):
        with tempfile.TemporaryDirectory(prefix="heapsnap-fleet-") as folder:
            sql = "BEGIN;\n"
            for table, lines in (("heapsnap_stacks", frames), ("heapsnap_rows", rows)):
                file = pathlib.Path(folder, table)
                file.write_bytes(b"".join(lines))
                columns = self.columns(table)
                named = ", ".join(f"{name}: '{kind}'" for name, kind in columns.items())
                chosen = ", ".join(f"coalesce({name}, 0)" if kind == "UBIGINT" and name != "start_time" else
                                   f"coalesce({name}, '')" if name in ("id", "snapshot") else name
                                   for name, kind in columns.items())
                sql += (f"INSERT {'OR IGNORE ' if table == 'heapsnap_stacks' else ''}INTO {table} SELECT {chosen} FROM "
                        f"read_json('{file}', format = 'newline_delimited', columns = {{{named}}});\n")
            self.query(sql + "COMMIT;\n")


class Batch:
    """Rows until there are enough of them for one insert. ClickHouse has a partition a month, and a block that is of
    two of them is two blocks."""

    def __init__(self, database):
        self.database, self.rows, self.frames, self.month, self.total = database, [], [], None, 0

    def add(self, month, lines):
        if self.rows and (month != self.month or len(self.rows) >= ROWS_AT_ONCE):
            self.flush()
        self.month = month
        for line in lines:
            (self.frames if line.startswith(FRAMES) else self.rows).append(line)

    def flush(self):
        if self.rows:
            self.database.insert(self.rows, self.frames)
        self.total += len(self.rows)
        self.rows, self.frames = [], []


def folders(path):
    """Folders in a folder of the store, without links."""
    return sorted(entry for entry in path.iterdir() if FOLDER.fullmatch(entry.name) and entry.is_dir() and not entry.is_symlink())


def time_ms(path):
    """By its name."""
    try:
        return calendar.timegm(time.strptime(FILE.fullmatch(path.name)[1], "%Y%m%dT%H%M%S")) * 1000
    except ValueError:
        return 0  # there is no such day


def loaded_of(database, hosts, since_ms):
    """Places of the snapshots of these hosts that the database has, from a time on: one question for all of them, as
    each goes through the rows of all hosts."""
    first, last = (end(host + "/" for host in hosts) for end in (min, max))
    # A place begins with HOST/. What begins with `last` is less than that with a 0, which follows the slash.
    places = database.loaded(f"kind = 'process' AND snapshot >= '{first}' AND snapshot < '{last[:-1]}0' "
                             f"AND taken_at_ms >= {since_ms}")
    there = {}
    for place in places:
        there.setdefault(place.partition("/")[0], set()).add(place)
    return there


def files_of(host):
    """Of all targets, by time."""
    files = [path for target in folders(host) for path in target.iterdir() if FILE.fullmatch(path.name)]
    return sorted(files, key=lambda path: (path.name, path.parent.name))


def rows_of(heapsnap, path, place, now_ms):
    """(lines, why it is left out)"""
    ahead = "its time is more than a day ahead of now: a clock was ahead"
    if path.is_symlink() or not path.is_file():
        return [], "it is no regular file"
    if time_ms(path) > now_ms + DAY_MS:
        return [], ahead
    done = subprocess.run([heapsnap, "export", path, "--format", "ndjson", "--rows", "sums"], capture_output=True, check=False)
    if done.returncode != 0:
        return [], done.stderr.decode(errors="replace").strip()
    lines = done.stdout.splitlines(keepends=True)
    process = json.loads(lines[-1])
    if process["snapshot"] != place:
        return [], f"heapsnap collect did not write it there ({process['snapshot']})"
    return lines, ahead if process["taken_at_ms"] > now_ms + DAY_MS else ""


def load_store(store, database, heapsnap):
    """(snapshots loaded, known before, left out)"""
    batch, loaded, known, left_out = Batch(database), 0, 0, 0
    now_ms = time.time() * 1000
    hosts = folders(store)
    for begin in range(0, len(hosts), HOSTS_AT_ONCE):
        files = {host.name: files_of(host) for host in hosts[begin:begin + HOSTS_AT_ONCE]}
        oldest = min((time_ms(path) for each in files.values() for path in each), default=None)
        if oldest is None:
            continue
        there = loaded_of(database, files, oldest - DAY_MS)
        for host, paths in files.items():
            for path in paths:
                place = str(path.relative_to(store))
                if place in there.get(host, ()):
                    known += 1
                    continue
                if not os.path.lexists(path):
                    continue  # heapsnap prune has taken it meanwhile
                lines, why = rows_of(heapsnap, path, place, now_ms)
                if why:
                    left_out += 1
                    print(f"left out: {place}: {why}", file=sys.stderr)
                    continue
                loaded += 1
                batch.add(FILE.fullmatch(path.name)[2], lines)
    batch.flush()
    print(f"{loaded} snapshots loaded ({batch.total} rows), {known} were there, {left_out} left out")
    return loaded, known, left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=pathlib.Path)
    parser.add_argument("--heapsnap", default="heapsnap", help="the program (default: heapsnap in PATH)")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--clickhouse", metavar="URL", help="HTTP interface of a ClickHouse server")
    target.add_argument("--duckdb", metavar="FILE", help="a DuckDB file, which is made if it is not there")
    arguments = parser.parse_args()
    if shutil.which(arguments.heapsnap) is None:
        parser.error(f"there is no program {arguments.heapsnap}: install heapsnap, or name it with --heapsnap")
    if not arguments.store.is_dir():
        parser.error(f"there is no folder {arguments.store}")
    database = ClickHouse(arguments.clickhouse.rstrip("/")) if arguments.clickhouse else DuckDB(arguments.duckdb)
    try:
        database.create()
        _, _, left_out = load_store(arguments.store, database, arguments.heapsnap)
    except (DatabaseError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
