#!/usr/bin/env python3
"""Snapshots of several kinds are damaged, most of them behind right checksums, and given to all commands that read
one: each ends in bounded time and memory, with an exit code of the manual, and says in words why it refuses. An export
that refuses has written nothing. What share writes is whole: it shares nothing that report refuses.

    damaged_snapshots.py HEAPSNAP TARGETS [--count N] [--seed FIRST]

File number N of a campaign is made from the seed N alone: --count 1 --seed N makes it again. With --keep FOLDER those
that something is wrong with are left there.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from bounded_run import BAD_INPUT, DONE, FOUND, UNSUPPORTED, BoundedRun
from owned_process import OwnedProcess
from snapshot_damage import SnapshotDamage
from tracked_process import TrackedTarget, output_of

COMMANDS = [["report"], ["report", "-j"], ["render", "-o", "PICTURE", "-f"], ["export", "--format", "ndjson"],
            ["export", "--format", "ndjson", "--rows", "sums"], ["export", "--format", "ndjson", "--rows", "flat"],
            ["export", "--format", "ndjson", "--rows", "frames"], ["export", "--format", "pprof"],
            ["export", "--format", "ptmallocdump"], ["view", "-o", "PICTURE", "-f"]]
SHARE = ["share", "-o", "SHARED", "-f"]
STACK_COMMANDS = [["stacks"], ["stacks", "-j"], ["stacks", "--by", "function"], ["stacks", "--by", "module"],
                  ["stacks", "--by", "thread"], ["stacks", "--sort", "churn"], ["stacks", "--sort", "rate"],
                  ["stacks", "--format", "heapprof"], ["stacks", "--format", "churnlog"],
                  *(["export", "--format", name, "--by", "stacks"] for name in ("folded", "speedscope", "dhat", "heaptrack"))]
# Of these each file gets three. SAME: the snapshot that was damaged.
REFERENCE_COMMANDS = [["owners"], ["owners", "-j", "--by", "type"], ["owners", "--depth", "100", "--limit", "0"],
                      ["leaks"], ["leaks", "-j", "--all"], ["types", "--sort", "retained"], ["diff", "SAME"],
                      ["diff", "-j", "SAME"], ["history", "-j", "SAME"],
                      *(["export", "--format", name, "--by", "owners"]
                        for name in ("folded", "speedscope", "dhat", "heaptrack", "pprof")),
                      ["export", "--format", "heapsnapshot"], ["export", "--format", "ruby-dump-all"],
                      ["export", "--format", "heap_dump"]]
CODES = (DONE, FOUND, UNSUPPORTED, BAD_INPUT)


class Held(OwnedProcess):
    """A process that says `ready` and waits."""

    def __init__(self, *argv):
        self.process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        while not self.process.stdout.readline().startswith("ready"):
            if self.process.poll() is not None:
                raise RuntimeError(f"{argv}: ended before it was ready")


def base_snapshots(heapsnap, targets, folder):
    """name: bytes."""
    bases = {}

    def take(name, *words):
        path = folder / f"{name}.hsnap"
        output_of([heapsnap, *words, "-q", "--literal-name", "-o", path], expected=5 if name == "nothing" else 0)
        bases[name] = path.read_bytes()

    heap = targets / "damaged_heap"
    with Held(heap, "sound", 1) as target:
        take("threads", "attach", target.process.pid)
        take("stopped", "attach", target.process.pid, "--freeze", "stop", "--no-debug-files")
        take("contents", "attach", target.process.pid, "--contents")
        core = folder / "core"
        output_of(["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-solib-add off", "-p",
                   target.process.pid, "-ex", f"gcore {core}"], stdin=subprocess.DEVNULL)
        take("core", "core", core)
        core.unlink()
    with Held(targets / "typed_holder") as target:
        take("references", "attach", target.process.pid, "--references", "yes")
    with Held(heap, "size_zero", 2) as target:
        take("damaged", "attach", target.process.pid)
    with TrackedTarget([heapsnap, "run", "--", targets / "tracked_target"]) as target:
        take("tracked", "attach", target.pid)
        target.end()
    with TrackedTarget([heapsnap, "run", "--sample", "2KiB", "--", targets / "tracked_target"]) as target:
        take("sampled", "attach", target.pid)
        target.end()
    image = folder / "image"
    image.write_bytes(bytes(4096))
    take("nothing", "core", "--image", f"0x10000:{image}")
    return bases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heapsnap")
    parser.add_argument("targets", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="all commands, also for files that report refuses")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--taker", help="the heapsnap that takes the base snapshots, where HEAPSNAP is slow")
    arguments = parser.parse_args()
    failures, kinds, refused = [], {}, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = BoundedRun(arguments.heapsnap, folder)
        bases = base_snapshots(arguments.taker or arguments.heapsnap, arguments.targets, folder)
        path, shared = folder / "changed.hsnap", folder / "shared.hsnap"
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            damage = SnapshotDamage(bases, seed)
            data = damage.make()
            path.write_bytes(data)
            what = f"seed {seed} ({damage.name}: {', '.join(damage.kinds)})"
            for kind in damage.kinds:
                kinds[kind] = kinds.get(kind, 0) + 1
            refused_now = False
            undamaged = folder / f"{damage.name}.hsnap"
            commands = [*COMMANDS, SHARE, *(REFERENCE_COMMANDS[(seed + 5 * i) % len(REFERENCE_COMMANDS)] for i in range(3)),
                        STACK_COMMANDS[0], STACK_COMMANDS[1 + seed % (len(STACK_COMMANDS) - 1)]]
            for i, words in enumerate(commands):
                # Refused by report: by the others in the same way, of which each file gets two besides share.
                if (not arguments.all and refused_now and words is not SHARE
                        and i not in (1 + seed % (len(COMMANDS) - 1), len(commands) - 1)):
                    continue
                places = {"PICTURE": str(folder / "picture.png"), "SAME": str(undamaged), "SHARED": str(shared)}
                is_share = words is SHARE
                words = [places.get(word, word) for word in words]
                output = subprocess.PIPE if words[0] == "export" else subprocess.DEVNULL
                verdict = run(*words, path, codes=CODES, input_size=len(data), name=what, output=output)
                if verdict.code == BAD_INPUT and verdict.written and not verdict.fault:
                    verdict.fault = f"{verdict.written} bytes are written before it refuses"
                if is_share and verdict.code == DONE and not verdict.fault:
                    verdict = run("report", shared, codes=(DONE,), input_size=len(data), name=what)
                    if refused_now:
                        verdict.fault = "it shares what report refuses"
                if verdict.fault:
                    failures.append(what)
                    print(f"FAILED: {what}: {' '.join(words)}: {verdict.fault}\n{verdict.errors[-3000:]}", flush=True)
                    if arguments.keep:
                        (arguments.keep / f"{seed}.hsnap").write_bytes(data)
                if i == 0:
                    refused_now = verdict.code == BAD_INPUT
                    refused += refused_now
            if (seed - arguments.seed) % 250 == 249:
                print(f"{seed - arguments.seed + 1} files: {run.summary()}", flush=True)
    print(f"{arguments.count} files of {len(bases)} snapshots, {refused} refused by report; {run.summary()}")
    print(", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items())))
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
