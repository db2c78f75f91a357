#!/usr/bin/env python3
"""A tracked program that afterwards forbids itself all system calls but those that malloc itself needs goes on, is
recorded, and its threads have their names.

    later_filter.py CASE HEAPSNAP TARGET
"""

import json
import subprocess
import sys
import tempfile

from tracked_process import output_of

SKIP = 77


def expect_line(target, line):
    said = target.stdout.readline().strip()
    if said == line:
        return
    code = target.wait(timeout=60)
    if code == SKIP:
        sys.exit(SKIP)
    raise RuntimeError(f"{said!r} instead of {line!r}; the program ended with {code}")


def pid_of_command(heapsnap_pid):
    with open(f"/proc/{heapsnap_pid}/task/{heapsnap_pid}/children", encoding="ascii") as children:
        return int(children.read().split()[0])


def work_filtered(argv, heapsnap, inject):
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        expect_line(target, "ready")
        pid = target.pid if inject is not None else pid_of_command(target.pid)
        if inject is not None:
            output_of([heapsnap, "inject", *inject, pid])
        target.stdin.write("\n")
        target.stdin.flush()
        expect_line(target, "done")
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/tracked.hsnap"
            output_of([heapsnap, "attach", "-q", "-o", path, pid])
            threads = json.loads(output_of([heapsnap, "stacks", "-j", "--by", "thread", path]))["threads"]
            sites = json.loads(output_of([heapsnap, "stacks", "-j", path]))
        target.stdin.close()
        code = target.wait(timeout=60)
        assert code == 0, f"it ended with {code}"
    return pid, threads, sites


def check(pid, threads, sites):
    names = {thread["tid"]: thread["name"] for thread in threads if not thread["exited"]}
    assert names.get(pid) == "warden" and "inmate" in names.values(), set(names.values())
    # 300 threads with 20 rounds of 80 allocations.
    allocations = sum(thread["allocations"] for thread in threads)
    assert allocations >= 300 * 20 * 80, allocations
    # Looked for where states of so many threads are wanted.
    assert sum(thread["exited"] for thread in threads) >= 100, "those that ended were not missed"
    assert sites["tracker"]["dropped_blocks"] == 0, sites["tracker"]


def main():
    case, heapsnap, program = sys.argv[1:]
    # Untracked it keeps to what it allows itself.
    subprocess.run([program], input="\n\n", text=True, check=True, stdout=subprocess.DEVNULL)
    if case == "run":
        check(*work_filtered([heapsnap, "run", "--", program], heapsnap, None))
    elif case == "inject":
        check(*work_filtered([program], heapsnap, []))
    else:
        pid, threads, _ = work_filtered([program], heapsnap, ["--sample", "16KiB"])
        assert "warden" in (thread["name"] for thread in threads if thread["tid"] == pid)
    return 0


if __name__ == "__main__":
    sys.exit(main())
