#!/usr/bin/env python3
"""Each format of `heapsnap export` that another tool opens: opened by that tool, whose totals must be those of heapsnap.

    exports.py CASE HEAPSNAP KNOWN_LEAKS LEAK_HOLDER NPM_FOLDER

Each is made of a snapshot of a tracked program, by call stack, and of a program with leaks, by owner. Exits 77 where
the tool is not here and cannot be installed."""

import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import reference_sources
from fleet import install_package, skip
from pprof_profile import Profile

HERE = pathlib.Path(__file__).parent
PATIENCE = 120
DH_VIEW = pathlib.Path("/usr/libexec/valgrind/dh_view.js")


class Work:
    def __init__(self, heapsnap, known_leaks, leak_holder, npm, folder):
        self.heapsnap, self.npm, self.folder = heapsnap, pathlib.Path(npm), pathlib.Path(folder)
        self.known_leaks, self.leak_holder = known_leaks, leak_holder

    def track(self):
        """A snapshot of a program that was tracked from its start, and what is in use by its call stacks."""
        path = self.folder / "tracked.hsnap"
        subprocess.run([self.heapsnap, "run", "--at-exit", path, "--", sys.executable, "-c",
                        "kept = [bytes(i) for i in range(600, 3000)]"], check=True)
        stacks = self.json("stacks", path, "--all")
        return path, stacks["live_blocks"], stacks["live_bytes"]

    def take(self):
        """A snapshot with references of a program that leaks, and what is in use in it."""
        with subprocess.Popen([self.known_leaks, self.leak_holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as process:
            reference_sources.said_blocks(process.stdout)
            path = reference_sources.take_snapshot(self.heapsnap, process.pid, self.folder)
            process.stdin.close()
        owners = self.json("owners", path)
        assert owners["leaked_bytes"] > 0, owners
        return path, owners["blocks_in_use"], owners["bytes_in_use"]

    def both(self):
        return (("stacks", *self.track()), ("owners", *self.take()))

    def json(self, command, *arguments):
        done = subprocess.run([self.heapsnap, command, *map(str, arguments), "-j"], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done  # 1: there are leaks
        return json.loads(done.stdout)

    def export(self, snapshot, kind, *options, name="exported"):
        file = self.folder / name
        subprocess.run([self.heapsnap, "export", snapshot, "--format", kind, "-f", "-o", file, *options], check=True)
        return file

    def run_node(self, script, *arguments):
        done = subprocess.run(["node", HERE / script, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done
        return json.loads(done.stdout.splitlines()[-1])


def need(program, package):
    if shutil.which(program) is None:
        skip(f"there is no {program} here ({package})")


def folded_lines(text):
    """Bytes by frames, outermost first."""
    stacks = collections.Counter()
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        assert frames and all(frames.split(";")), line
        stacks[tuple(frames.split(";"))] += int(count)
    return stacks


def without_files(stack):
    return tuple(re.sub(r" \([^()]*\)$", "", frame) for frame in stack)


def folded(work):
    """A line a stack, as flamegraph.pl reads it: the same stacks and bytes as heaptrack_print makes of the other export."""
    need("heaptrack_print", "heaptrack")
    for by, snapshot, _, size in work.both():
        stacks = folded_lines(work.export(snapshot, "folded").read_text(encoding="utf-8"))
        assert sum(stacks.values()) == size, (by, sum(stacks.values()), size)
        exported = work.export(snapshot, "heaptrack", name="exported.gz")
        other = work.folder / "other.folded"
        subprocess.run(["heaptrack_print", "-F", other, "--flamegraph-cost-type", "peak", exported], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # "main (server.cpp);parse (parse.cpp); 4096"
        text = re.sub(r"; (\d+)$", r" \1", other.read_text(encoding="utf-8"), flags=re.MULTILINE)
        theirs = folded_lines(text)
        assert sum(theirs.values()) == size, (by, sum(theirs.values()), size)
        # heaptrack leaves out the innermost frames of operator new.
        known = {without_files(stack) for stack in theirs}
        missing = [stack for stack in stacks if without_files(stack) not in known and not stack[-1].startswith("operator new")]
        assert not missing, (by, missing[:3], list(theirs)[:3])


def heaptrack(work):
    """heaptrack_print opens both: allocations, and the peak, which is what is in use."""
    need("heaptrack_print", "heaptrack")
    for by, snapshot, blocks, size in work.both():
        exported = work.export(snapshot, "heaptrack", name="exported.gz")
        done = subprocess.run(["heaptrack_print", "--disable-builtin-suppressions", exported], capture_output=True, text=True, check=True)
        calls = int(re.search(r"^calls to allocation functions: (\d+)", done.stdout, re.MULTILINE)[1])
        assert calls == blocks, (by, calls, blocks)
        for what in ("peak heap memory consumption", "total memory leaked"):
            number, unit = re.search(rf"^{what}: ([\d.]+)([BKMG])", done.stdout, re.MULTILINE).groups()
            scale = 1000 ** "BKMG".index(unit)
            assert abs(float(number) * scale - size) <= 0.006 * scale, (by, what, number, unit, size)


def pprof(work):
    """`go tool pprof` reads owners as it reads stacks, of which push.pprof is the test."""
    need("go", "golang-go")
    snapshot, blocks, size = work.take()
    exported = work.export(snapshot, "pprof")
    profile = Profile(exported.read_bytes())
    assert profile.types == ["inuse_objects", "inuse_space"], profile.types
    for column, total in enumerate((blocks, size)):
        assert sum(values[column] for _, values in profile.samples) == total, (column, total)
    done = subprocess.run(["go", "tool", "pprof", "-top", "-unit", "B", exported], capture_output=True, text=True, check=True)
    assert f"{size}B total" in done.stdout, (size, done.stdout[:500])
    raw = subprocess.run(["go", "tool", "pprof", "-raw", exported], capture_output=True, text=True, check=True).stdout
    assert "leaked: no root leads to it" in raw and "inuse_space/bytes" in raw, raw[:500]
    written = work.folder / "written.pb.gz"
    subprocess.run(["go", "tool", "pprof", "-proto", "-output", written, exported], capture_output=True, check=True)
    # It leaves out of names what is in parentheses, as a function's arguments are.
    read = Profile(written.read_bytes()).only(*profile.types)
    assert len(read) == len({frames for frames, _ in read}) and collections.Counter((len(frames), values) for frames, values in read) == \
        collections.Counter((len(frames), values) for frames, values in profile.only(*profile.types))


def speedscope(work):
    """The file is as the schema in speedscope's package says, and each of its stacks has its weight."""
    install_package("speedscope", work.npm)
    install_package("ajv", work.npm)
    for by, snapshot, blocks, size in work.both():
        exported = work.export(snapshot, "speedscope")
        schema = work.npm / "node_modules/speedscope/dist/release/file-format-schema.json"
        assert work.run_node("ajv.cjs", schema, exported) == "valid"
        file = json.loads(exported.read_text(encoding="utf-8"))
        for profile, unit, total in zip(file["profiles"], ("bytes", "none"), (size, blocks)):
            assert profile["unit"] == unit and profile["endValue"] == sum(profile["weights"]) == total, (by, unit, total)
            assert len(profile["samples"]) == len(profile["weights"]), by
            assert all(frame < len(file["shared"]["frames"]) for sample in profile["samples"] for frame in sample), by
        names = [frame["name"] for frame in file["shared"]["frames"]]
        stacks = collections.Counter()
        for sample, weight in zip(file["profiles"][0]["samples"], file["profiles"][0]["weights"]):
            stacks[";".join(names[frame].replace(";", ",") for frame in sample)] += weight
        ours = folded_lines(work.export(snapshot, "folded").read_text(encoding="utf-8"))
        assert +stacks == {";".join(stack): count for stack, count in ours.items()}, by


def dhat(work):
    """valgrind's own viewer builds its tree of the file."""
    if not DH_VIEW.exists():
        skip("there is no dh_view.js here (valgrind)")
    need("node", "nodejs")
    for by, snapshot, blocks, size in work.both():
        exported = work.export(snapshot, "dhat")
        root = work.run_node("dh_view.cjs", DH_VIEW, exported)
        expected = {f"{moment}{what}": total for moment in ("total", "atTGmax", "atTEnd")
                    for what, total in (("Bytes", size), ("Blocks", blocks))}
        assert root == expected, (by, root, expected)


def firefox(work):
    """The Firefox Profiler, by its program for terminals, imports DHAT's file."""
    install_package("@firefox-devtools/profiler-cli", work.npm)
    program = work.npm / "node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"
    home = {**os.environ, "HOME": str(work.folder), "PROFILER_CLI_SESSION_DIR": str(work.folder / "sessions")}

    def answer(by, *words):
        done = subprocess.run(["node", program, *words, "--session", by, "--json"], capture_output=True, text=True, env=home, timeout=120, check=False)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    for by, snapshot, _, size in work.both():
        file = work.export(snapshot, "dhat", name="dhat.json")
        # What `load` does, but that gives its server half a second to start, which a busy machine does not have.
        with subprocess.Popen(["node", program, "--daemon", file, "--session", by], env=home) as server:
            try:
                # A question before that would take the server for one that has died, and remove its files.
                log = work.folder / "sessions" / f"{by}.log"
                deadline = time.monotonic() + PATIENCE
                while not log.exists() or "Profile loaded successfully" not in log.read_text(encoding="utf-8"):
                    assert server.poll() is None and time.monotonic() < deadline, server.poll()
                    time.sleep(0.05)
                threads = answer(by, "thread", "list")["threads"]
                assert [thread["name"] for thread in threads] == ["Total Bytes", "Maximum Bytes", "Bytes at Global Max", "Bytes at End"], by
                samples = answer(by, "thread", "samples", "--thread", "t-3")
                assert samples["weightType"] == "bytes" and samples["categoryBreakdown"]["totalSamples"] == size, (by, size, samples)
            finally:
                server.terminate()


def node_graph(path):
    """Of a .heapsnapshot: (type, name, size) of each node, and the targets of each."""
    file = json.loads(path.read_text(encoding="utf-8"))
    meta = file["snapshot"]["meta"]
    width, edge_width = len(meta["node_fields"]), len(meta["edge_fields"])
    assert len(file["nodes"]) == width * file["snapshot"]["node_count"]
    assert len(file["edges"]) == edge_width * file["snapshot"]["edge_count"]
    nodes, targets, edge = [], [], 0
    for at in range(0, len(file["nodes"]), width):
        kind, name, _, size, count = file["nodes"][at:at + 5]
        nodes.append((meta["node_types"][0][kind], file["strings"][name], size))
        rows = file["edges"][edge_width * edge:edge_width * (edge + count)]
        assert all(target % width == 0 for target in rows[2::edge_width])
        targets.append([target // width for target in rows[2::edge_width]])
        edge += count
    assert edge == file["snapshot"]["edge_count"] and len(set(file["nodes"][2::width])) == len(nodes)
    return nodes, targets


def reached(targets, begin):
    found, todo = set(begin), list(begin)
    while todo:
        for target in targets[todo.pop()]:
            if target not in found:
                found.add(target)
                todo.append(target)
    return found


GARBAGE = """
import gc
gc.disable()
for _ in range(5000):
    cycle = []
    cycle.append(cycle)
del cycle
print("ready", flush=True)
input()
"""


def check_garbage(work):
    """What a Python process has lost in cycles is below "(garbage)", and is no leak."""
    with subprocess.Popen([sys.executable, "-c", GARBAGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        snapshot = work.folder / "garbage.hsnap"
        subprocess.run([work.heapsnap, "attach", str(process.pid), "--references", "yes", "-qo", snapshot], check=True)
        process.stdin.close()
    said = work.json("leaks", snapshot)
    assert said["garbage_blocks"] >= 5000, said
    nodes, targets = node_graph(work.export(snapshot, "heapsnapshot", name="garbage"))
    by_roots = reached(targets, [1])
    garbage = reached(targets, [3]) - by_roots - {3}
    assert (len(garbage), sum(nodes[at][2] for at in garbage)) == (said["garbage_blocks"], said["garbage_bytes"])
    leaked = reached(targets, [2]) - by_roots - garbage - {2}
    assert (len(leaked), sum(nodes[at][2] for at in leaked)) == (said["leaked_blocks"], said["leaked_bytes"])


def heapsnapshot(work):
    """As V8's format is: every block a node, of the size that heapsnap says; what only "(leaked)" leads to is what leaks."""
    snapshot, blocks, size = work.take()
    nodes, targets = node_graph(work.export(snapshot, "heapsnapshot"))
    of_blocks = [node for node in nodes if node[0] not in ("synthetic", "hidden")]
    assert (len(of_blocks), sum(node[2] for node in of_blocks)) == (blocks, size), (len(of_blocks), blocks, size)
    # Of all nodes, too: those that are malloc's own have no size.
    assert sum(node[2] for node in nodes) == size and {node[1:] for node in nodes if node[0] == "hidden"} == {("(malloc's own)", 0)}
    assert [node[1] for node in nodes[:4]] == ["", "(GC roots)", "(leaked)", "(garbage)"] and targets[0] == [1, 2, 3]
    assert len(reached(targets, [0])) == len(nodes), "not all nodes are below the root"
    leaked = [nodes[at] for at in set(range(len(nodes))) - reached(targets, [1]) - {0, 2, 3}]
    expected = work.json("leaks", snapshot)
    assert (len(leaked), sum(node[2] for node in leaked)) == (expected["leaked_blocks"], expected["leaked_bytes"]), leaked
    check_garbage(work)
    types = {row["type"]: (row["count"], row["bytes"]) for row in work.json("types", snapshot)["types"] if row.get("type")}
    assert types
    for name, (count, total) in types.items():
        found = [node[2] for node in of_blocks if node[:2] == ("object", name)]
        assert (len(found), sum(found)) == (count, total), (name, len(found), count)


def memlab(work):
    """memlab opens it, and what its dominators say that "(leaked)" retains is what leaks."""
    install_package("@memlab/heap-analysis", work.npm)
    snapshot, blocks, size = work.take()
    found = work.run_node("memlab.cjs", work.export(snapshot, "heapsnapshot", name="exported.heapsnapshot"))
    leaked = work.json("leaks", snapshot)["leaked_bytes"]
    assert found == {"blocks": blocks, "bytes": size, "leaked": leaked}, (found, blocks, size, leaked)


def rows_of(path, kind):
    return [row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if row["kind"] == kind]


def ndjson(work):
    """Chunks name their call stacks, types and owners by number, and the lines of these follow: sums are those of heapsnap."""
    for by, snapshot, blocks, size in work.both():
        exported = work.export(snapshot, "ndjson")
        live = [row for row in rows_of(exported, "chunk") if row["state"] in ("used", "mmapped")]
        if by == "stacks":
            known = [row for row in live if "stack" in row]
            assert (len(known), sum(row["usable"] - row["slack"] % 31 for row in known)) == (blocks, size), (len(known), blocks)
            assert {row["stack"] for row in known} <= {row["stack"] for row in rows_of(exported, "stack")}
            continue
        own = [row for row in live if row.get("mallocs_own")]
        assert own and not any(row.get("owner") or row.get("leaked") for row in own), own
        assert (len(live) - len(own), sum(row["usable"] for row in live) - sum(row["usable"] for row in own)) == (blocks, size), own
        leaked = [row for row in live if row.get("leaked")]
        said = work.json("leaks", snapshot)
        assert (len(leaked), sum(row["usable"] for row in leaked)) == (said["leaked_blocks"], said["leaked_bytes"]) and leaked
        assert not any("owner" in row for row in leaked)
        of_owner, of_type = collections.Counter(), collections.Counter()
        for row in live:
            of_owner[row.get("owner")] += row["usable"]
            of_type[row.get("type")] += row["usable"]
        owners = {row["name"]: of_owner[row["owner"]] for row in rows_of(exported, "owner") if row["owner"] in of_owner}
        assert sum(owners.values()) == size - said["leaked_bytes"], owners
        # By names that are the same in all processes, where the owners of `owners` are one by one; but what several roots
        # lead to together is one.
        retained = collections.Counter()
        for number, row in enumerate(work.json("owners", snapshot)["owners"]):
            retained["several roots" if row["kind"] == "several" else number] += row["retained_bytes"]
        assert sorted(owners.values())[-3:] == sorted(retained.values())[-3:], owners
        types = {row["name"]: of_type[row["type"]] for row in rows_of(exported, "type")}
        for row in work.json("types", snapshot)["types"]:
            if row.get("type"):
                assert types[row["type"]] == row["bytes"], row
        assert len(types) > 3, types


def parquet(work):
    """DuckDB reads the rows and writes them to Parquet as docs/exports.md says; both have the sums of heapsnap."""
    install_package("@duckdb/node-api", work.npm)
    source = HERE.parent.parent
    blocks = re.findall(r"<!-- run: parquet -->\n```sql\n(.*?)```", (source / "docs/exports.md").read_text(encoding="utf-8"), re.DOTALL)
    to_files, questions = blocks

    def ask(sql):
        done = subprocess.run(["node", source / "packaging/fleet/duckdb.mjs", ":memory:"], input=sql, capture_output=True, text=True,
                              cwd=work.folder, check=False, timeout=120)
        assert done.returncode == 0, (sql, done.stderr)
        return json.loads(done.stdout)

    snapshots = work.both()
    for _, snapshot, _, _ in snapshots:
        tracked = "tracking" in work.json("report", snapshot)
        for rows, name in (("flat", "chunks.ndjson"), ("frames", "frames.ndjson")):
            if rows == "flat" or tracked:
                work.export(snapshot, "ndjson", "--rows", rows, name=name)
        columns = [tuple(json.loads(line)) for line in (work.folder / "chunks.ndjson").read_text(encoding="utf-8").splitlines()]
        assert len(set(columns)) == 1 and columns[0] == tuple(re.findall(r"(\w+): '", to_files.partition("TO 'chunks'")[0])), set(columns)
        ask(to_files)
    every = "FROM 'chunks/*/*/*.parquet'"
    (tracked, _, stack_bytes), (leaking, _, in_use) = [(path, count, size) for _, path, count, size in snapshots]
    sums = ask(f"SELECT pid, count(*) AS chunks, sum(size) AS size, sum(coalesce(requested, usable)) FILTER (stack_id IS NOT NULL) AS requested, count(DISTINCT stack_id) AS stacks, "
               f"sum(usable) FILTER (state IN ('used', 'mmapped') AND leaked IS NOT NULL) AS known, sum(usable) FILTER (leaked) AS leaked, "
               f"any_value(host) AS host, any_value(exe) AS exe, any_value(taken_at_ms) AS at {every} GROUP BY pid")
    by_pid = {row["pid"]: row for row in sums}
    assert len(by_pid) == 2, sums
    for path in (tracked, leaking):
        report = work.json("report", path)
        row = by_pid[report["pid"]]
        states = report["states"].values()
        assert (row["chunks"], row["size"]) == (sum(state["count"] for state in states), sum(state["bytes"] for state in states)), (row, report["states"])
        assert (row["host"], row["exe"]) == (report["host"], report["exe"]), row
    assert by_pid[work.json("report", tracked)["pid"]]["requested"] == stack_bytes, (sums, stack_bytes)
    said = by_pid[work.json("report", leaking)["pid"]]
    leaks = work.json("leaks", leaking)
    assert said["leaked"] == leaks["leaked_bytes"] and said["known"] == in_use and said["requested"] is None, (said, leaks)
    # Types and owners, by their names.
    sums_of = {}
    for line in work.export(leaking, "ndjson", "--rows", "sums").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        sums_of.setdefault(row["kind"], {})[row["name"]] = row.get("bytes")
    of_leaking = f"{every} WHERE pid = {said['pid']}"
    owners = {row["owner"]: row["bytes"] for row in ask(f"SELECT owner, sum(usable) AS bytes {of_leaking} AND owner IS NOT NULL GROUP BY owner")}
    assert sums_of["owner"] and all(owners[name] == total for name, total in sums_of["owner"].items()), (owners, sums_of["owner"])
    types = {row["type"]: row["bytes"] for row in ask(f"SELECT type, sum(usable) AS bytes {of_leaking} AND type IS NOT NULL GROUP BY type")}
    expected = [row for row in work.json("types", leaking)["types"] if row.get("type")]
    assert expected and all(types[row["type"]] == row["bytes"] for row in expected), (types, expected)
    # The ids of stacks are those of the rows of sums, which are the same on every host.
    ids = {json.loads(line)["id"] for line in work.export(tracked, "ndjson", "--rows", "sums").read_text(encoding="utf-8").splitlines()
           if json.loads(line)["kind"] == "stack"}
    found = {row["stack_id"] for row in ask(f"SELECT DISTINCT stack_id {every} WHERE stack_id IS NOT NULL")}
    assert found == ids and found <= {row["stack_id"] for row in ask("SELECT DISTINCT stack_id FROM 'frames.parquet'")}, (len(found), len(ids))
    for question in filter(str.strip, questions.split(";")):
        assert ask(question), question


def progress(work):
    """What takes longer than half a second is said on a terminal, on a line that is gone at the end; elsewhere nothing is."""
    snapshot, _, _ = work.track()
    command = [work.heapsnap, "export", snapshot, "--format", "ndjson"]
    main, terminal = os.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        said = b""
        while b"writing ndjson, " not in said:  # its output is not read, so that it takes as long as that
            said += os.read(main, 4096)
        rows = process.stdout.read()
        with contextlib.suppress(OSError):  # EIO: the terminal has nobody else
            while more := os.read(main, 4096):
                said += more
    os.close(main)
    assert said.startswith(b"\r\x1b[Kwriting ndjson, ") and said.endswith(b"\r\x1b[K"), said
    assert len(rows) > 1 << 17 and process.returncode == 0, (len(rows), process.returncode)
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == rows and done.stderr == b"", done.stderr


def refusals(work):
    """What a snapshot does not have is said with what to do, before a byte is written."""
    with subprocess.Popen([work.known_leaks, work.leak_holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        reference_sources.said_blocks(process.stdout)
        plain = work.folder / "plain.hsnap"
        subprocess.run([work.heapsnap, "attach", str(process.pid), "-q", "--references", "no", "-o", plain], check=True)
        process.stdin.close()
    none = work.folder / "none"

    def refused(snapshot, code, said, *options):
        done = subprocess.run([work.heapsnap, "export", snapshot, "-o", none, *options], capture_output=True, text=True, check=False)
        assert done.returncode == code and said in done.stderr and not none.exists(), done
        return done.stderr

    for kind in ("folded", "pprof", "speedscope", "dhat", "heaptrack"):
        text = refused(plain, 5, "neither call stacks nor references", "--format", kind)
        assert "--references yes" in text and "heapsnap inject" in text, text
        refused(plain, 5, "was not tracked", "--format", kind, "--by", "stacks")
        refused(plain, 5, "no references between blocks", "--format", kind, "--by", "owners")
    refused(plain, 5, "no references between blocks", "--format", "heapsnapshot")
    assert "do:  leave --by out" in refused(plain, 2, "is not by stacks or owners", "--format", "ndjson", "--by", "owners")
    assert "do:  leave --rows out" in refused(plain, 2, "only --format ndjson has rows", "--format", "folded", "--rows", "flat")
    assert "do:  leave --heaps out" in refused(plain, 2, "only --format ptmallocdump", "--format", "folded", "--heaps", "main")
    refused(plain, 2, "--by", "--format", "folded", "--by", "types")
    tracked, _, _ = work.track()  # it has both
    owners = folded_lines(work.export(tracked, "folded", "--by", "owners").read_text(encoding="utf-8"))
    assert sum(owners.values()) == work.json("owners", tracked)["bytes_in_use"]


def main():
    case, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="heapsnap-exports-") as folder, contextlib.suppress(BrokenPipeError):
        globals()[case](Work(*arguments, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
