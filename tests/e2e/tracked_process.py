"""A process under the tracker that knows its own blocks (tests/targets/tracked_target.cpp), and what heapsnap
says of it."""

import json
import os
import subprocess

from truth_heap import Complaints
from owned_process import OwnedProcess


def output_of(argv, expected=0, **how):
    done = subprocess.run([str(word) for word in argv], stdin=how.pop("stdin", subprocess.DEVNULL),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)
    if done.returncode != expected:
        words = " ".join(str(word) for word in argv)
        raise RuntimeError(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class TrackedTarget(OwnedProcess):
    """Runs `argv`; once made, it has told its blocks and holds still. Where it waits before it allocates them,
    `meanwhile` is called with its pid."""

    def __init__(self, argv, environment=None, folder=None, prepare=None, meanwhile=None):
        self.process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd=folder, preexec_fn=prepare,
                                        env=os.environ | (environment or {}))
        self.live = {}  # address: (size, function)
        self.freed = set()
        self.before = set()  # live, from before `meanwhile`
        self.pid = None
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "L":
                self.live[int(words[1], 16)] = (int(words[2]), words[3])
            elif words[0] == "F":
                self.freed.add(int(words[1], 16))
            elif words[0] == "B":
                self.before.add(int(words[1], 16))
            elif words[0] == "waiting":
                self.let_go_on(meanwhile)
            elif words[0] == "P":
                self.pid = int(words[1])
            elif words[0] == "ready":
                self.freed -= set(self.live)
                return
        raise RuntimeError(f"the target ended before it was ready: {self.process.wait()}")

    def let_go_on(self, meanwhile):
        try:
            meanwhile(self.process.pid)
        except BaseException:
            self.__exit__()
            raise
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=120)


class TrackedExport:
    """`heapsnap export --format ndjson` of a tracked process."""

    def __init__(self, heapsnap, path):
        self.chunks, self.stacks = {}, {}
        lines = output_of([heapsnap, "export", "--format", "ndjson", path]).splitlines()
        rows = json.loads(f"[{','.join(lines)}]")  # a call for each line takes twice as long
        if len(rows) != len(lines):
            raise ValueError(f"{len(rows)} values on {len(lines)} lines of the export")
        for row in rows:
            if row["kind"] == "chunk":
                self.chunks[int(row["addr"], 16)] = row
            elif row["kind"] == "stack":
                self.stacks[row["stack"]] = row

    def functions(self, chunk):
        """Of its stack, innermost first; empty when it has none."""
        stack = self.stacks.get(chunk.get("stack", 0), {"frames": []})
        return [frame.get("function", "") for frame in stack["frames"]]

    @staticmethod
    def requested(chunk):
        slack = chunk["slack"]
        return chunk["usable"] - (slack if slack < 31 else 0)


def check_blocks(target, export):
    """Each live block has the stack of who asked for it, each freed one has none."""
    complaints = Complaints()
    for address, (size, function) in target.live.items():
        chunk = export.chunks.get(address)
        if chunk is None or chunk["state"] not in ("used", "mmapped"):
            complaints.add("live block not found", f"{address:#x} by {function}")
            continue
        functions = export.functions(chunk)
        if not functions:
            complaints.add("live block without a stack", f"{address:#x} of {size} bytes by {function}")
        elif not any(function in name.split("(anonymous namespace)::")[-1] for name in functions):
            complaints.add("wrong stack", f"{address:#x} by {function}: {functions}")
        elif not functions[-1].startswith(("_start", "__clone", "clone", "thread_start")):
            complaints.add("stack that does not reach the end", f"{address:#x} by {function}: {functions}")
        elif chunk["slack"] < 31 and export.requested(chunk) != size:
            # memalign and friends may ask for more than they were asked for: the slack is of the block.
            complaints.add("wrong size", f"{address:#x} by {function}: {size}, slack {chunk['slack']} of {chunk['usable']}")
    for address in target.before:
        chunk = export.chunks.get(address)
        if chunk is None or chunk["state"] not in ("used", "mmapped"):
            complaints.add("live block of before not found", f"{address:#x}")
        elif "stack" in chunk:
            complaints.add("block of before with a stack", f"{address:#x} {chunk}")
    for address in target.freed:
        chunk = export.chunks.get(address)
        if chunk is not None and chunk["state"] not in ("used", "mmapped") and "stack" in chunk:
            complaints.add("freed block with a stack", f"{address:#x} {chunk}")
    return complaints


def check_counts(export):
    """What a stack allocated less what it freed is what lives."""
    complaints = Complaints()
    blocks = {}
    for chunk in export.chunks.values():
        if "stack" in chunk and chunk["state"] in ("used", "mmapped"):
            blocks.setdefault(chunk["stack"], []).append(export.requested(chunk))
    for number, stack in export.stacks.items():
        sizes = blocks.get(number, [])
        live = stack["allocations"] - stack["frees"]
        live_bytes = stack["allocated_bytes"] - stack["freed_bytes"]
        if live != len(sizes):
            complaints.add("counts differ", f"stack {number}: {live} by counts, {len(sizes)} blocks")
        elif live_bytes != sum(sizes):
            complaints.add("bytes differ", f"stack {number}: {live_bytes} by counts, {sum(sizes)} in blocks")
    return complaints
