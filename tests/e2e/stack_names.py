#!/usr/bin/env python3
"""How call stacks are named, charged and shown: stack_names.py CASE HEAPSNAP NAMED_FUNCTIONS"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

from tracked_cat import TrackedCat
from tracked_process import output_of

SKIPPED = 77


class Skip(Exception):
    pass


def functions_of(program):
    """Where the functions of an unstripped program begin."""
    return {int(line.split()[0], 16) for line in output_of(["nm", "--defined-only", program]).splitlines()
            if line.split()[1] in "tTwWiV"}


def shares(listing):
    """Frames that are functions of their own, and how many have a name and are not just named by their begin."""
    frames = [frame for stack in listing["stacks"] for frame in stack["frames"] if not frame.get("inlined")]
    named = [frame for frame in frames if "function" in frame]
    return len(frames), len(named)


def build_id_of(program):
    return re.search(r"Build ID: ([0-9a-f]+)", output_of(["readelf", "-n", program]))[1]


@contextlib.contextmanager
def served(debug_files):
    """A debuginfod server on loopback; gives its address."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content = debug_files.get(self.path.removeprefix("/buildid/").removesuffix("/debuginfo"))
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Case:
    def __init__(self, heapsnap, program, work):
        self.heapsnap, self.program, self.work = heapsnap, program, work

    def snapshot(self, *command, options=()):
        path = self.work / "stacks.hsnap"
        output_of([self.heapsnap, "run", "--at-exit", path, "-f", *options, "--", *command])
        return path

    def listing(self, path, *options):
        return json.loads(output_of([self.heapsnap, "stacks", "-j", "--all", *options, path]))

    def groups(self, path, *options):
        return {one["name"]: one["live_bytes"] for one in self.listing(path, "--by", "function", *options)["groups"]}

    def text(self, path, *options, columns=None):
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        return output_of([self.heapsnap, "stacks", *options, path],
                         env=environment | ({"COLUMNS": str(columns)} if columns else {}))

    def stripped(self):
        """Each function of a stripped program has a name, and that is where a function of the program begins."""
        stripped = self.work / "stripped"
        output_of(["objcopy", "--strip-all", self.program, stripped])
        path = self.snapshot(stripped)
        listing = self.listing(path)
        begins = functions_of(self.program)
        frames, named = shares(listing)
        assert frames > 50 and named == frames, (frames, named)
        met = set()
        for stack in listing["stacks"]:
            for frame in stack["frames"]:
                if os.path.basename(frame["module"]) != "stripped":
                    continue
                if frame["function"] == "<entry point>":
                    continue
                match = re.fullmatch(r"stripped\+0x([0-9a-f]+)\(\)", frame["function"])
                assert match and int(match[1], 16) in begins, frame
                assert int(frame["module_address"], 16) == int(match[1], 16) + frame["offset"], frame
                met.add(frame["function"])
        assert len(met) >= 12, met
        # As many groups as the program has functions that allocate; pool_get() has ten callers and is passed over.
        groups = self.listing(path, "--by", "function")
        charged = [one for one in groups["groups"] if one["live_bytes"] > 0]
        assert len([one for one in charged if one["name"] in met]) >= 12, charged
        assert max(one["live_bytes"] for one in charged) < 0.9 * groups["live_bytes"], charged
        pool_get = next(address for address, name in self.symbols() if "pool_get" in name)
        assert [one["name"] for one in groups["passed_over"]] == [f"stripped+{pool_get:#x}()"], groups["passed_over"]
        assert f"stripped+{pool_get:#x} (for 10)" in " ".join(self.text(path, "--by", "function").split())

    def named_later(self):
        """Debug symbols that come after the snapshot give names, installed or fetched as the listing says."""
        stripped, debug = self.work / "stripped", self.work / "stripped.debug"
        output_of(["objcopy", "--only-keep-debug", self.program, debug])
        output_of(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", self.program, stripped])
        debug.rename(self.work / "elsewhere")
        path = self.snapshot(stripped)
        before = self.text(path, "--by", "function")
        assert "without a name, most of it in stripped" in " ".join(before.split()) and "text_loader" not in before, before
        # As the listing says, where nobody else sees it.
        (place,) = re.findall(r"copy the unstripped file of the same build to (/usr/lib/debug/\.build-id/\S+\.debug) and list "
                              r"them again", " ".join(before.split()))
        script = f"mount -t tmpfs none /usr/lib/debug && install -D $1 {place} && exec $2 stacks --by function $3"
        if subprocess.run(["unshare", "-m", "test", "-d", "/usr/lib/debug"], stderr=subprocess.DEVNULL).returncode == 0:
            named = output_of(["unshare", "-m", "sh", "-c", script, "sh", self.program, self.heapsnap, path])
            assert "text_loader" in named and "most of it in stripped" not in " ".join(named.split()), named
        (self.work / ".debug").mkdir()
        shutil.copy(self.work / "elsewhere", self.work / ".debug" / "stripped.debug")
        for after in (self.text(path, "--by", "function"), output_of([self.heapsnap, "report", path])):
            assert "text_loader" in after and "most of it in stripped" not in " ".join(after.split()), after
        shutil.rmtree(self.work / ".debug")
        (command,) = [line.strip() for line in before.splitlines() if "DEBUGINFOD_URLS=" in line]
        with served({build_id_of(self.program): (self.work / "elsewhere").read_bytes()}) as address:
            command, replaced = re.subn("https://[^ ]*", address, command)
            assert replaced == 1, command
            fetched = subprocess.run(command, shell=True, capture_output=True, text=True, env=os.environ | {
                "PATH": f"{self.heapsnap.parent}:{os.environ['PATH']}", "DEBUGINFOD_CACHE_PATH": str(self.work / "cache")})
        assert fetched.returncode == 0, fetched
        assert "text_loader" in fetched.stdout, fetched
        # Where all servers were asked in vain, that is not said again.
        for server, is_asked_next in (("http://127.0.0.1:1", True), ("http://127.0.0.1:1/debuginfod.elfutils.org", False)):
            text = output_of([self.heapsnap, "stacks", path, "--by", "function", "--debuginfod"], env=os.environ | {
                "DEBUGINFOD_URLS": server, "DEBUGINFOD_CACHE_PATH": str(self.work / "none")})
            assert "they have none, or cannot be reached" in " ".join(text.split()), text
            assert ("DEBUGINFOD_URLS=https" in text) == is_asked_next, text

    def symbols(self):
        for line in output_of(["nm", "-C", "--defined-only", self.program]).splitlines():
            address, _, name = line.split(maxsplit=2)
            yield int(address, 16), name

    def complete(self):
        """Stacks of threads, of main and of libraries' constructors, by ld.so, end where nothing is further out."""
        for program in (self.program, self.work / "stripped"):
            if program != self.program:
                output_of(["objcopy", "--strip-all", self.program, program])
            listing = self.listing(self.snapshot(program))
            ends = {stack["end"] for stack in listing["stacks"]}
            assert ends == {"complete"}, ends
            outermost = {(os.path.basename(stack["frames"][-1]["module"]), stack["frames"][-1]["function"])
                         for stack in listing["stacks"]}
            # libstdc++ allocates before main.
            assert any(module.startswith("ld-") for module, _ in outermost), outermost
            assert any(module == "libc.so.6" for module, _ in outermost), outermost
            assert any(module == program.name for module, _ in outermost), outermost
            threads = self.listing(self.work / "stacks.hsnap", "--by", "thread")["threads"]
            assert all(thread["truncated"] == 0 for thread in threads), threads
            assert "cut off" not in self.text(self.work / "stacks.hsnap", "--all")

    def charged(self):
        """The program's own functions, not the library's or its ways to malloc."""
        path = self.snapshot(self.program)
        groups = self.groups(path)
        charged = {name: size for name, size in groups.items() if size > 0}
        for function, size in (("text_loader", 20 * 700), ("in_a_thread", 9000),
                               ("server::store::insert", 6000), ("server::legacy::insert", 6100)):
            found = [bytes_ for name, bytes_ in charged.items() if function in name]
            assert found == [size], (function, found, charged)
        inserts = [name for name in charged if "insert_of_template" in name]
        assert len(inserts) == 2 and all(charged[name] > 300 * 200 for name in inserts), charged
        for passed in ("std::", "operator new", "malloc", "__gnu_cxx", "_start", "clone"):
            assert not [name for name in charged if name.startswith(passed)], (passed, charged)
        # What the list does not know can be added to it, by a pattern or a file of them.
        pool = sum(3000 + 16 * number for number in range(10))
        assert [size for name, size in charged.items() if "pool_get" in name] == [pool], charged
        patterns = self.work / "patterns"
        patterns.write_text("# the pool\n\n  pool_get  \n")
        for options in (("--pass-over", "pool_get"), ("--pass-over-file", patterns)):
            added = self.groups(path, *options)
            users = [size for name, size in added.items() if "pool_user" in name and size > 0]
            assert len(users) == 10 and sum(users) == pool, added
        kept = self.groups(path, "--pass-over-file", patterns, "--pass-over", "!pool_get")
        assert kept == groups, kept
        assert [size for name, size in self.groups(path, "--pass-over", "!xmalloc").items()
                if "xmalloc" in name] == [20 * 700]
        reports = [output_of([self.heapsnap, "report", *options, path])
                   for options in ((), ("--pass-over", "*insert_of_template"))]
        # Where it is charged, the line of the call is shown.
        is_charged = [bool(re.search(r"insert_of_template\S*:\d+ ←", report)) for report in reports]
        assert is_charged == [True, False], reports
        modules = {os.path.basename(one["name"]): one["live_bytes"]
                   for one in self.listing(path, "--by", "module")["groups"]}
        assert modules[self.program.name] > 0.5 * sum(modules.values()), modules
        for words, why in ((("--pass-over", ""), "names no function"),
                           (("--pass-over-file", self.work / "none"), "none")):
            refused = subprocess.run([str(word) for word in (self.heapsnap, "stacks", "--by", "function", *words, path)],
                                     capture_output=True, text=True)
            assert refused.returncode != 0 and why in refused.stderr, refused

    def shown(self):
        """Lines fit the terminal, and what differs is seen to differ."""
        path = self.snapshot(self.program)
        for width in (60, 72, 80, 120):
            for options in ((), ("--by", "function"), ("--by", "module"), ("--by", "thread"), ("--sort", "churn")):
                by_option = self.text(path, *options, "--width", str(width), columns=200)
                assert by_option == self.text(path, *options, columns=width), (width, options)
                listing = by_option.partition("\nWhat next\n")[0]  # the command is never broken
                assert max(map(len, listing.splitlines())) <= width, (width, options, by_option)
        assert max(map(len, self.text(path).splitlines())) <= 80
        narrow = self.text(path, "--by", "function", "--all", "--width", "60")
        names = re.findall(r"\S*insert_of_template.*", narrow)
        assert len(names) == 2 and names[0] != names[1], narrow
        report = output_of([self.heapsnap, "report", "--width", "60", path])
        # Paths and commands stay in one piece.
        wide = [line for line in report.splitlines() if len(line) > 60 and str(self.program.parent) not in line
                and not line.startswith("    heapsnap ")]
        assert not wide, wide
        # The two calls of a line.
        stacks = self.text(path, "--all").split("\n\n")
        calls = [stack for stack in stacks if "caller_of_twice" in stack and "::twice" in stack]
        frames = [tuple(line.strip() for line in stack.splitlines() if line.startswith("      ")) for stack in calls]
        assert len(frames) == 2 and frames[0] != frames[1], calls
        assert re.search(r"caller_of_twice\+0x[0-9a-f]+", calls[0]), calls
        for words in (("--width", "59"), ("--width", "1000000"), ("--width", "x")):
            refused = subprocess.run([self.heapsnap, "stacks", *words, path], capture_output=True, text=True)
            assert refused.returncode == 2, refused

    def heapprof(self):
        """The sizes of blocks are as many as are asked for."""
        path = self.snapshot(self.program)
        listed = lambda *options: re.findall(r"^\d+% \d+ \[(.*)\]$", self.text(path, "--format", "heapprof", *options),
                                             re.MULTILINE)
        everything = [line.split(", ") for line in listed("--blocks", "0")]
        assert max(map(len, everything)) >= 300
        for options, most in (((), 32), (("--blocks", "5"), 5)):
            lines = listed(*options)
            assert len(lines) == len(everything)
            for line, sizes in zip(lines, everything):
                left = len(sizes) - most
                expected = sizes if left <= 0 else sizes[:most] + [f"... and {left} more"]
                assert line.split(", ") == expected, (line, expected)

    def arguments(self):
        """What a word means: the program's file never stands for its snapshot, and what is ambiguous is said."""
        program = self.work / "tracked_cat"
        shutil.copy("/usr/bin/cat", program)
        snapshots = self.work / "snapshots"
        snapshots.mkdir()

        def stacks(word, folder=self.work, expected=0):
            done = subprocess.run([self.heapsnap, "stacks", word], cwd=folder, capture_output=True, text=True)
            assert done.returncode == expected, (word, done)
            return done

        with TrackedCat(self.heapsnap, program) as cat:
            pid = cat.pid
            head = f"Process {pid}: tracked_cat\n"
            plain = stacks("tracked_cat")  # the program lies beside it
            assert plain.stdout.startswith(head) and not plain.stderr, plain
            assert f"heapsnap stacks {pid} --by" in plain.stdout, plain
            for name in ("tracked_cat", pid, "a.hsnap"):
                output_of([self.heapsnap, "attach", "-q", "-o", snapshots / name, pid])
            both = stacks("tracked_cat", snapshots)
            assert both.stderr == ("note: this is the snapshot ./tracked_cat; of the process of that name: "
                                   f"heapsnap stacks {pid}\n"), both
            assert "heapsnap stacks tracked_cat --by" in both.stdout, both
            number = stacks(pid, snapshots)
            assert number.stderr == (f"note: this is process {pid}; of the snapshot of that name: "
                                     f"heapsnap stacks ./{pid}\n"), number
            assert f"heapsnap stacks {pid} --by" in number.stdout, number
            assert f"heapsnap stacks ./{pid} --by" in stacks(f"./{pid}", snapshots).stdout
        after = stacks("tracked_cat", snapshots)
        assert after.stdout.startswith(head) and not after.stderr, after
        assert "and the file of this name is no snapshot" in stacks("tracked_cat", expected=3).stderr
        for word in ("./tracked_cat", "none.hsnap", "none/web"):
            assert word in stacks(word, expected=6).stderr

    def programs(self):
        """Debian's git and python3, which are stripped: every frame has a name that is not another function's."""
        commands = []
        if shutil.which("git", path="/usr/bin"):
            folder = self.work / "repository"
            git = ["/usr/bin/git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b"]
            output_of(["/usr/bin/git", "init", "-q", folder])
            for i in range(5):
                (folder / "file").write_text("line\n" * i)
                output_of([*git, "add", "file"])
                output_of([*git, "commit", "-q", "-m", str(i)])
            commands.append([*git, "log", "-p"])
        if os.path.exists("/usr/bin/python3"):
            commands.append([os.path.realpath("/usr/bin/python3"), "-c", "import json, re, email; re.compile('a+b')"])
        if not commands:
            raise Skip("there is neither git nor python3")
        for command in commands:
            listing = self.listing(self.snapshot(*command))
            frames, named = shares(listing)
            ends = {stack["end"] for stack in listing["stacks"]}
            print(f"{command[0]}: {named} of {frames} frames are named, ends {ends}")
            assert frames > 100 and named == frames, (command, frames, named)
            assert ends <= {"complete", "depth-limit"}, ends
            groups = self.groups(self.work / "stacks.hsnap")
            assert len([name for name, size in groups.items() if size > 0]) > 5, groups


def main():
    name, heapsnap, program = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    with tempfile.TemporaryDirectory(prefix="heapsnap-names.") as folder:
        try:
            getattr(Case(heapsnap, program, pathlib.Path(folder)), name)()
        except Skip as reason:
            print(f"skipped: {reason}")
            return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
