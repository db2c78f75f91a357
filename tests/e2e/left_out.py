#!/usr/bin/env python3
"""Memory that a fork leaves out (MADV_DONTFORK) or wipes (MADV_WIPEONFORK): what is read of a copy is what is read
while the target stands, and nothing of it is taken for damage. left_out.py HEAPSNAP TARGET PART ADVICE"""

import json
import os
import subprocess
import sys
import tempfile

SKIPPED = 77


def attach(heapsnap, pid, how):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([heapsnap, "attach", str(pid), "--freeze", how, "--references", "no", "-j", "-o",
                               os.path.join(folder, "a.hsnap")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (how, done.returncode, done.stderr)
    return json.loads(done.stdout.replace(folder, "FOLDER"))  # advice names the snapshot, too


def facts(report):
    """What does not depend on how and when it was taken."""
    return {key: value for key, value in report.items() if key not in ("freeze", "snapshot", "snapshot_bytes", "taken_at")}


def differences(a, b, path=""):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a.keys() | b.keys():
            yield from differences(a.get(key), b.get(key), f"{path}.{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (left, right) in enumerate(zip(a, b)):
            yield from differences(left, right, f"{path}[{i}]")
    elif a != b:
        yield f"{path}: {a!r}, {b!r}"


def check_hole(heapsnap, pid):
    """What a thread maps on its way out of malloc, in the copy, lies nowhere where the process has something else."""
    inside = 0
    for _ in range(20):
        report = attach(heapsnap, pid, "fork")
        assert report["freeze"]["method"] == "fork" and not report["freeze"]["notes"], report["freeze"]
        assert report["corruptions"] == [], report["corruptions"]
        inside += report["freeze"]["threads_in_malloc"]
    assert inside != 0, "no thread was inside malloc"


def main():
    heapsnap, target, part, advice = sys.argv[1:]
    with subprocess.Popen([target, part, advice], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        said = process.stdout.readline().strip()
        if said != "ready":
            print(f"skipped: {said}")
            return SKIPPED
        if part == "hole":
            check_hole(heapsnap, process.pid)
            process.kill()
            return 0
        by_stop = attach(heapsnap, process.pid, "stop")
        by_fork = attach(heapsnap, process.pid, "fork")
        process.stdin.close()
        process.stdin = None
        assert process.wait() == 0
    freeze = by_fork["freeze"]
    expected = "stop" if part == "code" else "fork"
    assert freeze["method"] == expected, freeze
    if part == "code":
        assert "MADV_DONTFORK" in freeze["why"], freeze
    assert by_stop["corruptions"] == [], by_stop["corruptions"]
    found = list(differences(facts(by_stop), facts(by_fork)))
    assert not found, "\n".join(["stop and fork differ:"] + found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
