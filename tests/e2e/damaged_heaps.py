#!/usr/bin/env python3
"""A process damages its own heap (tests/targets/damaged_heap.c). Its snapshot, taken of it while it lives and of its
core, comes in bounded time, says the damage, says nothing of the kind about heaps that are sound, and still has their
blocks; and the process goes on with its heap as it made it.

    damaged_heaps.py HEAPSNAP TARGET [--seeds N] [--seed FIRST] [--kind KIND]...

With one seed, one kind is looked at alive and the next as a core; with more, each in both ways.
"""

import argparse
import json
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

from bounded_run import DONE, BoundedRun
from owned_process import OwnedProcess
from truth_process import SKIPPED, Skip, kernel_core_file

SAID, QUIET, EITHER = "said", "quiet", "either"
MOST_LOST = 8  # blocks around one damaged place
# What has to be said of each kind, and how many blocks of the damaged arena may be lost: None is any number.
KINDS = {
    "sound": (QUIET, 0),
    # sizes and flags of chunks
    "size_zero": (SAID, MOST_LOST), "size_huge": (SAID, MOST_LOST), "size_small": (SAID, MOST_LOST),
    "size_grown": (SAID, MOST_LOST), "size_odd": (SAID, MOST_LOST), "size_random": (SAID, MOST_LOST),
    "size_mmapped": (SAID, MOST_LOST), "in_use_cleared": (SAID, MOST_LOST), "in_use_set": (SAID, MOST_LOST),
    # That a used chunk belongs to the main arena is believed also in another.
    "size_other_arena": (EITHER, MOST_LOST), "footer": (SAID, MOST_LOST), "text_over_headers": (SAID, 60),
    "zeros_over_headers": (SAID, 60),
    # bins
    "fd_loop": (SAID, MOST_LOST), "fd_null": (SAID, MOST_LOST), "fd_wild": (SAID, MOST_LOST),
    "fd_other_chunk": (SAID, MOST_LOST), "bk_loop": (SAID, MOST_LOST), "bin_fd_wild": (SAID, MOST_LOST),
    "bin_null": (SAID, MOST_LOST), "bins_zeroed": (SAID, None), "binmap": (QUIET, 0), "last_remainder": (QUIET, 0),
    "fastbin_loop": (SAID, MOST_LOST), "fastbin_wild": (SAID, MOST_LOST), "fastbin_head": (SAID, MOST_LOST),
    "fastbin_other_arena": (SAID, MOST_LOST),
    # thread caches
    "tcache_count": (SAID, 0), "tcache_key": (QUIET, 0), "tcache_head_wild": (SAID, MOST_LOST),
    "tcache_head_odd": (SAID, MOST_LOST), "tcache_loop": (SAID, MOST_LOST), "tcache_link_wild": (SAID, MOST_LOST),
    "tcache_other_size": (SAID, MOST_LOST), "tcache_and_fastbin": (SAID, MOST_LOST), "tcache_text": (SAID, 80),
    # arenas
    "top_null": (SAID, None), "top_wild": (SAID, None), "top_odd": (SAID, None), "top_early": (SAID, None),
    "top_size_zero": (SAID, MOST_LOST), "top_size_huge": (SAID, MOST_LOST), "next_self": (SAID, 0),
    "next_null": (SAID, 0), "next_wild": (SAID, 0), "system_mem": (SAID, MOST_LOST),
    "system_mem_near": (SAID, MOST_LOST),
    # heaps of the second arena
    "heap_arena": (SAID, None), "heap_arena_other": (SAID, None), "heap_previous_loop": (SAID, None),
    "heap_previous_null": (SAID, None), "heap_previous_wild": (SAID, None), "heap_size_huge": (SAID, None),
    "heap_size_zero": (SAID, None),
    # mmapped chunks and mp_
    "mapped_size_zero": (SAID, 0), "mapped_size_huge": (SAID, 0), "mapped_not_marked": (SAID, 0),
    "mapped_offset": (SAID, 0), "counters_count": (SAID, 0), "counters_bytes": (SAID, 0), "sbrk_base_wild": (SAID, None),
    "sbrk_base_late": (SAID, None),
}
SOUND_ARENA = "2"


