#!/usr/bin/env python3
"""Compares what heapsnap says of a process with what the process says of itself.

    truth.py --heapsnap PROGRAM --targets FOLDER --roots FOLDER --libc WHICH [--view VIEW] ...

WHICH is the C library: "native", "static", "static-pie" (each also "-stripped"), or the name of a Debian
suite, whose libc6 is fetched into --roots on first use. Views:

    live         attach by each way to freeze; all see the same heap, and the target is unharmed
    churn        the same while all threads of the target allocate and free other blocks
    core         attach, then gcore; both see the same, chunk by chunk
    core-alone   the same, where none of the target's files can be opened any more
    kernel-core  attach, then the core that the kernel writes when the target dies of SIGABRT

Exit code: 0 the truth was told, 1 it was not (each lie is printed with its neighbours), 77 skipped.
"""

import argparse
import contextlib
import gc
import json
import pathlib
import subprocess
import sys
import tempfile

import truth_process
from truth_heap import Complaints, Export, check_stacks, check_sums, check_threads, compare, compare_exports
from truth_process import RunningTarget, Skip, TargetChoice

# Reading a process that runs on may miss what moves under its hands, but not much else.
FOUND_WHILE_RUNNING = 0.9
HUGE_PAGES_NEEDED = 256


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heapsnap", required=True, type=pathlib.Path)
    parser.add_argument("--targets", required=True, type=pathlib.Path, help="folder of the built truth targets")
    parser.add_argument("--roots", required=True, type=pathlib.Path, help="where other suites' C libraries are kept")
    parser.add_argument("--compiler", default="cc", help="links the target for older suites")
    parser.add_argument("--libc", required=True)
    parser.add_argument("--view", default="live", choices=["live", "churn", "core", "core-alone", "kernel-core"])
    parser.add_argument("--mode", default="plain", choices=["plain", "foreign", "blocked", "foreign-blocked", "blocked-early"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="of the target")
    parser.add_argument("--tracker", type=pathlib.Path, help="preload this library, and check the stacks of blocks")
    parser.add_argument("--by-loader", action="store_true",
                        help="start another suite's program by its ld.so, not in a chroot (as others than root always do)")
    parser.add_argument("--no-debug-files", action="store_true", help="hide separate debug files from heapsnap")
    parser.add_argument("--huge-pages", action="store_true", help="reserve huge pages, and see that they are used")
    arguments = parser.parse_args()
    arguments.heapsnap = arguments.heapsnap.resolve()
    arguments.targets = arguments.targets.resolve()
    arguments.roots = arguments.roots.resolve()
    return arguments


class Failures:
    def __init__(self):
        self.count = 0

    def report(self, what, lines):
        lines = list(lines)
        self.count += len(lines)
        if lines:
            print(f"{what}:")
            for line in lines:
                print(f"  {line}")


class Heapsnap:
    """Runs the program under test; a snapshot comes back as an Export."""

    def __init__(self, arguments, work):
        self.arguments = arguments
        self.program = arguments.heapsnap
        self.work = work
        self.taken = 0
        self.last = None

    def run(self, *arguments):
        done = subprocess.run([self.program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            words = " ".join(str(argument) for argument in arguments)
            raise RuntimeError(f"heapsnap {words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def take(self, *arguments):
        """The path of a snapshot."""
        self.taken += 1
        path = self.work / f"{self.taken}.hsnap"
        common = ["-q", "--literal-name", "-o", path] + ["--no-debug-files"] * self.arguments.no_debug_files
        self.run(*arguments, *common)
        return path

    def read(self, path):
        export = self.last = Export(self.run("export", "--format", "ndjson", path), self.last)
        export.report = json.loads(self.run("report", "-j", path))
        return export

    def attach(self, pid, freeze):
        return self.take("attach", str(pid), "--freeze", freeze)

    def core(self, path, sysroot):
        return self.read(self.take("core", path, *(["--sysroot", sysroot] if sysroot else [])))


def found_share(truth, export):
    found = [pointer for pointer, (usable, state) in truth.live.items()
             if (chunk := export.at(pointer)) and (chunk.usable, chunk.state) == (usable, state)]
    return len(found) / len(truth.live)


def check_freezes(heapsnap, target, failures, churning):
    """One snapshot for each way to freeze. They are read when the target has ended: it may take a lot of processor time."""
    paths = {freeze: heapsnap.attach(target.pid, freeze) for freeze in ("fork", "stop", "none")}
    check_unharmed(target, failures)
    exports = {}
    for freeze, path in paths.items():
        export = heapsnap.read(path)
        if churning and freeze == "none":
            share = found_share(target.truth, export)
            if share < FOUND_WHILE_RUNNING:
                failures.report(f"freeze {freeze}", [f"only {share:.0%} of the live blocks were found"])
            continue
        exports[freeze] = export
        failures.report(f"freeze {freeze}", check_sums(export, export.report).lines())
        if freeze != "none":  # which stops nobody and so learns no thread's registers
            failures.report(f"freeze {freeze}", check_threads(target.truth, export.report).lines())
        failures.report(f"freeze {freeze}", method_lines(heapsnap.arguments, export, freeze))
        failures.report(f"freeze {freeze}", compare(target.truth, export, churning).lines())
        if heapsnap.arguments.tracker:
            failures.report(f"freeze {freeze}", check_stacks(target.truth, export).lines())
        failures.report(f"freeze {freeze}", damage_lines(export))
    if not churning:
        for freeze in ("stop", "none"):
            failures.report(f"fork and {freeze}", compare_exports(exports["fork"], exports[freeze], "fork", freeze).lines())


def damage_lines(export):
    """A sound heap must not be called damaged."""
    complaints = Complaints()
    for damage in export.report["corruptions"]:
        complaints.add("damage reported", json.dumps(damage))
    return complaints.lines()


def method_lines(arguments, export, freeze=None):
    """That it was done in the way that the test is about. No copy is made of a process with private huge pages."""
    if freeze == "fork" and arguments.huge_pages:
        freeze = "stop"
    if freeze and export.header["freeze"] != freeze:
        yield f"freeze is {export.header['freeze']}, not {freeze}"
    found_by = export.header["discovery"]
    if found_by == "debug-symbol" and (arguments.no_debug_files or arguments.libc.endswith("-stripped")):
        yield "discovery by debug-symbol, where there are none"
    if found_by == "debug-symbol" and arguments.view == "core-alone":
        yield "discovery by debug-symbol, without any file"
    if found_by != "debug-symbol" and arguments.libc in ("static", "static-pie"):
        yield f"discovery by {found_by}, although the program has symbols"


def check_core(heapsnap, live, core, truth, failures):
    failures.report("core", compare(truth, core).lines())
    if heapsnap.arguments.tracker:
        failures.report("core", check_stacks(truth, core).lines())
    failures.report("core", check_sums(core, core.report).lines())
    failures.report("core", damage_lines(core))
    failures.report("core", method_lines(heapsnap.arguments, core))
    failures.report("live and core", compare_exports(live, core, "live", "core").lines())


def check_unharmed(target, failures):
    code = target.end()
    if code != 0:
        failures.report("target", [f"it ended with {code} instead of 0"])


def run_view(arguments, heapsnap, choice, work, failures):
    environment = dict(pair.split("=", 1) for pair in arguments.env)
    if arguments.tracker:
        environment["LD_PRELOAD"] = str(arguments.tracker.resolve())
    view = arguments.view
    with contextlib.ExitStack() as stack:
        prefix = stack.enter_context(truth_process.kernel_core_file()) if view == "kernel-core" else None
        target = stack.enter_context(
            RunningTarget(choice, work, arguments.mode, arguments.seed, environment,
                          churn=view == "churn", abort=view == "kernel-core"))
        if arguments.huge_pages and "/anon_hugepage" not in target.maps():
            raise Skip("this C library uses no huge pages although it was told to")
        if view in ("live", "churn"):
            check_freezes(heapsnap, target, failures, churning=view == "churn")
            return
        live = heapsnap.read(heapsnap.attach(target.pid, "stop"))
        failures.report("live", compare(target.truth, live).lines())
        if view == "kernel-core":
            core_path = truth_process.make_kernel_core(target, choice.working_folder(work), prefix)
            sysroot = choice.sysroot()  # the kernel names files as the target saw them
        else:
            core_path = work / "core.gcore"
            truth_process.make_gcore(target.pid, core_path)
            sysroot = str(work / "nothing") if view == "core-alone" else None  # gdb, as it sees them itself
        check_core(heapsnap, live, heapsnap.core(core_path, sysroot), target.truth, failures)
        if view != "kernel-core":
            check_unharmed(target, failures)


def main():
    gc.disable()  # chunks by the ten thousand, which live as long as this
    arguments = parse_arguments()
    failures = Failures()
    with tempfile.TemporaryDirectory(prefix="heapsnap-truth.") as folder, contextlib.ExitStack() as stack:
        work = pathlib.Path(folder)
        try:
            choice = TargetChoice(arguments.libc, arguments.targets, arguments.roots, arguments.compiler, work,
                                  arguments.by_loader)
            stack.callback(choice.clean_up)
            if arguments.huge_pages:
                stack.enter_context(truth_process.huge_pages(HUGE_PAGES_NEEDED))
            run_view(arguments, Heapsnap(arguments, work), choice, work, failures)
        except Skip as reason:
            print(f"skipped: {reason}")
            return truth_process.SKIPPED
        except RuntimeError as error:
            failures.report("failure", str(error).splitlines())
    print(f"{failures.count} lies" if failures.count else "the truth was told")
    return 1 if failures.count else 0


if __name__ == "__main__":
    sys.exit(main())
