#!/usr/bin/env python3
"""heapsnap diff against a program that knows what grows in it: diff.py CASE HEAPSNAP HOLDER REBUILT

Three of its ten containers grow; the others come and go, and one of these ends larger than all that grew. REBUILT is
another build of HOLDER."""

import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import container_groups

GROWING = ["g_sessions", "g_events", "g_index"]
GROWING_CLASSES = ["Session", "Event", "Entry"]
GROWING_FUNCTIONS = ["add_session", "add_event", "add_entry"]
TOLERANCE = 0.05


class Holder:
    """The program at a step, and what it counts there."""

    def __init__(self, *argv, step):
        self.process = subprocess.Popen([*map(str, argv), str(step)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.counts = self.read()
        self.pid = self.process.pid

    def read(self):
        counts = {}
        for line in self.process.stdout:
            words = line.split()
            if words == ["ready"]:
                return counts
            if words[0] in ("container", "class"):
                counts[words[1]] = int(words[2])
        raise RuntimeError("the holder ended")

    def go_to(self, step):
        self.process.stdin.write(f"{step}\n")
        self.process.stdin.flush()
        self.counts = self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def run(heapsnap, *words, code=0):
    done = subprocess.run([heapsnap, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout[-3000:], done.stderr)
    return done.stdout if code in (0, 1) else done.stderr


def attach(heapsnap, pid, path, references="yes"):
    run(heapsnap, "attach", pid, "-q", "--literal-name", "--references", references, "-o", path)
    return path


def take(heapsnap, folder, programs, tracked=False):
    """Five snapshots, of the first program up to step 1, of the last from step 2 on; paths, and what was counted."""
    paths, counts = [], []
    for program, steps in ([(programs[0], range(5))] if len(programs) == 1 else
                           [(programs[0], range(2)), (programs[1], range(2, 5))]):
        argv = [heapsnap, "run", "--", program] if tracked else [program]
        with Holder(*argv, step=steps[0]) as holder:
            pid = container_groups.only_child(holder.pid) if tracked else holder.pid
            for step in steps:
                holder.go_to(step)
                paths.append(attach(heapsnap, pid, folder / f"step{step}.hsnap"))
                counts.append(holder.counts)
    return paths, counts


def seconds(taken_at):
    """The format has nanoseconds, of which datetime takes none."""
    whole, fraction = taken_at.rstrip("Z").split(".")
    time = datetime.datetime.fromisoformat(whole + "+00:00").timestamp()
    return time + float("0." + fraction)


def slope(times, values):
    """Theil and Sen's."""
    pairs = [(values[j] - values[i]) / (times[j] - times[i]) for i in range(len(times)) for j in range(i + 1, len(times))]
    return statistics.median(pairs)


def section_of(diff, by):
    [section] = [section for section in diff["sections"] if section["by"] == by]
    return section


def check_slope(row, times, values):
    for found, true in ((row["slope"]["per_second"], slope(times, values)),
                        (row["slope"]["per_step"], slope(range(len(values)), values))):
        assert abs(found - true) <= TOLERANCE * true, (row, found, true, values)
    return row["slope"]["per_step"] / slope(range(len(values)), values)


def check_growth(heapsnap, paths, counts):
    diff = json.loads(run(heapsnap, "diff", *paths, "-j", "--pass-over", "*counted_room"))
    assert diff["kind"] == "diff" and diff["version"] == 1 and diff["in_time"], diff
    times = [seconds(snapshot["taken_at"]) for snapshot in diff["snapshots"]]
    agreement = []
    for by, names in (("owner", GROWING), ("type", GROWING_CLASSES)):
        section = section_of(diff, by)
        assert section["comparable"] and section["steps"] == 4, section
        first = section["rows"][:3]
        assert sorted(row["name"] for row in first) == sorted(names), (by, [row["name"] for row in section["rows"]])
        slopes = [row["slope"]["per_second"] for row in first]
        assert slopes == sorted(slopes, reverse=True), slopes
        for row in first:
            assert row["only_grows"] and row["steps_up"] == 4, row
            agreement.append(check_slope(row, times, [each[row["name"]] for each in counts]))
        # The largest growth is of one that also shrank.
        assert any(row["growth"] > first[0]["growth"] and not row["only_grows"] for row in section["rows"][3:]), section
        # What does not change is no row.
        assert not {"g_words", "g_tree", "Branch"} & {row["name"] for row in section["rows"]}, section
    # By owner, all the others, too.
    owners = {row["name"]: row["bytes"] for row in section_of(diff, "owner")["rows"]}
    for name in ("g_cache", "g_jobs", "g_users", "g_buffers", "g_log"):
        for found, each in zip(owners[name], counts):
            assert abs(found - each[name]) <= TOLERANCE * each[name], (name, owners[name], each[name])
    sessions = next(row for row in section_of(diff, "owner")["rows"] if row["name"] == "g_sessions")

    def names_below(row):
        return {row["name"]}.union(*(names_below(held) for held in row.get("holds", [])))

    assert "Session" in names_below(sessions), sessions
    for by in ("size", "arena", "rss"):
        assert section_of(diff, by)["comparable"], by
    assert any(row["name"] == "main_arena" for row in section_of(diff, "arena")["rows"]), section_of(diff, "arena")
    print("slopes agree by", ", ".join(f"{each:.4f}" for each in agreement))
    return diff


def check_text(heapsnap, paths):
    for width in (60, 80, 132):
        text = run(heapsnap, "diff", *paths, "--color", "never", "--width", width)
        wide = [line for line in text.splitlines() if len(line) > width and " " in line.strip() and not line.startswith("    heapsnap ")]
        assert not wide, wide
    owners = text[text.index("Growth by owner"):].split("\n\n")[0].splitlines()
    first = [line.split()[0] for line in owners[2:] if not line.startswith("    ")][:3]
    assert sorted(first) == sorted(GROWING), owners[:12]
    assert "4 of 4" in owners[2], owners[2]
    assert "What next" in text and f"heapsnap owners {paths[-1]}" in text, text
    return text


def one_process(heapsnap, folder, holder, _):
    paths, counts = take(heapsnap, folder, [holder])
    diff = check_growth(heapsnap, paths, counts)
    assert diff["same_process"] and diff["same_build"], diff
    text = check_text(heapsnap, paths)
    assert text.startswith(f"Process {diff['snapshots'][0]['pid']}: growing_holder\n"), text
    # Only one kind of rows.
    alone = run(heapsnap, "diff", *paths, "--by", "type", "--color", "never")
    assert "Growth by type" in alone and "Growth by owner" not in alone, alone
    assert "Session" in alone and "--limit 0" in run(heapsnap, "diff", *paths, "--by", "type", "--limit", "1")
    # Not in the order of time: no rates, but said.
    backwards = json.loads(run(heapsnap, "diff", *reversed(paths), "-j"))
    assert not backwards["in_time"], backwards
    row = next(row for row in section_of(backwards, "owner")["rows"] if row["name"] == "g_sessions")
    assert row["growth"] < 0 and "per_second" not in row["slope"] and row["slope"]["per_step"] < 0, row
    assert "not taken in this order" in run(heapsnap, "diff", *reversed(paths))
    # The same twice: nothing.
    same = json.loads(run(heapsnap, "diff", paths[0], paths[0], "-j", "--fail-on-growth", "0%"))
    assert all(not section["rows"] for section in same["sections"]), same
    text = run(heapsnap, "diff", paths[0], paths[0], "--color", "never")
    assert "both are of the same moment" in text and "heapsnap owners" not in text, text
    assert f"\n    heapsnap attach --references yes {diff['snapshots'][0]['pid']} -o later.hsnap\n" in text, text


def rebuilt(heapsnap, folder, holder, other):
    paths, counts = take(heapsnap, folder, [holder, other])
    diff = check_growth(heapsnap, paths, counts)
    assert not diff["same_process"] and not diff["same_build"], diff
    builds = {snapshot["build_id"] for snapshot in diff["snapshots"]}
    assert len(builds) == 2 and "" not in builds, builds
    # Nothing of what the other build has elsewhere seems new.
    rows = {row["name"]: row for row in section_of(diff, "owner")["rows"]}
    assert [value > 0 for value in rows["g_extra"]["bytes"]] == [False, False, True, True, True], rows["g_extra"]
    assert not [name for name in rows if "+0x" in name], sorted(rows)
    head = " ".join(check_text(heapsnap, paths).split("from")[0].split())
    first = diff["snapshots"][0]
    for snapshot in (first, next(each for each in diff["snapshots"] if each["exe"] != first["exe"])):
        for said in (snapshot["exe"], snapshot["build_id"][:8], f"process {snapshot['pid']}", snapshot["taken_at"][:16]):
            assert said in head, (said, head)
    assert head.startswith("Different "), head


def tracked(heapsnap, folder, holder, other):
    paths, counts = take(heapsnap, folder, [holder, other], tracked=True)
    diff = check_growth(heapsnap, paths, counts)
    times = [seconds(snapshot["taken_at"]) for snapshot in diff["snapshots"]]
    rows = [row for row in section_of(diff, "stack")["rows"] if row["only_grows"]]
    first = [[name for name in GROWING_FUNCTIONS if name in row["name"]] for row in rows[:3]]
    assert sorted(first) == sorted([name] for name in GROWING_FUNCTIONS), section_of(diff, "stack")["rows"][:5]
    for row, [function] in zip(rows, first):
        container = GROWING[GROWING_FUNCTIONS.index(function)]
        check_slope(row, times, [each[container] for each in counts])
    text = run(heapsnap, "diff", *paths, "--by", "stack", "--color", "never")
    assert "add_session" in text and "  ← " in text and "Not compared" not in text, text


def bounds(heapsnap, folder, holder, _):
    with Holder(holder, step=0) as program:
        old = attach(heapsnap, program.pid, folder / "old.hsnap")
        before = sum(value for name, value in program.counts.items() if name.startswith("g_"))
        program.go_to(4)
        new = attach(heapsnap, program.pid, folder / "new.hsnap")
        after = sum(value for name, value in program.counts.items() if name.startswith("g_"))
        pid = program.pid
        why = run(heapsnap, "diff", old, pid, code=2)
        assert "diff reads snapshots" in why and f"attach --references yes {pid}" in why, why
    grown = after - before
    for bound, code in ((f"{grown * 2}", 0), (f"{grown // 2}", 1), ("1%", 1), ("10000%", 0), ("0%", 1)):
        found = json.loads(run(heapsnap, "diff", old, new, "-j", "--fail-on-growth", bound, code=code))
        verdict = found["fail_on_growth"]
        assert verdict["past"] == (code == 1) and verdict["bound"] == bound and verdict["of"] == "in use", verdict
        assert abs(verdict["growth"] - grown) < TOLERANCE * grown, (verdict, grown)
    run(heapsnap, "diff", new, old, "--fail-on-growth", "0%")
    # Of one kind of sums: nothing is leaked.
    run(heapsnap, "diff", old, new, "--by", "leak", "--fail-on-growth", "0%")
    text = run(heapsnap, "diff", old, new, "--by", "type", "--fail-on-growth", "1%", code=1)
    assert "past the bound of 1%" in " ".join(text.split()), text
    for wrong in ("-1%", "x", "1%%", "%", "nan%", "0"):
        assert "--fail-on-growth" in run(heapsnap, "diff", old, new, f"--fail-on-growth={wrong}", code=2), wrong
    assert "only one" in run(heapsnap, "diff", old, code=2)
    run(heapsnap, "diff", code=2)
    assert "--by" in run(heapsnap, "diff", old, new, "--by", "name", code=2)
    assert "at most 100" in run(heapsnap, "diff", *[old] * 101, code=2)
    damaged = folder / "damaged.hsnap"
    damaged.write_bytes(new.read_bytes()[:-100])
    assert "damaged.hsnap" in run(heapsnap, "diff", old, damaged, code=6)


def lacks(heapsnap, folder, holder, _):
    """What one of two does not say is named, with how to get it; the rest is compared."""
    with Holder(holder, step=0) as program:
        old = attach(heapsnap, program.pid, folder / "old.hsnap")
        program.go_to(1)
        middle = attach(heapsnap, program.pid, folder / "middle.hsnap", references="no")
        program.go_to(4)
        new = attach(heapsnap, program.pid, folder / "new.hsnap")
        pid = program.pid
    found = json.loads(run(heapsnap, "diff", old, middle, "-j"))
    for by, comparable in (("owner", False), ("type", False), ("leak", False), ("stack", False), ("size", True),
                           ("arena", True), ("rss", True)):
        section = section_of(found, by)
        assert section["comparable"] == comparable and bool(section["rows"]) == comparable, section
    assert section_of(found, "owner")["lacks"] == ["", "no-references"], found
    text = run(heapsnap, "diff", old, middle, "--color", "never")
    words = " ".join(text.split())
    assert "owners, types and leaks:" in words and f"heapsnap attach --references yes {pid}" in words, text
    assert f"Process {pid} does not run here. To compare call stacks, start it under heapsnap:" in words, text
    assert "heapsnap run -- COMMAND" in words and "Growth by size" in words, text
    why = run(heapsnap, "diff", old, middle, "--by", "owner", "--fail-on-growth", "1%", code=5)
    assert "by owner why: the last snapshot does not tell it" in " ".join(why.split()), why
    # With a third one, by the two that say it.
    partly = json.loads(run(heapsnap, "diff", old, middle, new, "-j"))
    owners = section_of(partly, "owner")
    assert owners["comparable"] and owners["steps"] == 1, owners
    assert all(row["bytes"][1] == -1 for row in owners["rows"]), owners
    assert "in some of the snapshots" in " ".join(run(heapsnap, "diff", old, middle, new).split())
    # Growth that the first or the last one does not tell is within no bound.
    run(heapsnap, "diff", old, middle, new, "--by", "owner", "--fail-on-growth", "1%", code=1)
    for snapshots, missing in (((old, new, middle), "last"), ((middle, old, new), "first")):
        why = run(heapsnap, "diff", *snapshots, "--by", "owner", "--fail-on-growth", "10000%", code=5)
        assert f"the {missing} snapshot does not tell it" in " ".join(why.split()), why


def core(heapsnap, folder, holder, _):
    """A snapshot of a process beside one of a core of it: the same process, in which nothing grew."""
    if not shutil.which("gcore"):
        print("skipped: there is no gcore")
        sys.exit(77)
    with Holder(holder, step=1) as program:
        live = attach(heapsnap, program.pid, folder / "live.hsnap")
        subprocess.run(["gcore", "-o", folder / "core", str(program.pid)], check=True, capture_output=True)
        pid = program.pid
    dumped = folder / "core.hsnap"
    run(heapsnap, "core", folder / f"core.{pid}", "-q", "--references", "yes", "-o", dumped)
    found = json.loads(run(heapsnap, "diff", live, dumped, "-j"))
    assert found["same_process"] and found["same_build"], found["snapshots"]
    assert all(not section["rows"] for section in found["sections"]), found
    text = run(heapsnap, "diff", live, dumped, "--color", "never")
    assert text.startswith(f"Process {pid}: growing_holder\n") and "heapsnap run -- COMMAND\n" in text, text
    assert f"\n    heapsnap attach --references yes {pid} -o later.hsnap\n" in text, text


def main():
    case, heapsnap, holder, other = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        {"one_process": one_process, "rebuilt": rebuilt, "tracked": tracked, "bounds": bounds,
         "lacks": lacks, "core": core}[case](heapsnap, pathlib.Path(folder), os.path.abspath(holder), os.path.abspath(other))
    return 0


if __name__ == "__main__":
    sys.exit(main())
