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
    if abs(total - rss["process_rss"]) > TOLERANCE * rss["process_rss"]:
        wrong.append(f"the table adds up to {total}, the resident set was {rss['process_rss']}")
    # The resident set moves under load; what /proc showed before and after are its bounds.
    low, high = min(rss_before, rss_after), max(rss_before, rss_after)
    if not low * (1 - TOLERANCE) <= total <= high * (1 + TOLERANCE):
        wrong.append(f"the table adds up to {total}, /proc showed {rss_before} and {rss_after}")
    return wrong


def attach(heapsnap, pid, snapshot):
    before = resident_set(pid)
    run = subprocess.run([heapsnap, "attach", str(pid), "-q", "-f", "-o", snapshot],
                         capture_output=True, text=True)
    after = resident_set(pid)
    if run.returncode != 0:
        return None, [f"attach failed ({run.returncode}): {run.stderr.strip()}"]
    report = json.loads(subprocess.run([heapsnap, "report", "-j", snapshot], check=True,
                                       capture_output=True).stdout)
    return report, differences(report, before, after)


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

    failures = 0
    with tempfile.TemporaryDirectory(prefix="heapsnap-accounting-") as folder:
        os.chmod(folder, 0o755)
        server = kind(folder)
        try:
            server.start()
            for pid in server.pids():
                for turn in range(arguments.attaches):
                    report, wrong = attach(arguments.heapsnap, pid, f"{folder}/accounting.hsnap")
                    unwell = server.healthy()
                    if unwell:
                        wrong.append(unwell)
                    line = f"{kind.name} {pid} attach {turn + 1}: "
                    print(line + (describe(report) if report else ""))
                    for sentence in wrong:
                        print(f"  FAILED: {sentence}")
                    failures += len(wrong)
                    if unwell:
                        sys.exit(1)
        finally:
            server.stop()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
