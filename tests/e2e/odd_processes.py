#!/usr/bin/env python3
"""Odd processes go on as if nothing had been, whatever heapsnap does to them and wherever it is killed.

    odd_processes.py HEAPSNAP TARGET [--kinds a,b] [--skip a,b] [--rounds N] [--kills N] [--beside N] [--seed S]

A kind is one of tests/targets/odd_process, or one of those started in an odd way (odd_starts.py). Each keeps a
record of its own: work done, and what was not as it should be (struct Truth in odd_process.h). A round is one of each
operation (attach by fork, by stop and by default, inject, trim, eject, two at once), in an order that the seed gives but for the
first. A kill ends heapsnap, or the child of it that does its work, by SIGKILL at a moment of an operation that the seed
gives. `--beside` runs gdb, gcore and strace beside an attach. After each of them

  - the process has found nothing wrong, and goes on with its work
  - it has no tracer, and no copy but one that heapsnap told of; what it had mapped and opened before an attach it
    has afterwards
  - heapsnap has ended with 0, or with the refusal that REFUSALS names for the kind

and at the end it ends with 0. Exits 77 when no kind could be had on this machine.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from odd_process import Failure, OddProcess, Skipped
from odd_starts import kinds_of

# Longer than any command takes on a busy machine.
PATIENCE = 120
OPERATIONS = {
    "attach fork": ["attach", "-f", "--freeze", "fork", "--references", "yes", "-o", "{folder}/a.hsnap"],
    "attach stop": ["attach", "-f", "--freeze", "stop", "-o", "{folder}/b.hsnap"],
    "attach": ["attach", "-f", "-o", "{folder}/c.hsnap"],
    "inject": ["inject"],
    "attach tracked": ["attach", "-f", "--no-symbols", "--references", "yes", "-o", "{folder}/d.hsnap"],
    "trim": ["trim", "--no-estimate"],
    "inject samples": ["inject", "--sample", "4KiB"],
    "eject": ["eject"],
}
ATTACHES = [name for name in OPERATIONS if name.startswith("attach")]

# What may be refused in words: a part of what is said then. Some of it depends on the moment.
NO_THREAD = ("inject", "trim", "eject")


def no_thread(text):
    return {command: text for command in NO_THREAD}


REFUSALS = {
    "stopped_and_continued": no_thread("it is stopped (SIGSTOP)"),
    "executes_itself": {"attach": "", "inject": "", "trim": "", "eject": ""},
    "executes_on_a_thread": {"attach": "", "inject": "", "trim": "", "eject": ""},
    "deadline_scheduling": no_thread("SCHED_DEADLINE"),
    "children_in_a_namespace": no_thread("its children are created in another PID namespace"),
    "code_of_32_bits": no_thread("32-bit code"),
    "borrowed_stack_pointer": no_thread("not known to run on its own stack"),
    "foreign_thread_pointer": no_thread("its thread control blocks do not have the layout"),
    "dispatched_calls": no_thread("its system calls are dispatched to a handler"),
    "dispatched_thread": {"inject": "its system calls are dispatched to a handler"},
    "checked_malloc": no_thread("malloc is answered by"),
    "many_mappings": no_thread("mappings that the kernel allows"),
    "locked_memory_limit": no_thread("ulimit -l of it is"),
    "no_file_growth": {"inject": "ulimit -f of it allows files of"},
    "killed_by_other_calls": no_thread("its seccomp filter forbids"),
    "killed_by_a_restart": no_thread("its seccomp filter forbids"),
    "refused_a_restart": no_thread("its seccomp filter forbids"),
    "traps_other_calls": no_thread("its seccomp filter forbids"),
    "four_calls": no_thread("its seccomp filter forbids"),
    "loader_namespaces": no_thread(""),  # it may have found a C library that is gone by now
    "static": no_thread("statically linked"),
    "static_pie": no_thread("statically linked"),
}
# What docs/threats.md does not promise: a worker has two descriptors of the process for a moment, and the ids of the
# thread that it was cloned from.
NOT_DONE = {"lowest_descriptor": ("inject",), "used_up_descriptors": ("inject",),
            "no_standard_files": ("inject",), "changing_users": NO_THREAD}
# To whom a debugger's stop alone is EINTR or the end, who trace what strace -f then traces, whose SIGTRAP gdb
# and strace keep for themselves (of ten processes beside them alone, five and four), and whose SIGSETXID strace
# loses, so that they hang in setegid() (six of twelve beside strace alone).
ALONE = ("waiting_for_signals", "edge_events", "killed_by_a_restart", "refused_a_restart", "traces_a_child",
         "own_breakpoints", "own_steps", "changing_users")
# Tools that do not end beside such a process, without heapsnap too: strace -f (35 of 40 were there 2 s after SIGINT).
NOT_BESIDE = {"spawns_on_threads": ("strace",)}
# Of any process with one thread that does nothing but allocate.
ALWAYS_ALLOCATING = "its only thread is inside the allocator"
# Of two at once, or beside a debugger.
TRACED = re.compile("trace|the kernel refused")
REMAINS = "until the next heapsnap attach"


def is_expected(kind, command, said):
    """Whether this refusal is one of the kind's; after a refused or killed inject there is nothing to remove."""
    if command == "eject" and "nothing to remove" in said:
        return True
    if command in NO_THREAD and ALWAYS_ALLOCATING in said:
        return True
    text = REFUSALS.get(kind, {}).get(command)
    return text is not None and text in said


