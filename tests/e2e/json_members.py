#!/usr/bin/env python3
"""Every member of every JSON object that heapsnap prints is in docs/json.md.

    json_members.py HEAPSNAP DOCUMENT

The target is this process.
"""

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile


def members(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from members(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner)


def largest_block(heapsnap, snapshot):
    report = subprocess.run([heapsnap, "report", snapshot, "-j"], capture_output=True, text=True, check=True)
    return json.loads(report.stdout)["largest_used"][0]["addr"]


def main():
    heapsnap, document = sys.argv[1:]
    with open(document, encoding="utf-8") as file:
        # What stands in code marks, or is spelled as JSON.
        known = set(re.findall(r"[a-z0-9_]+", " ".join(re.findall(r"`([^`]+)`", file.read()))))
    with tempfile.TemporaryDirectory() as folder:
        snapshot = f"{folder}/self.hsnap"
        tracked = f"{folder}/tracked.hsnap"
        pid = str(os.getpid())
        subprocess.run([heapsnap, "run", "--at-exit", tracked, "--", sys.executable, "-c", "pass"], check=True)
        with_contents = f"{folder}/contents.hsnap"
        subprocess.run([heapsnap, "attach", pid, "-q", "--contents", "-o", with_contents], check=True)
        block = largest_block(heapsnap, with_contents)
        config = f"{folder}/collect.toml"
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'store = "{folder}/store"\nlock = "{folder}/lock"\nkeep = {{ last = 1 }}\n'
                       'skip = { memory_below = 1, disk_below = 1, memory_pressure_over = "100%", '
                       'io_pressure_over = "100%" }\n'
                       f'[[target]]\nname = "self"\npid_file = "{folder}/pid"\n')
        with open(f"{folder}/pid", "w", encoding="ascii") as file:
            file.write(pid)
        running = subprocess.Popen([heapsnap, "run", "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        running.stdin.write(b"x")
        running.stdin.flush()
        running.stdout.read(1)  # it runs, with the tracker
        with open(f"/proc/{running.pid}/task/{running.pid}/children", encoding="ascii") as file:
            watched = file.read().strip()
        printed = [subprocess.run([heapsnap, *command], capture_output=True, text=True, check=True).stdout
                   for command in (["attach", pid, "-j", "-o", snapshot],
                                   ["report", snapshot, "-j"],
                                   ["export", snapshot, "--format", "ndjson"],
                                   ["report", with_contents, "--at", block, "-j"],
                                   ["owners", pid, "-j"],
                                   ["types", pid, "-j"],
                                   ["objects", pid, "-j"],
                                   ["why", block, pid, "-j"],
                                   ["diff", snapshot, with_contents, tracked, "-j", "--fail-on-growth", "100000%"],
                                   ["doctor", pid, "-j"],
                                   ["collect", "--config", config, "-j"],
                                   ["prune", "--config", config, "-j"],
                                   ["history", snapshot, with_contents, tracked, "-j"],
                                   ["watch", watched, "-j", "--every", "1ms", "--interval", "1ms", "--count", "2",
                                    "--keep", "1", "-o", folder],
                                   ["report", tracked, "-j"],
                                   ["export", tracked, "--format", "ndjson"],
                                   ["export", tracked, "--format", "ndjson", "--rows", "sums"],
                                   ["export", tracked, "--format", "ndjson", "--rows", "flat"],
                                   ["export", tracked, "--format", "ndjson", "--rows", "frames"],
                                   *(["stacks", tracked, "-j", "--by", group]
                                     for group in ("stack", "function", "module", "thread")))]
        running.communicate()
        libc = ctypes.CDLL(None)
        for _ in range(100):
            libc.malloc(1000)
        leaks = subprocess.run([heapsnap, "leaks", pid, "-j", "--all"], stdout=subprocess.PIPE, text=True)
        assert leaks.returncode == 1 and json.loads(leaks.stdout)["leaks"], leaks
        printed.append(leaks.stdout)
    names = {name for text in printed for line in text.splitlines() for name in members(json.loads(line))}
    missing = sorted(names - known)
    print(f"{len(names)} members, not in {os.path.basename(document)}: {missing}")
    return 0 if len(names) > 50 and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
