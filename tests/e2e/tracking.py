#!/usr/bin/env python3
"""Tracked processes, from outside: tracking.py CASE HEAPSNAP FOLDER_OF_TARGETS"""

import functools
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile

import truth_process
from kernel_rules import NOBODY, as_nobody
from tracked_process import TrackedExport, TrackedTarget, check_blocks, check_counts, output_of


def complain(what, complaints):
    lines = list(complaints.lines())
    for line in lines:
        print(f"{what}: {line}")
    return len(lines)


def in_bytes(size):
    number, unit = size.split()
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


class Case:
    def __init__(self, heapsnap, targets, work):
        self.heapsnap, self.targets, self.work = heapsnap, targets, work
        self.target = targets / "tracked_target"
        self.taken = 0

    def start(self, *arguments, options=(), **how):
        return TrackedTarget([self.heapsnap, "run", *options, "--", self.target, *arguments], **how)

    def take(self, *words):
        self.taken += 1
        path = self.work / f"{self.taken}.hsnap"
        output_of([self.heapsnap, *words, "-q", "--literal-name", "-o", path])
        return path

    def stacks(self, what, *options):
        return json.loads(output_of([self.heapsnap, "stacks", "-j", *options, what]))

    def entry_points(self):
        """Every entry point, by each way to freeze."""
        failures = 0
        with self.start() as target:
            for freeze in ("fork", "stop", "none"):
                export = TrackedExport(self.heapsnap, self.take("attach", target.pid, "--freeze", freeze))
                failures += complain(freeze, check_blocks(target, export))
                failures += complain(freeze, check_counts(export))
            assert target.end() == 0
        return failures

    def fork(self):
        """A child goes on with the tables that it inherited."""
        with self.start("--fork", options=["--follow-children"]) as target:
            assert target.pid != target.process.pid
            export = TrackedExport(self.heapsnap, self.take("attach", target.pid))
            failures = complain("child", check_blocks(target, export)) + complain("child", check_counts(export))
            assert target.end() == 0
        return failures

    def injected(self, *arguments, options=(), **how):
        """Starts a target that the tracker is put into while it runs."""
        library = self.targets / "libunloaded_library.so"
        return TrackedTarget([self.target, "--late", library, *arguments],
                             meanwhile=lambda pid: output_of([self.heapsnap, "inject", *options, pid]), **how)

    def inject(self):
        """Caught: every entry point, pointers and threads of before, libraries that come later. Then out again."""
        failures = 0
        with self.injected() as target:
            assert len(target.before) == 20
            functions = {function for _, function in target.live.values()}
            assert {"unloaded_alloc", "by_found_pointer", "by_pointer", "by_early_thread", "by_pvalloc"} <= functions
            for freeze in ("fork", "stop", "none"):
                export = TrackedExport(self.heapsnap, self.take("attach", target.pid, "--freeze", freeze))
                failures += complain(freeze, check_blocks(target, export))
                failures += complain(freeze, check_counts(export))
            assert self.stacks(target.pid, "--all")["without_stack"]["blocks"] >= len(target.before)
            output_of([self.heapsnap, "eject", target.pid])
            export = TrackedExport(self.heapsnap, self.take("attach", target.pid))
            assert not export.stacks and not [chunk for chunk in export.chunks.values() if "stack" in chunk]
            assert target.end() == 0
        return failures

    def inject_memory(self):
        """What the tracker will need is said before, and what it took is what the account has."""
        said = []
        with TrackedTarget([self.target, "--late", self.targets / "libunloaded_library.so", "--many"],
                           meanwhile=lambda pid: said.append(output_of([self.heapsnap, "inject", pid]))) as target:
            text = " ".join(said[0].split())
            share, whole = re.search(r"an eighth of the memory of new blocks, which is (\S+ \S+) once these take as much as malloc "
                                     r"has now \((\S+ \S+)\)", text).groups()
            assert abs(8 * in_bytes(share) - in_bytes(whole)) < 0.1 * in_bytes(whole), text
            assert text.index("an eighth of") < text.index(f"process {target.process.pid}: tracker loaded"), text
            taken = in_bytes(re.search(r"its tables take (\S+ \S+) now", text)[1])
            report = json.loads(output_of([self.heapsnap, "report", "-j", self.take("attach", target.pid)]))
            resident = report["rss"]["rows"]["tracker"]["resident"]
            live = report["tracking"]["live_bytes"] + report["tracking"]["live_blocks"] * 16
            # "Some MiB": the tables as they were, frames and slots of what came since.
            assert taken / 4 < resident < taken + live / 8 + (16 << 20), (taken, resident, live)
            limited = output_of([self.heapsnap, "inject", "--memory-limit", "64MiB", target.pid])
            assert "the tracker's tables may take 64.0 MiB of memory" in " ".join(limited.split()), limited
            assert target.end() == 0
        return 0

    def inject_fork(self):
        """A child of a process that the tracker was put into."""
        with self.injected("--fork") as target:
            assert target.pid != target.process.pid
            export = TrackedExport(self.heapsnap, self.take("attach", target.pid))
            failures = complain("child", check_blocks(target, export)) + complain("child", check_counts(export))
            assert target.end() == 0
        return failures

    def inject_limit(self):
        """Tables that may not grow: what was dropped is counted and told, what was recorded is right."""
        with self.injected("--many", options=["--memory-limit", "2MiB"]) as target:
            path = self.take("attach", target.pid)
            listing = self.stacks(path, "--all")
            tracker = listing["tracker"]
            assert tracker["memory_limit"] == 2 << 20, tracker
            assert tracker["limits"] and tracker["dropped_blocks"] + tracker["dropped_stacks"] > 0, tracker
            assert tracker["memory_used"] <= tracker["memory_limit"], tracker
            text = output_of([self.heapsnap, "stacks", path])
            assert "the tracker reached its limit of: memory" in text, text
            assert tracker["limit_reached_after_ns"] > 0 and tracker["unrecorded"] > 100, tracker
            told = re.search(r"its tables could not grow beyond 2.0 MiB: from .* new blocks were not recorded "
                             r"\(([\d,]+) blocks or more\)", " ".join(text.split()))
            assert told and int(told[1].replace(",", "")) == tracker["unrecorded"], text
            export = TrackedExport(self.heapsnap, path)
            # Nothing is said of a block rather than something wrong.
            without = {address for address in target.live if not export.functions(export.chunks[address])}
            assert without, "nothing was dropped"
            for address in without:
                del target.live[address]
            failures = complain("limited", check_blocks(target, export))
            # Without the limit it goes on.
            output_of([self.heapsnap, "inject", target.pid])
            tracker = self.stacks(target.pid)["tracker"]
            assert tracker["memory_limit"] == 0 and tracker["limit_reached_after_ns"] == 0, tracker
            output_of([self.heapsnap, "eject", target.pid])
            refused = subprocess.run([self.heapsnap, "inject", "--memory-limit", "64KiB", str(target.pid)],
                                     capture_output=True, text=True)
            assert refused.returncode == 2 and "--memory-limit" in refused.stderr, refused
            assert "2.0 MiB" in refused.stderr, refused
            assert target.end() == 0
        return failures

    def core(self):
        """A core of a program that died tells what the live process told: by a fault of its own, killed."""
        return self.check_core(functools.partial(self.start, "--segv"), lambda target: target.end(), 128 + signal.SIGSEGV) \
            + self.check_core(self.start, self.kill, 128 + signal.SIGSEGV)

    def inject_core(self):
        """The same of one that the tracker was put into."""
        return self.check_core(self.injected, self.kill, -signal.SIGSEGV)

    @staticmethod
    def kill(target):
        os.kill(target.pid, signal.SIGSEGV)
        return target.process.wait(timeout=120)

    def check_core(self, start, die, expected):
        def prepare():
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        with truth_process.kernel_core_file() as prefix:
            with start(folder=folder, prepare=prepare) as target:
                live_path = self.take("attach", target.pid, "--freeze", "stop")
                code = die(target)
                assert code == expected, code
            cores = list(folder.glob(prefix + "*"))
            if len(cores) != 1:
                raise truth_process.Skip("the kernel wrote no core into the target's folder")
            core_path = self.work / f"{folder.name}.hsnap"
            printed = output_of([self.heapsnap, "core", cores[0], "--literal-name", "-o", core_path])
            cores[0].unlink()
        live, core = (TrackedExport(self.heapsnap, path) for path in (live_path, core_path))
        failures = complain("live", check_blocks(target, live)) + complain("core", check_blocks(target, core))
        failures += complain("core", check_counts(core))
        left, right = self.stacks(live_path, "--all"), self.stacks(core_path, "--all")
        for what in ("live_bytes", "live_blocks", "without_stack", "damaged", "stacks"):
            assert left[what] == right[what], (what, left[what], right[what])
        # The program's own frames with file and line, and everybody's sum.
        own = 0
        for stack in right["stacks"]:
            for frame in stack["frames"]:
                if frame.get("module", "").endswith("/tracked_target") and frame.get("function") != "_start":
                    own += 1
                    assert frame["file"].endswith(".cpp") and frame["line"] > 0, frame
        assert own > 30, own
        assert sum(stack["live_bytes"] for stack in right["stacks"]) == right["live_bytes"] > 100 << 10
        head = printed.partition("Blocks in use, by who allocated them\n")[2]
        assert re.match(r"(?:  untracked .*\n(?: {13}.*\n)*)?  tracked +[\d.]+ [KM]iB in \d+ blocks\n"
                        r" +\d+\.\d %.* [KM]iB +\d+ blocks? .*:\d+\n", head), printed
        text = output_of([self.heapsnap, "stacks", core_path, "--all"])
        assert re.search(r"^ +.*by_calloc.*tracked_target\.cpp:\d+$", text, re.MULTILINE), text
        listing = output_of([self.heapsnap, "stacks", core_path, "--format", "heapprof"])
        assert re.search(r"^  0x[0-9a-f]+ .*by_calloc.* \(.*tracked_target\.cpp:\d+\)$", listing, re.MULTILINE), listing
        return failures

    def listings(self):
        """The same facts in every listing."""
        with self.start() as target:
            path = self.take("attach", target.pid)
            live = self.stacks(target.pid, "--all")
            assert target.end() == 0
        whole = self.stacks(path, "--all")
        assert whole["kind"] == "stacks" and whole["version"] == 1
        assert [stack["live_bytes"] for stack in live["stacks"]] == [stack["live_bytes"] for stack in whole["stacks"]]
        total = sum(stack["live_bytes"] for stack in whole["stacks"])
        assert total == whole["live_bytes"] > 3 << 20
        for stack in whole["stacks"]:
            assert sum(size["size"] * size["count"] for size in stack["sizes"]) == stack["live_bytes"], stack
        by_blocks = self.stacks(path, "--sort", "live-blocks", "--limit", "3")["stacks"]
        assert [one["live_blocks"] for one in by_blocks] == sorted(
            (one["live_blocks"] for one in whole["stacks"]), reverse=True)[:3]
        for group in ("function", "module"):
            groups = self.stacks(path, "--by", group, "--all")["groups"]
            assert abs(sum(one["live_bytes"] for one in groups) - total) < 1, group
        functions = {one["name"] for one in self.stacks(path, "--by", "function", "--all")["groups"]}
        assert any("by_new" in name for name in functions), functions
        threads = self.stacks(path, "--by", "thread")["threads"]
        allocated = sum(one["allocations"] for one in threads)
        assert len(threads) >= 2 and allocated >= 390, threads
        heapprof = output_of([self.heapsnap, "stacks", path, "--format", "heapprof"])
        heads = re.findall(r"^(\d+)% (\d+) \[([\d, ]+)\]$", heapprof, re.MULTILINE)
        assert sum(int(size) for _, size, _ in heads) == total
        assert all(sum(map(int, sizes.split(", "))) == int(size) for _, size, sizes in heads)
        log = output_of([self.heapsnap, "stacks", path, "--format", "churnlog"])
        lives = re.findall(r"^\{[0-9a-f]+\} live:(\d+), alloc:\d+/\d+, free:\d+/\d+, live_count:(\d+), ", log, re.MULTILINE)
        assert sum(int(size) for size, _ in lives) == total
        assert sum(int(count) for _, count in lives) == whole["live_blocks"]
        text = output_of([self.heapsnap, "stacks", path, "--limit", "2"])
        assert "by_realloc" in text and text.count("\n    allocated  ") == 2, text
        assert "Blocks in use, by who allocated them" in output_of([self.heapsnap, "report", path])
        report = json.loads(output_of([self.heapsnap, "report", "-j", path]))
        assert report["tracking"]["live_bytes"] == total
        bare = self.work / "bare.hsnap"
        with self.start() as target:
            output_of([self.heapsnap, "attach", "-q", "--no-symbols", "-o", bare, target.pid])
        names = json.dumps(self.stacks(bare, "--all"))
        assert "by_malloc" in names  # looked for when they were asked for
        return 0

    def sampled(self):
        """Weights make up for what was passed over."""
        with self.start() as target:
            everything = self.stacks(target.pid, "--all")["live_bytes"]
        estimates = []
        for _ in range(10):
            with self.start(options=["--sample", "16KiB"]) as target:
                listed = self.stacks(target.pid, "--all")
                assert listed["tracker"]["sample_bytes"] == 16384
                assert listed["without_stack"]["blocks"] > 100, listed["without_stack"]
                estimates.append(listed["live_bytes"])
        mean = sum(estimates) / len(estimates)
        assert abs(mean - everything) < 0.15 * everything, (everything, estimates)
        return 0

    def run(self):
        """The program's end is that of run; options reach the tracker."""
        for words, expected in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -TERM $$"], 143), (["true"], 0)):
            output_of([self.heapsnap, "run", "--", *words], expected=expected)
        refused = subprocess.run([self.heapsnap, "run", "--", "/nonexistent"], capture_output=True, text=True)
        assert refused.returncode == 2 and "No such file" in refused.stderr, refused
        with self.start(options=["--frames", "2"]) as target:
            stacks = self.stacks(target.pid, "--all")
            assert stacks["tracker"]["max_frames"] == 2
            assert all(len({frame["address"] for frame in stack["frames"]}) <= 2 for stack in stacks["stacks"])
            target.process.send_signal(signal.SIGTERM)  # passed on
            assert target.process.wait(timeout=60) == 128 + signal.SIGTERM
        # A child of the program is left alone, or followed.
        script = 'ready=$("$0" < /dev/null | tail -1); echo "$ready"; ' \
                 'grep -c "heapsnap_directory" /proc/$$/maps; exec sleep 0'
        assert "ready" in output_of([self.heapsnap, "run", "--", "sh", "-c", script, self.target])
        with self.start("--fork") as target:
            alone = self.stacks(target.pid, "--all")  # a fork, though, goes on with the tables
            assert alone["live_blocks"] > 0
        return 0

    def preload(self):
        """The name that is left in the environment leads to the tracker for good, and nobody else can change that."""
        script = 'echo "$LD_PRELOAD"; read line; grep heapsnap_tracker /proc/self/maps | head -1; exec sh -c ":"'
        program = subprocess.Popen([self.heapsnap, "run", "--follow-children", "--", "sh", "-c", script],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        path = pathlib.Path(program.stdout.readline().strip().split(":")[0])
        program.kill()  # the program goes on alone
        program.wait()
        assert path.is_file() and not path.is_symlink(), path
        for place in (path, *path.parents):
            status = place.lstat()
            assert status.st_uid in (0, os.getuid()) and status.st_mode & 0o022 == 0, (place, status)
        output, errors = program.communicate("\n", timeout=60)
        assert str(path) in output and not errors, (output, errors)
        return 0

    def preload_places(self):
        """Where others can write, or may later, no tracker is put."""
        if os.getuid() != 0:
            raise truth_process.Skip("it takes root to become another user")
        run = [self.heapsnap, "run", "--", "sh", "-c", 'echo "$LD_PRELOAD"']
        with tempfile.TemporaryDirectory(dir="/opt" if os.path.isdir("/opt") else "/") as place:
            os.chown(place, NOBODY, NOBODY)
            for mode, home, expected in ((0o700, place, 0), (0o777, place, 1), (0o700, "/tmp", 1)):
                os.chmod(place, mode)
                done = subprocess.run(as_nobody(run), capture_output=True, text=True, env={"PATH": os.environ["PATH"], "HOME": home})
                assert (done.returncode != 0) == expected, (mode, home, done)
                assert (place in done.stdout) == (not expected), done
                assert not expected or "only you and root" in done.stderr, done
            assert not os.path.exists("/tmp/.cache/heapsnap")
        return 0

    def at_exit(self):
        """The last snapshot, whatever ended the program."""
        for number, (arguments, end) in enumerate(((["--segv"], None), ([], None), ([], signal.SIGKILL), ([], signal.SIGTERM))):
            path = self.work / f"last{number}.hsnap"
            with self.start(*arguments, options=["--at-exit", path]) as target:
                if end is None:
                    code = target.end()
                else:
                    os.kill(target.pid, end)
                    code = target.process.wait(timeout=60)
                assert code == (128 + end if end else 128 + signal.SIGSEGV if arguments else 0), code
            export = TrackedExport(self.heapsnap, path)
            if complain(f"exit {number}", check_blocks(target, export)):
                return 1
        return 0

    def unloaded(self):
        """A library that is gone is known by its build-id, and names its functions still."""
        path, library = self.work / "a.hsnap", self.targets / "libunloaded_library.so"
        script = "import ctypes, _ctypes, sys\n" \
                 "library = ctypes.CDLL(sys.argv[1])\n" \
                 "library.unloaded_alloc(ctypes.c_size_t(54321))\n" \
                 "_ctypes.dlclose(library._handle)\n" \
                 "assert 'unloaded' not in open('/proc/self/maps').read()\n"
        # By way of an execve, and of a shell that is another program with other modules before it.
        output_of([self.heapsnap, "run", "--at-exit", path, "--", "sh", "-c", 'exec "$0" "$@"', sys.executable, "-c",
                   script, library])
        stacks = self.stacks(path, "--all")["stacks"]
        found = [stack["frames"][0] for stack in stacks if {"size": 54321, "count": 1} in stack["sizes"]]
        assert len(found) == 1, found
        assert (found[0]["function"], found[0]["module"]) == ("unloaded_alloc", str(library)), found
        assert found[0]["file"].endswith("unloaded_library.c"), found
        return 0

    def watch(self):
        """Counters from outside; snapshots and log entries when thresholds are passed."""
        script = "import os,sys\nprint('ready', flush=True)\nkept=[]\n" \
                 "while True:\n kept.append(b'x' * 200000)\n for _ in range(50): b'y' * 300000\n"
        # A command that allocates and frees all the time, with ptmalloc alone.
        process = subprocess.Popen([str(self.heapsnap), "run", "--", sys.executable, "-c", script],
                                   stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONMALLOC": "malloc"},
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 40, 4 << 40)))
        try:
            process.stdout.readline()
            pid = int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
            folder = self.work / "watch"
            folder.mkdir()
            lines = output_of([self.heapsnap, "watch", pid, "--interval", "50ms", "--growth", "2MiB", "--count", "2",
                               "-o", folder]).splitlines()
            titles = next(line for line in lines if re.match(r"\d{4}-", line)).split()
            assert titles[1:6] == ["live", "live/s", "growth", "churn/s", "allocs/s"] and "rss" in titles, titles
            # Below its row a snapshot says how much growth called for it.
            calls = [i for i, line in enumerate(lines) if ", paused " in line]
            assert len(calls) == 2, lines
            for i in calls:
                row = lines[i - 1].split()
                assert len(row) == len(titles), (titles, lines[i - 1])
                reason = re.match(r"  grew by ([\d.]+) ([MG])iB: \S+\.hsnap, ", lines[i])
                assert row[3] == f"+{reason[1]}{reason[2]}", lines[i - 1:i + 1]
                assert reason[2] == "G" or float(reason[1]) >= 2, lines[i]
            taken = sorted(folder.glob("*.hsnap"))
            assert len(taken) == 2
            live = [self.stacks(path)["live_bytes"] for path in taken]
            assert live[1] - live[0] > 1 << 20, live
            log = output_of([self.heapsnap, "watch", pid, "--interval", "50ms", "--churn", "1MiB", "--count", "2",
                             "--format", "churnlog"])
            assert re.findall(r"^\[  ([01])\]=+$", log, re.MULTILINE) == ["0", "1"], log[:400]
            for churn, threshold in re.findall(r"^churn=(\d+)/(\d+)$", log, re.MULTILINE):
                assert int(churn) >= int(threshold) == 1 << 20
            assert re.search(r"^  \{0\} .*\+0x[0-9a-f]+", log, re.MULTILINE), log[:2000]
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()
        refused = subprocess.run([self.heapsnap, "watch", str(os.getpid()), "--churn", "1MiB"], capture_output=True,
                                 text=True)
        assert refused.returncode == 5 and "not tracked" in refused.stderr, refused
        return 0


def main():
    name, heapsnap, targets = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    with tempfile.TemporaryDirectory(prefix="heapsnap-tracking.") as folder:
        try:
            failures = getattr(Case(heapsnap, targets, pathlib.Path(folder)), name)()
        except truth_process.Skip as reason:
            print(f"skipped: {reason}")
            return truth_process.SKIPPED
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