class DamagedHeap(OwnedProcess):
    """Once made, it has told what is where, and holds still."""

    def __init__(self, program, kind, seed, folder, is_later=False):
        def prepare():
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.setrlimit(resource.RLIMIT_CORE, unlimited)

        self.process = subprocess.Popen([program, kind, str(seed), *(["later"] if is_later else [])],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
                                        preexec_fn=prepare)
        self.name = f"{kind}, seed {seed}"
        self.live, self.arenas, self.damaged = {}, {}, None
        if not is_later:
            self.read_state()
        elif self.process.stdout.readline() != "begun\n":
            raise RuntimeError(f"{self.name}: the target did not begin")

    def begin(self):
        """One that was to make and damage its heap later does so now."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.read_state()

    def read_state(self):
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "ready":
                return
            if words[0] == "unfit:":
                raise Skip(line.strip())
            address = int(words[1], 16)
            if words[0] == "L":
                self.live.setdefault(words[2], set()).add(address)
            elif words[0] == "A":
                self.arenas[words[2]] = address
            else:
                self.damaged = words[2]
        raise RuntimeError(f"{self.name}: the target ended before it was ready: {self.process.wait()}")

    def end(self, word=""):
        self.process.stdin.write(word)
        self.process.stdin.close()
        return self.process.wait(timeout=120)


class Campaign:
    def __init__(self, heapsnap, program, folder):
        self.run = BoundedRun(heapsnap, folder)
        self.program, self.folder = program, pathlib.Path(folder)
        self.failures = []
        self.counts = {SAID: 0, QUIET: 0, EITHER: 0}

    def fail(self, kind, seed, view, what):
        self.failures.append(f"{kind}, seed {seed}, {view}: {what}")
        print("FAILED:", self.failures[-1], flush=True)

    def look_alive(self, kind, seed):
        freeze = "fork" if seed % 2 else "stop"
        with DamagedHeap(self.program, kind, seed, self.folder) as target:
            self.look(target, kind, seed, freeze, "attach", target.process.pid, "--freeze", freeze)
            code = target.end()
            if code != 0:
                self.fail(kind, seed, freeze, f"the target ended with {code}")

    def look_at_core(self, kind, seed):
        with kernel_core_file() as prefix, DamagedHeap(self.program, kind, seed, self.folder) as target:
            code = target.end("abort\n")
            cores = list(self.folder.glob(prefix + "*"))
            if code != -signal.SIGABRT or len(cores) != 1:
                raise Skip(f"the kernel wrote no core: the target ended with {code}")
            self.look(target, kind, seed, "core", "core", cores[0])
            cores[0].unlink()

    def look(self, target, kind, seed, view, *words):
        """Takes a snapshot, and compares it with what the target told."""
        snapshot, listing = self.folder / "snapshot", self.folder / "listing"
        name = f"{kind} {seed}"
        taken = self.run(*words, "-q", "-f", "--literal-name", "--no-debug-files" if seed % 4 > 1 else "--no-symbols",
                         "-o", snapshot, codes=(DONE,), name=name)
        texts = []
        for command in (["report", "-j"], ["export", "--format", "ndjson"]):
            if taken.fault:
                return self.fail(kind, seed, view, f"{' '.join(map(str, taken.words))}: {taken.fault}\n{taken.errors}")
            with open(listing, "wb") as output:
                taken = self.run(*command, snapshot, codes=(DONE,), name=name, output=output)
            texts.append(listing.read_text(errors="replace"))
        if taken.fault:
            return self.fail(kind, seed, view, f"export: {taken.fault}\n{taken.errors}")
        report, rows = json.loads(texts[0]), [json.loads(line) for line in texts[1].splitlines()]
        self.compare(target, kind, seed, view, report, rows)

    def compare(self, target, kind, seed, view, report, rows):
        expected, may_lose = KINDS[kind]
        notes = [note for malloc in report["mallocs"] for note in malloc["notes"]]
        said = [damage["what"] for damage in report["corruptions"]]
        is_said = bool(said) or (expected == SAID and bool(notes))
        self.counts[expected] += 1
        if expected != EITHER and is_said != (expected == SAID):
            self.fail(kind, seed, view, f"said: {said[:3]}, notes {notes}, expected {expected}")
        numbers = {int(arena["address"], 16): arena["index"] for arena in report["arenas"]}
        sound = numbers.get(target.arenas[SOUND_ARENA])
        # A link to an arena that does not look like one is a link that leads nowhere.
        wrong = [damage["what"] for damage in report["corruptions"] if sound is not None and damage["arena"] == sound
                 and not (kind == "heap_arena_other" and damage["what"].startswith("the link to the next arena"))]
        if wrong:
            self.fail(kind, seed, view, f"of the sound arena: {wrong[:3]}")
        found = {int(row["addr"], 16) for row in rows if row.get("state") in ("used", "mmapped")}
        for arena, live in target.live.items():
            lost = live - found
            most = may_lose if arena in (target.damaged, "M") else 0
            if arena == "M" and kind.startswith(("mapped", "counters")):
                most = 1 if kind.startswith("mapped") else 0
            elif arena == "M":
                most = 0
            if most is not None and len(lost) > most:
                self.fail(kind, seed, view, f"{len(lost)} of {len(live)} blocks of arena {arena} are lost, first "
                          f"{min(lost):#x}; said: {said[:3]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heapsnap")
    parser.add_argument("target")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=KINDS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(arguments.heapsnap, arguments.target, folder)
        try:
            for number, kind in enumerate(arguments.kind or KINDS):
                for seed in range(arguments.seed, arguments.seed + arguments.seeds):
                    if arguments.seeds > 1 or (number + seed) % 2:
                        campaign.look_alive(kind, seed)
                    if arguments.seeds > 1 or (number + seed) % 2 == 0:
                        campaign.look_at_core(kind, seed)
        except Skip as why:
            print("skipped:", why)
            return SKIPPED
    damaged = campaign.counts[SAID] + campaign.counts[EITHER]
    print(f"{len(arguments.kind or KINDS)} kinds, {arguments.seeds} seeds each; {damaged} snapshots of damaged heaps, "
          f"{campaign.counts[QUIET]} of such as no walk needs to call so; {campaign.run.summary()}")
    print(f"{len(campaign.failures)} failures")
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
