#!/usr/bin/env python3
"""Attaches many times to a sound program under load: nothing may be called damaged, missing or half changed.

    healthy_programs.py PROGRAM HEAPSNAP [--attaches N] [--starts S] [--first-start T] [--freeze HOW]
        [--references WHEN]

PROGRAM: java, node, perl, python, postgresql, mariadb, clangd. The attaches are spread over S starts of it, which
differ in its options. Each attach must succeed with chunks that add up and without a record of corruption; no copy may be
left as a zombie; the load checks the program's own data and may see no error. A snapshot that says otherwise is
kept, and its place printed. At the end: how long the program stood still, and how many threads were met inside of
malloc. Exits 77, with the reason, where the program is not installed.
"""

import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

import servers
import threaded_programs

HALF_CHANGED = "could not be stepped out of it"
SERVERS = {"postgresql": servers.PostgreSQL, "mariadb": servers.MariaDB}
PROGRAMS = {kind.name: kind for kind in threaded_programs.ALL} | SERVERS


def zombies(pid):
    """Copies of a process that nobody has waited for."""
    found = []
    for child in servers.children_of(pid):
        try:
            with open(f"/proc/{child}/stat", encoding="utf-8", errors="replace") as stat:
                name, _, rest = stat.read().partition("(")[2].rpartition(")")
            if name == "heapsnap-copy" and rest.split()[0] == "Z":
                found.append(child)
        except OSError:
            pass
    return found


def false_statements(report):
    wrong = [f"damage: {damage['what']}" for damage in report["corruptions"]]
    for arena in report["arenas"]:
        if arena["walked"] != arena["system_mem"]:
            wrong.append(f"arena {arena['index']}: walked {arena['walked']} bytes of {arena['system_mem']}")
    for malloc in report["mallocs"]:
        if (malloc["mmapped_count"], malloc["mmapped_bytes"]) != (malloc["n_mmaps"], malloc["mmapped_mem"]):
            wrong.append(f"{malloc['mmapped_count']} mmapped chunks of {malloc['mmapped_bytes']} bytes, mp_ says "
                         f"{malloc['n_mmaps']} of {malloc['mmapped_mem']}")
    if report["states"]["unknown"]["count"] != 0:
        wrong.append(f"unknown: {report['states']['unknown']}")
    if not report["arenas"]:
        wrong.append("no arena was found")
    wrong += [note for note in report["freeze"]["notes"] if HALF_CHANGED in note]
    return wrong


class Tally:
    def __init__(self):
        self.pauses, self.reaps, self.methods, self.notes = [], [], collections.Counter(), collections.Counter()
        self.inside = self.with_inside = self.half_changed = self.steps = 0

    def add(self, report):
        freeze = report["freeze"]
        self.pauses.append(freeze["pause_ns"] / 1e6)
        self.reaps.append(freeze["reap_pause_ns"] / 1e6)
        self.methods[freeze["method"]] += 1
        if freeze["method"] == "stop":
            self.notes["stop: " + "".join("#" if c.isdigit() else c for c in freeze["why"])] += 1
        self.inside += freeze["threads_in_malloc"]
        self.with_inside += freeze["threads_in_malloc"] != 0
        self.steps += freeze["steps"]
        for note in freeze["notes"] + report["notes"]:
            self.notes["".join("#" if c.isdigit() else c for c in note)] += 1
            self.half_changed += HALF_CHANGED in note

    def text(self):
        if not self.pauses:
            return "no attach"
        pauses = sorted(self.pauses)
        lines = [f"{len(pauses)} attaches ({', '.join(f'{n} {how}' for how, n in self.methods.items())}); stood still "
                 f"{pauses[len(pauses) // 2]:.2f} ms in the median, {pauses[-1]:.2f} ms at most, and "
                 f"{max(self.reaps):.2f} ms at most a second time; {self.inside} threads inside of malloc in "
                 f"{self.with_inside} attaches, {self.steps} steps; half changed {self.half_changed} times"]
        return "\n".join(lines + [f"  {count} x {note}" for note, count in self.notes.most_common()])


def attach(heapsnap, pid, folder, how, references):
    snapshot = f"{folder}/attach.hsnap"
    done = subprocess.run([heapsnap, "attach", str(pid), "-j", "-f", "--freeze", how, "--references", references,
                           "-o", snapshot],
                          capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return None, [f"attach ended with {done.returncode}: {done.stderr.strip()}"]
    report = json.loads(done.stdout)
    return report, false_statements(report)


def run_start(kind, turn, attaches, arguments, tally):
    """One start of the program; gives the number of failures."""
    failures = 0
    with tempfile.TemporaryDirectory(prefix="heapsnap-healthy-") as folder:
        os.chmod(folder, 0o755)
        program = kind(folder) if kind in SERVERS.values() else kind(folder, turn)
        try:
            program.start()
            for number in range(attaches):
                pids = program.pids()
                pid = pids[number % len(pids)]
                report, wrong = attach(arguments.heapsnap, pid, folder, arguments.freeze, arguments.references)
                if report is None and not os.path.exists(f"/proc/{pid}") and not program.healthy():
                    continue  # a backend whose client has ended
                if report:
                    tally.add(report)
                wrong += [f"copy {child} is left as a zombie" for child in zombies(pid)]
                unwell = program.healthy()
                if unwell:
                    wrong.append(f"{unwell}; its log: {program.log_tail()}")
                for sentence in wrong:
                    print(f"FAILED: {kind.name} {pid}, start {turn + 1}, attach {number + 1}: {sentence}", flush=True)
                if wrong and report and arguments.keep:
                    kept = f"{arguments.keep}/{kind.name}-{turn + 1}-{number + 1}.hsnap"
                    shutil.copy(f"{folder}/attach.hsnap", kept)
                    with open(f"/proc/{pid}/smaps", encoding="utf-8") as smaps, open(kept + ".smaps", "w") as copy:
                        copy.write(smaps.read())
                    print(f"  kept as {kept}")
                failures += len(wrong)
                if unwell:
                    break
        finally:
            program.stop()
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("heapsnap")
    parser.add_argument("--attaches", type=int, default=3)
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--first-start", type=int, default=0)
    parser.add_argument("--freeze", default="auto")
    parser.add_argument("--references", default="yes")
    parser.add_argument("--keep", help="a folder for snapshots that say something false")
    arguments = parser.parse_args()
    kind = PROGRAMS[arguments.program]
    reason = kind.missing()
    if not reason and kind in SERVERS.values() and os.getuid() != 0:
        reason = "servers are started as their own users, which needs root"
    if reason:
        print("skipped:", reason)
        sys.exit(77)

    failures = 0
    tally = Tally()
    for turn in range(arguments.starts):
        share = arguments.attaches * (turn + 1) // arguments.starts - arguments.attaches * turn // arguments.starts
        failures += run_start(kind, turn + arguments.first_start, share, arguments, tally)
        print(f"{kind.name}: after start {turn + 1}: {len(tally.pauses)} attaches, {failures} failures", flush=True)
    print(f"{kind.name}: {tally.text()}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
