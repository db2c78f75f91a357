#!/usr/bin/env python3
"""What heapsnap collect and watch cost, and how long they hold their targets.

    collect_bench.py HEAPSNAP [--targets 50] [--passes 21] [--pairs 31] [--looks 500]

1. a pass over targets that need nothing, each a process of its own with one snapshot: processor and wall seconds.
2. a snapshot by collect and one by attach in turns, of the same process: their pauses, and the processor time of each.
3. watch of a process that nothing is loaded into: processor time of a look.

Figures are medians, with the middle half of the pairs' ratios. Quiet machine, one file system for all."""

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from collect_store import Program, Store  # noqa: E402


def spent(command):
    """Processor and wall seconds of a command that ends well, and what it printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - start, done.stdout


def middle(values):
    low, _, high = statistics.quantiles(values, n=4)
    return f"{statistics.median(values):.2f} ({low:.2f} to {high:.2f})"


def idle_pass(arguments):
    programs = [Program(10) for _ in range(arguments.targets)]
    try:
        with Store(arguments.heapsnap) as store:
            store.configure({f"t{number}": store.pid_file(program, f"t{number}") +
                             '\nwhen = { every = "1h", grown_by = "90%" }' for number, program in enumerate(programs)})
            subprocess.run(store.command(), capture_output=True, check=True)
            runs = []
            for _ in range(arguments.passes):
                *figures, said = spent(store.command("-j"))
                rows = [json.loads(line) for line in said.splitlines()]
                assert len(rows) == arguments.targets and {row["result"] for row in rows} == {"not due"}, rows
                runs.append(figures)
            processes = sum(each.name.isdigit() for each in pathlib.Path("/proc").iterdir())
            print(f"a pass over {arguments.targets} targets that need nothing, of {processes} processes: "
                  f"{statistics.median(cpu for cpu, _ in runs) * 1e3:.1f} ms of processor time, "
                  f"{max(cpu for cpu, _ in runs) * 1e3:.1f} at most; "
                  f"{statistics.median(wall for _, wall in runs) * 1e3:.1f} ms in all")
    finally:
        for program in programs:
            program.__exit__()


def pairs(arguments, blocks):
    pauses, costs = {"collect": [], "attach": []}, {"collect": [], "attach": []}
    with Store(arguments.heapsnap) as store, Program(blocks) as program:
        store.configure({"web": store.pid_file(program) + '\ntimeout = "10m"'})
        for turn in range(arguments.pairs):
            for who in (("collect", "attach"), ("attach", "collect"))[turn % 2]:
                if who == "collect":
                    cpu, _, said = spent(store.command("-j"))
                    row = json.loads(said)
                    assert row["result"] == "collected", row
                    pause = row["pause_ns"]
                    pathlib.Path(row["snapshot"]).unlink()  # the next one may have the same second
                else:
                    file = store.folder / "attached.hsnap"
                    cpu, _, _ = spent([arguments.heapsnap, "attach", str(program.pid), "-q", "-f", "-o", str(file)])
                    report = json.loads(subprocess.run([arguments.heapsnap, "report", "-j", file], capture_output=True,
                                                       check=True).stdout)
                    pause = report["freeze"]["pause_ns"]
                pauses[who].append(pause / 1e6)
                costs[who].append(cpu * 1e3)
    ratios = [one / other for one, other in zip(pauses["collect"], pauses["attach"])]
    print(f"{blocks} blocks, {arguments.pairs} pairs: collect pauses {statistics.median(pauses['collect']):.2f} ms, attach "
          f"{statistics.median(pauses['attach']):.2f} ms, ratio {middle(ratios)}; processor time "
          f"{statistics.median(costs['collect']):.0f} and {statistics.median(costs['attach']):.0f} ms")


def looks(arguments):
    with Program(100000) as program:
        command = [arguments.heapsnap, "watch", str(program.pid), "--interval", "2ms", "--count"]
        one = spent([*command, "1"])[0]
        many = spent([*command, str(arguments.looks + 1)])[0]
        print(f"a look of watch: {(many - one) / arguments.looks * 1e6:.0f} µs of processor time")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heapsnap")
    for name, default in (("targets", 50), ("passes", 21), ("pairs", 31), ("looks", 500)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    idle_pass(arguments)
    for blocks in (20000, 1000000):
        pairs(arguments, blocks)
    looks(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