def operations_for(kind):
    return [name for name, words in OPERATIONS.items() if words[0] not in NOT_DONE.get(kind, ())]


def tools_beside(kind):
    return [tool for tool in ("gdb", "gcore", "strace") if tool not in NOT_BESIDE.get(kind, ())]


class Campaign:
    def __init__(self, heapsnap, folder, seed):
        self.heapsnap = heapsnap
        self.folder = folder
        self.random = random.Random(seed)
        self.operations = self.kills = self.refused = 0
        self.durations = {}
        self.printed = self.warned = ""  # by the last operation, on its stdout and stderr

    def start(self, name, pid):
        words = [word.format(folder=self.folder) for word in OPERATIONS[name]]
        return subprocess.Popen([self.heapsnap, *words, str(pid)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")

    def finish(self, name, command):
        """What it said when it was refused, or None."""
        try:
            self.printed, self.warned = command.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            command.kill()
            command.communicate()
            raise Failure(f"{name} did not end in {PATIENCE} s") from None
        if command.returncode == 0:
            return None
        if command.returncode not in (3, 4, 5) or not self.warned.startswith("heapsnap: "):
            raise Failure(f"{name} ended with {command.returncode}: {self.warned}")
        return self.warned

    def operate(self, process, kind, name):
        before = process.belongings() if name in ATTACHES else None
        begin = time.monotonic()
        said = self.finish(name, self.start(name, process.pid))
        self.durations[name] = time.monotonic() - begin
        self.operations += 1
        process.check(f"after {name}", may_have_copy=False)
        if before is not None:
            process.compare(before, name)
        if said is None:
            return
        self.refused += 1
        if not is_expected(kind, OPERATIONS[name][0], said):
            raise Failure(f"{name} was refused: {said}")

    def two_at_once(self, process, kind):
        names = [self.random.choice(ATTACHES), self.random.choice(operations_for(kind))]
        commands = [self.start(name, process.pid) for name in names]
        said = [self.finish(name, command) for name, command in zip(names, commands)]
        self.operations += 2
        for name, text in zip(names, said):
            if text is not None and not TRACED.search(text) and not is_expected(kind, OPERATIONS[name][0], text):
                raise Failure(f"{name} of {names}: {text}")
        process.check(f"after {names} at once", may_have_copy=False)

    def kill_one(self, process, kind):
        """Kills heapsnap in an operation; nothing is counted when that was over before."""
        name = self.random.choice(operations_for(kind))
        moment = self.random.random() * self.durations.get(name, 0.1) * 1.1
        kills_child = self.random.random() < 0.5
        command = self.start(name, process.pid)
        watched = os.pidfd_open(command.pid)
        try:
            ended = process.wait_for_file(watched, moment)
        finally:
            os.close(watched)
        victims = children(command.pid) if kills_child else []
        if not ended:
            try:
                os.kill(victims[0] if victims else command.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        command.communicate(timeout=PATIENCE)
        if command.returncode == -signal.SIGKILL or (victims and command.returncode != 0):
            self.kills += 1
        whom = "the child of" if victims else ""
        process.check(f"after a kill of {whom} {name} at {moment * 1000:.1f} ms", may_have_copy=True)

    def beside(self, process, kind, tool):
        commands = {"gdb": ["gdb", "-nx", "-batch", "-ex", "bt", "-ex", "detach", "-p", str(process.pid)],
                    "gcore": ["gcore", "-o", f"{self.folder}/core", str(process.pid)],
                    "strace": ["timeout", "-s", "INT", "1", "strace", "-f", "-o", "/dev/null", "-p",
                               str(process.pid)]}
        if not shutil.which(tool):
            return
        name = self.random.choice(operations_for(kind))
        with subprocess.Popen(commands[tool], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as other:
            process.wait_for_file(None, self.random.random() * 0.3)
            said = self.finish(name, self.start(name, process.pid))
            other.wait(PATIENCE)
        self.operations += 1
        if said is not None and not TRACED.search(said) and not is_expected(kind, OPERATIONS[name][0], said):
            raise Failure(f"{name} beside {tool}: {said}")
        # Held by a debugger for longer than heapsnap waits to have the copy reaped.
        remains = REMAINS in re.sub(r"\s+", " ", self.printed + self.warned)
        process.check(f"after {name} beside {tool}", may_have_copy=remains)
        if remains and "attach fork" in operations_for(kind):
            self.operate(process, kind, "attach fork")

    def notes(self):
        """What the last operation had to say of the process."""
        return re.sub(r"\s+", " ", "".join(re.findall(r"^Notes\n((?: .*\n)+)", self.printed, re.MULTILINE)))


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def run_kind(campaign, kind, arguments):
    with OddProcess(kind, arguments.target, campaign.folder) as process:
        for number in range(arguments.rounds):
            names = operations_for(kind)
            if number > 0:
                campaign.random.shuffle(names)
            for name in names:
                campaign.operate(process, kind, name)
            campaign.two_at_once(process, kind)
        for _ in range(0 if kind in ALONE else arguments.beside):
            campaign.beside(process, kind, campaign.random.choice(tools_beside(kind)))
        wanted = campaign.kills + arguments.kills
        for _ in range(arguments.kills * 2):
            if campaign.kills < wanted:
                campaign.kill_one(process, kind)
        if arguments.kills:
            # Reaps what the killed ones have left.
            for name in ("attach fork", "eject"):
                if name in operations_for(kind):
                    campaign.operate(process, kind, name)
        process.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heapsnap")
    parser.add_argument("target")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--skip", default="")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--beside", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    kinds = [kind for kind in arguments.kinds.split(",") if kind] or kinds_of(arguments.target)
    kinds = [kind for kind in kinds if kind not in arguments.skip.split(",")]
    failures = skipped = operations = kills = refused = 0
    for number, kind in enumerate(kinds):
        with tempfile.TemporaryDirectory(prefix="heapsnap-odd-") as folder:
            os.chmod(folder, 0o755)
            campaign = Campaign(arguments.heapsnap, folder, arguments.seed * 1000 + number)
            begin = time.monotonic()
            try:
                run_kind(campaign, kind, arguments)
                verdict = "unharmed"
            except Skipped as reason:
                verdict = f"skipped: {reason}"
                skipped += 1
            except (Failure, subprocess.TimeoutExpired) as failure:
                verdict = f"FAILED: {failure} {campaign.notes()}"
                failures += 1
            print(f"{kind}: {campaign.operations} operations, {campaign.kills} kills, {campaign.refused} refusals, "
                  f"{time.monotonic() - begin:.1f} s: {verdict}", flush=True)
            operations += campaign.operations
            kills += campaign.kills
            refused += campaign.refused
    print(f"{len(kinds) - skipped} kinds, {operations} operations, {kills} kills, {refused} refusals, {failures} failures, "
          f"{skipped} skipped")
    if failures:
        return 1
    return 77 if skipped == len(kinds) else 0


if __name__ == "__main__":
    sys.exit(main())
