#!/usr/bin/env python3
"""Advice is a prediction: it is followed as printed, and the resident memory compared with what was predicted.

    advice.py CASE HEAPSNAP ADVICE_TARGET

A case starts the target in a shape that asks for one kind of advice, reads what `attach` advises, does what it
says (starts the target again with the setting, or runs the command), and measures.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

MIB = 1 << 20
# What may lie between a prediction and what is measured: rounding to pages, stacks, caches.
TOLERANCE, SLACK = 0.10, MIB


class Target:
    """A target in one shape; stands still once it is made."""

    def __init__(self, program, shape, environment=None):
        self.process = subprocess.Popen([program, shape], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"
                                             and not k.startswith("MALLOC_")} | (environment or {}))
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n", "the target did not start"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        code = self.process.wait()
        self.process.stdout.close()
        assert code == 0, code

    def resident(self):
        rollup = pathlib.Path(f"/proc/{self.pid}/smaps_rollup").read_text(encoding="ascii")
        return int(re.search(r"^Rss: +(\d+) kB", rollup, re.MULTILINE)[1]) << 10


class Case:
    def __init__(self, heapsnap, program, folder):
        self.heapsnap, self.program = heapsnap, program
        self.snapshot = str(pathlib.Path(folder) / "a.hsnap")

    def start(self, shape, environment=None):
        return Target(self.program, shape, environment)

    def report(self, target):
        done = subprocess.run([self.heapsnap, "attach", "-f", "-j", "-o", self.snapshot, str(target.pid)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, done
        pathlib.Path(self.snapshot + ".json").write_text(done.stdout)
        return json.loads(done.stdout)

    def advice(self, target):
        """By kind; none adds up to more than there is."""
        report = self.report(target)
        together = 0
        for item in report["advice"]:
            print(f"  {item['kind']}: {item['finding']}. → {item['action']}.")
            together += (item["saves_most"] or item["bytes"]) - item["overlap"]
        free = sum(report["states"][state]["resident"]
                   for state in ("tcache", "fastbin", "unsorted", "smallbin", "largebin", "top"))
        assert together <= free <= report["rss"]["resident"], (together, free)
        return {item["kind"]: item for item in report["advice"]}

    def compare(self, item, shape, before):
        """Starts the shape again with the setting that `item` names; gives what that saved."""
        name, value = re.search(r"start the program with ([A-Z_]+)=([\w.=]+)", item["action"]).groups()
        with self.start(shape, {name: value}) as other:
            saved = before - other.resident()
        print(f"  {name}={value}: {saved / MIB:.1f} MiB saved, "
              f"{item['saves_least'] / MIB:.1f} to {item['saves_most'] / MIB:.1f} predicted")
        return saved

    def trim(self):
        """heapsnap trim gives back what is predicted, of many small blocks; a threshold would change nothing."""
        with self.start("small_runs") as target:
            all_advice = self.advice(target)
            assert set(all_advice) == {"trim"}, all_advice
            item = all_advice["trim"]
            command = re.match(r"heapsnap (trim \d+) ", item["action"])[1]
            before = target.resident()
            subprocess.run([self.heapsnap, *shlex.split(command), "--no-estimate"], check=True,
                           stdout=subprocess.DEVNULL)
            saved = before - target.resident()
            print(f"  {saved / MIB:.1f} MiB came back")
            self.expect(item, saved, 50 * MIB)
            assert "trim" not in self.advice(target)
        with self.start("small_runs", {"MALLOC_MMAP_THRESHOLD_": "131072"}) as other:
            assert abs(other.resident() - before) < SLACK, "so the threshold would have been worth its advice"

    @staticmethod
    def expect(item, saved, least):
        assert item["saves_least"] == item["saves_most"] == item["bytes"] >= least, item
        assert abs(saved - item["bytes"]) <= TOLERANCE * item["bytes"] + SLACK, (saved, item)

    def mmap_threshold(self):
        """Large blocks in arenas: with the threshold set they go back when they are freed."""
        with self.start("large_blocks") as target:
            before = target.resident()
            all_advice = self.advice(target)
        assert set(all_advice) == {"mmap-threshold", "trim"}, all_advice
        item = all_advice["mmap-threshold"]
        self.expect(item, self.compare(item, "large_blocks", before), 50 * MIB)
        # Both free the same pages, and the second says so.
        second = list(all_advice.values())[1]
        assert second["overlap"] >= 0.95 * second["bytes"], second
        assert "also counted in 1" in second["finding"], second
        # Together they free those pages once.
        together = json.loads(pathlib.Path(self.snapshot + ".json").read_text())["advice_together"]
        assert together["kinds"] == list(all_advice), together
        assert item["saves_most"] <= together["saves_least"] <= together["saves_most"] <= 1.05 * item["saves_most"]
        text = subprocess.run([self.heapsnap, "report", self.snapshot], capture_output=True, text=True, check=True).stdout
        assert "Together, 1 and 2 save about" in " ".join(text.split()), text

    def arena_max(self):
        """Between what it is where threads take turns, and nothing where they do not."""
        for shape in ("in_turn", "at_once"):
            print(shape)
            with self.start(shape) as target:
                before = target.resident()
                all_advice = self.advice(target)
            assert {"arena-max", "trim"} <= set(all_advice) <= {"arena-max", "trim", "fragmentation"}, all_advice
            item = all_advice["arena-max"]
            assert item["saves_least"] == 0 and item["saves_most"] > 40 * MIB, item
            saved = self.compare(item, shape, before)
            most = item["saves_most"]
            if shape == "in_turn":
                assert abs(saved - most) <= TOLERANCE * most + SLACK, (saved, item)
            else:
                assert abs(saved) <= TOLERANCE * most, (saved, item)

    def single_arena(self):
        """One arena instead of two is advised only where it saves much that a trim would not give back."""
        with self.start("two_in_runs") as target:
            report = self.report(target)
            assert len(report["arenas"]) == 2 and [item["kind"] for item in report["advice"]] == ["trim"], report["advice"]
            assert report["advice_together"] == {"kinds": [], "saves_least": 0, "saves_most": 0}, report
        with self.start("two_interleaved") as target:
            before = target.resident()
            all_advice = self.advice(target)
        assert set(all_advice) == {"arena-max", "fragmentation"}, all_advice
        item = all_advice["arena-max"]
        assert item["saves_most"] > 6 * MIB, item
        saved = self.compare(item, "two_interleaved", before)
        assert abs(saved - item["saves_most"]) <= TOLERANCE * item["saves_most"] + SLACK, (saved, item)

    def fragmentation(self):
        """Nothing is promised, and a trim gives nothing."""
        with self.start("interleaved") as target:
            all_advice = self.advice(target)
            assert set(all_advice) == {"fragmentation"}, all_advice
            item = all_advice["fragmentation"]
            assert item["saves_most"] == 0 and item["bytes"] > 20 * MIB, item
            before = target.resident()
            subprocess.run([self.heapsnap, "trim", "--no-estimate", str(target.pid)], check=True,
                           stdout=subprocess.DEVNULL)
            assert before - target.resident() < SLACK
            assert "fragmentation" in self.advice(target)

    def tcache_count(self):
        """No saving is predicted; the caches are smaller with the setting, as it says."""
        with self.start("caches") as target:
            before = self.report(target)["states"]["tcache"]["resident"]
            item = self.advice(target)["tcache-count"]
        assert item["saves_most"] == 0 and "cannot be predicted" in item["action"], item
        name, value = re.search(r"start the program with ([A-Z_]+)=([\w.=]+)", item["action"]).groups()
        with self.start("caches", {name: value}) as other:
            after = self.report(other)["states"]["tcache"]["resident"]
        print(f"  {before / MIB:.1f} MiB in caches, {after / MIB:.1f} MiB with {name}={value}")
        assert after < before / 2, (before, after)

    def tidy(self):
        """What needs no advice gets none."""
        with self.start("tidy") as target:
            assert not self.advice(target)


def main():
    name, heapsnap, program = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="heapsnap-advice.") as folder:
        getattr(Case(heapsnap, program, folder), name)()
    return 0


if __name__ == "__main__":
    sys.exit(main())
