#!/usr/bin/env python3
"""Attaches to a real server under load and checks that its chunks add up.

    accounting.py SERVER HEAPSNAP [--attaches N]

For each of its processes and each attach: the chunks of every arena add up to system_mem, the mmapped
chunks to what mp_ says, nothing is reported as damaged, and the table of the report adds up to the
resident set within 1 %, as heapsnap saw it and as /proc shows it. The server continues without an
error. Prints a line per attach. Exits 77, with the reason, if the server is not installed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import servers

TOLERANCE = 0.01


def resident_set(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def differences(report, rss_before, rss_after):
    """Sentences; empty when all is well."""
    wrong = []
    for arena in report["arenas"]:
        if arena["walked"] != arena["system_mem"]:
            wrong.append(f"arena {arena['index']}: walked {arena['walked']} bytes, system_mem says "
                         f"{arena['system_mem']}")
    for malloc in report["mallocs"]:
        if malloc["mmapped_count"] != malloc["n_mmaps"]:
            wrong.append(f"{malloc['mmapped_count']} mmapped chunks, mp_ says {malloc['n_mmaps']}")
        if malloc["mmapped_bytes"] != malloc["mmapped_mem"]:
            wrong.append(f"{malloc['mmapped_bytes']} mmapped bytes, mp_ says {malloc['mmapped_mem']}")
    wrong += [f"damage: {damage['what']}" for damage in report["corruptions"]]
    if not report["arenas"]:
        wrong.append("no arena was found")
    rss = report["rss"]
    total = rss["resident"] - rss["hugetlb"]
    rows = sum(row["resident"] for row in rss["rows"].values())
    if rows != rss["resident"]:
        wrong.append(f"the rows add up to {rows}, the total is {rss['resident']}")
    # The resident set moves under load; what /proc showed before and after are its bounds. Shared pages are counted
    # before the freeze.
    low, high = min(rss_before, rss_after), max(rss_before, rss_after)
    if abs(total - rss["process_rss"]) > TOLERANCE * rss["process_rss"] + (high - low):
        wrong.append(f"the table adds up to {total}, the resident set was {rss['process_rss']}")
    if not low * (1 - TOLERANCE) <= total <= high * (1 + TOLERANCE):
        wrong.append(f"the table adds up to {total}, /proc showed {rss_before} and {rss_after}")
    return wrong


class Attach:
    """One of a process. Its snapshot is read when the server has ended: that would keep a loaded server busy for as
    long."""

    def __init__(self, heapsnap, pid, turn, folder):
        self.heapsnap, self.name, self.snapshot = heapsnap, f"{pid} attach {turn}", f"{folder}/{pid}.{turn}.hsnap"
        self.before = resident_set(pid)
        # Who holds what, and an interpreter's objects, are looked at once: neither is a sum of chunks. (In the long
        # form each time.)
        is_first = turn == 1 or os.environ.get("HEAPSNAP_LONG") == "1"
        words = [] if is_first else ["--references", "no", "--runtimes", "no"]
        run = subprocess.run([heapsnap, "attach", str(pid), "-q", *words, "-o", self.snapshot], capture_output=True,
                             text=True, check=False)
        self.after = resident_set(pid)
        self.wrong = []
        if run.returncode != 0:
            self.wrong.append(f"attach failed ({run.returncode}): {run.stderr.strip()}")
        elif not os.path.exists(self.snapshot):
            self.wrong.append("attach succeeded, and there is no snapshot")

    def check(self, server_name):
        """Prints what it saw and what is wrong; the number of that."""
        line = f"{server_name} {self.name}: "
        if os.path.exists(self.snapshot):
            report = json.loads(subprocess.run([self.heapsnap, "report", "-j", self.snapshot], check=True,
                                               capture_output=True).stdout)
            self.wrong += differences(report, self.before, self.after)
            line += describe(report)
        print(line)
        for sentence in self.wrong:
            print(f"  FAILED: {sentence}")
        return len(self.wrong)


def describe(report):
    rss = report["rss"]
    freeze = report["freeze"]
    glibc = report["mallocs"][0] if report["mallocs"] else {"glibc": "?", "discovery": "?"}
    total = rss["resident"] - rss["hugetlb"]
    return (f"{len(report['arenas'])} arenas, {glibc['discovery']}, {freeze['method']} "
            f"{freeze['pause_ns'] / 1e6:.2f} ms, {freeze['threads']} threads, "
            f"table {total / 2**20:.2f} MiB of {rss['process_rss'] / 2**20:.2f} MiB "
            f"({100 * total / max(rss['process_rss'], 1):.2f} %)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("heapsnap")
    parser.add_argument("--attaches", type=int, default=10)
    arguments = parser.parse_args()
    kind = servers.runnable(arguments.server)

    attaches = []
    with tempfile.TemporaryDirectory(prefix="heapsnap-accounting-") as folder:
        os.chmod(folder, 0o755)
        server = kind(folder)
        unwell = None
        try:
            server.start()
            for pid in server.pids():
                for turn in range(arguments.attaches):
                    if unwell:
                        break
                    try:
                        attaches.append(Attach(arguments.heapsnap, pid, turn + 1, folder))
                    except FileNotFoundError:
                        pass  # it has ended, as workers do; whether it should have, the server tells
                    unwell = server.healthy()
        finally:
            server.stop()
        failures = sum(attach.check(kind.name) for attach in attaches)
    if unwell:
        print(f"  FAILED: {unwell}")
    sys.exit(1 if failures or unwell else 0)


if __name__ == "__main__":
    main()
