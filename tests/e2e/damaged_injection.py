#!/usr/bin/env python3
"""A process has damaged its own heap (tests/targets/damaged_heap.c), and goes on with it. inject, trim and eject do
not end it: they say what is damaged and leave it alone, or do what they were asked where that is safe.

    damaged_injection.py HEAPSNAP TARGET CHURN [--seeds N] [--seed FIRST] [--kind KIND]... [--verb VERB]...

With one seed, every third kind is met by one verb, the next of them by the next verb; with more, all kinds are met by
all verbs, each time. A process whose heap is sound and changes all the time (tests/targets/malloc_churn.cpp) is never taken for a damaged one.
"""

import argparse
import subprocess
import sys
import tempfile

from damaged_heaps import KINDS, DamagedHeap, SKIPPED, Skip
from owned_process import OwnedProcess

VERBS = ("inject", "trim", "eject")
UNSUPPORTED = 5
# What glibc may come upon in a call of heapsnap's. The others it never looks at there.
HARMLESS = {
    "sound", "size_zero", "size_huge", "size_small", "size_grown", "size_odd", "size_random", "size_mmapped",
    "size_other_arena", "in_use_cleared", "text_over_headers", "zeros_over_headers", "binmap", "last_remainder",
    "tcache_count", "tcache_key", "tcache_head_wild", "tcache_head_odd", "tcache_loop", "tcache_link_wild",
    "tcache_other_size", "tcache_and_fastbin", "tcache_text", "system_mem", "system_mem_near", "mapped_size_zero",
    "mapped_size_huge", "mapped_not_marked", "mapped_offset", "counters_count", "counters_bytes", "flags",
}
# Some of these the walk would call damage, others not: it depends on what lies there.
EITHER = {"sbrk_base_wild", "sbrk_base_late", "next_self", "heap_arena_other", "system_mem", "system_mem_small",
          "small_other_arena"}
FURTHER_KINDS = (
    "small_fd", "small_bk", "small_size", "small_size_huge", "small_mmapped", "small_other_arena",
    "small_behind_free", "small_bin_fd", "small_bin_bk", "small_bin_null", "large_fd", "large_bk",
    "large_fd_nextsize", "large_bk_nextsize", "large_nextsize_null", "large_size", "large_bin_fd", "large_bin_bk",
    "unsorted_size", "unsorted_size_huge", "unsorted_bk", "unsorted_text", "behind_size_zero", "behind_size_huge",
    "behind_size_odd", "fast_size", "fast_size_huge", "fast_other_arena", "fast_behind_free", "top_size_small",
    "top_size_unaligned", "top_behind_free", "lock", "flags", "next_free_wild", "system_mem_small",
    "heap_writable_huge", "heap_fence",
)
ALL_KINDS = (*KINDS, *FURTHER_KINDS)


class Churn(OwnedProcess):
    def __init__(self, program, threads):
        self.process = subprocess.Popen([program, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("malloc_churn did not start")

    def end(self):
        return self.process.communicate(timeout=120)[0]


class Campaign:
    def __init__(self, heapsnap, program, folder):
        self.heapsnap, self.program, self.folder = heapsnap, program, folder
        self.runs, self.refused, self.harmed = 0, 0, {}
        self.failures = []

    def fail(self, what):
        self.failures.append(what)
        print("FAILED:", what, flush=True)

    def call(self, verb, target):
        options = ["--no-estimate"] if verb == "trim" else []
        return subprocess.run([self.heapsnap, verb, *options, str(target.process.pid)], capture_output=True,
                              text=True, timeout=300)

    def meet(self, kind, seed, verb):
        name = f"{kind}, seed {seed}, {verb}"
        with DamagedHeap(self.program, kind, seed, self.folder, is_later=verb == "eject") as target:
            if verb == "eject":
                done = self.call("inject", target)
                if done.returncode != 0:
                    raise RuntimeError(f"{name}: inject into a sound process: {done.stderr}")
                target.begin()
            done = self.call(verb, target)
            code = target.end()
        self.runs += 1
        if code != 0:
            self.harmed[kind] = self.harmed.get(kind, 0) + 1
            self.fail(f"{name}: the target ended with {code}; heapsnap with {done.returncode}: {done.stderr}")
        self.check_words(name, kind, verb, done)

    def churn(self, program, threads, rounds):
        """Inject, eject and trim, while all threads do nothing but allocate."""
        with Churn(program, threads) as target:
            looks = 0
            for verb in ("inject", "trim", "eject") * rounds:
                done = self.call(verb, target)
                self.runs += 1
                looks += "to check malloc's state" in done.stdout
                if done.returncode != 0 or "is damaged" in done.stderr:
                    self.fail(f"{threads} threads that allocate, {verb}: {done.returncode}\n{done.stderr}")
            if not target.end().startswith("errors=0 "):
                self.fail(f"{threads} threads that allocate: the target found errors")
        print(f"{threads} threads that allocate: {3 * rounds} calls, {looks} needed a pause", flush=True)

    def check_words(self, name, kind, verb, done):
        is_refused = "its heap is damaged" in done.stderr
        self.refused += is_refused
        if verb == "eject":
            is_right = done.returncode == 0 and "tracker disabled" in done.stdout
            is_right = is_right and is_refused == ("tables were not freed" in done.stderr)
        else:
            is_right = done.returncode == (UNSUPPORTED if is_refused else 0)
            is_right = is_right and is_refused == ("heapsnap attach " in done.stderr)
        if not is_right:
            self.fail(f"{name}: {done.returncode}\n{done.stdout}{done.stderr}")
        if kind not in EITHER and is_refused == (kind in HARMLESS):
            self.fail(f"{name}: {'refused' if is_refused else 'not refused'}: {done.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heapsnap")
    parser.add_argument("target")
    parser.add_argument("churn")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=ALL_KINDS)
    parser.add_argument("--verb", action="append", choices=VERBS)
    arguments = parser.parse_args()
    verbs = arguments.verb or VERBS
    with tempfile.TemporaryDirectory() as folder:  # for cores
        campaign = Campaign(arguments.heapsnap, arguments.target, folder)
        try:
            for number, kind in enumerate(arguments.kind or ALL_KINDS):
                for seed in range(arguments.seed, arguments.seed + arguments.seeds):
                    chosen = verbs
                    if arguments.seeds == 1 and not arguments.kind:
                        chosen = [verbs[number // 3 % len(verbs)]] if (number + seed) % 3 == 0 else []
                    for verb in chosen:
                        # One seed damages the main arena, another one a thread's.
                        campaign.meet(kind, seed + number, verb)
        except Skip as why:
            print("skipped:", why)
            return SKIPPED
    is_long = arguments.seeds > 1
    for threads in (() if arguments.kind else (0, 1, 4, 16) if is_long else (0, 3)):
        campaign.churn(arguments.churn, threads, 67 if is_long else 3)
    print(f"{len(arguments.kind or ALL_KINDS)} kinds in all, {campaign.runs} calls, {campaign.refused} left alone; "
          f"{sum(campaign.harmed.values())} harmed, of {len(campaign.harmed)} kinds: {campaign.harmed}")
    print(f"{len(campaign.failures)} failures")
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
