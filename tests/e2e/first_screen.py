#!/usr/bin/env python3
"""The first screen as a new user meets it: what it says is true, and the commands that it ends with work.

    first_screen.py CASE HEAPSNAP FIRST_SCREEN_TARGET

Each case brings a program to a state, reads the screen, compares what it says with what the program did, and runs the
commands under "What next" as they are printed (ARGUMENTS and SCRIPT replaced by the program's own).
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import servers
from owned_process import OwnedProcess

SKIPPED = 77
MIB = 1 << 20
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")

# Says "ready" when its memory has its shape, and after each byte on standard input that made it do more.
PYTHON = """
import array, sys
kept = [(i, str(i), [i]) for i in range(200000)]
buffers = [array.array('d', bytes(1 << 20)) for _ in range(20)]
print('ready', flush=True)
while sys.stdin.read(1):
    kept += [(i, str(i), [i]) for i in range(20000)]
    buffers.append(array.array('d', bytes(1 << 20)))
    print('ready', flush=True)
"""
RUBY = """
$stdout.sync = true
strings = Array.new(200_000) { |i| 'x' * 200 + i.to_s }
puts 'ready'
while STDIN.read(1)
  strings.concat(Array.new(20_000) { |i| 'y' * 200 + i.to_s })
  puts 'ready'
end
"""
NODE = """
const kept = [];
for (let i = 0; i < 400000; i++) kept.push({i, s: 'x' + i});
console.log('ready');
process.stdin.on('data', () => console.log('ready'));
process.stdin.on('end', () => process.exit(0));
"""
JAVA = """
public class Kept {
  public static void main(String[] arguments) throws Exception {
    byte[][] kept = new byte[600][];
    for (int i = 0; i < kept.length; i++) kept[i] = new byte[100000];
    System.out.println("ready");
    System.in.read();
    System.out.println(kept.length);
  }
}
"""


class Skip(Exception):
    pass


class Program(OwnedProcess):
    """A program that says "ready"."""

    def __init__(self, argv, **how):
        self.argv = [str(word) for word in argv]
        self.process = subprocess.Popen(argv if how.get("shell") else self.argv, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, **how)
        self.pid = self.process.pid
        self.wait_until_ready()

    def wait_until_ready(self):
        line = self.process.stdout.readline()
        assert line == "ready\n", (self.process.args, line)

    def work(self):
        """One more round of what it does."""
        self.process.stdin.write("x")
        self.process.stdin.flush()
        self.wait_until_ready()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=120) == 0, self.process.returncode


class Screen:
    """What attach, core or report printed."""

    def __init__(self, text):
        self.text = text
        head, found, tail = text.partition("\nWhat next\n")
        assert found, text
        self.head = head
        lines = tail.split("\n\n")[0].rstrip("\n").splitlines()
        self.commands = [line.strip() for line in lines if line.startswith("    ")]
        self.why = " ".join(line.strip() for line in lines if not line.startswith("    "))
        assert self.commands, text

    def has_line(self, pattern):
        assert re.search(f"^{pattern}$", self.head, re.MULTILINE), (pattern, self.text)

    def resident(self, row):
        """What a row of the table says, in MiB; 0 where it is not there."""
        found = re.search(rf"^ +{re.escape(row)} +([\d.]+) ([KMG]?i?B)", self.head, re.MULTILINE)
        return float(found[1]) * {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}[found[2]] / MIB if found else 0


class Case:
    def __init__(self, heapsnap, target, folder):
        self.heapsnap, self.target, self.folder = heapsnap, target, pathlib.Path(folder)
        self.environment = dict(os.environ, PATH=f"{os.path.dirname(heapsnap)}:{os.environ['PATH']}")

    def start(self, shape, *more, **how):
        return Program([self.target, shape, *more], **how)

    def run(self, line, expected=(0,), **how):
        """A command as a shell runs it."""
        print(f"$ {line}")
        done = subprocess.run(line, shell=True, cwd=self.folder, env=how.pop("env", self.environment),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=300, **how)
        assert done.returncode in expected, (line, done.returncode, done.stdout)
        return done.stdout

    def heapsnap_text(self, *words, expected=0):
        done = subprocess.run([self.heapsnap, *map(str, words)], cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == expected, (words, done)
        return done.stdout

    def attach(self, pid, expected=0):
        """Once for people; what the same file says to programs adds up."""
        screen = Screen(self.heapsnap_text("attach", "-f", "-o", "a.hsnap", pid, expected=expected))
        print(screen.text)
        self.report = json.loads(self.heapsnap_text("report", "-j", "a.hsnap"))
        rss = self.report["rss"]
        for row, groups in (("other_anonymous", "other_anonymous"), ("files", "largest_files"), ("file_data", "largest_file_data"),
                            ("shared", "largest_shared")):
            assert sum(one["resident"] for one in rss[groups]) == rss["rows"][row]["resident"], (row, rss)
        assert sum(row["resident"] for row in rss["rows"].values()) == rss["resident"], rss
        return screen

    def follow(self, screen):
        """Runs what is printed, in its order; gives what the last one says."""
        output = ""
        for command in screen.commands:
            output = self.run(command)
        return output

    def track(self, program):
        """inject as it is advised, work, and stacks as it is advised."""
        screen = self.attach(program.pid)
        assert screen.commands == [f"heapsnap inject {program.pid}", f"heapsnap stacks {program.pid}"], screen.commands
        self.run(screen.commands[0])
        program.work()
        return screen, self.run(screen.commands[1])

    # The six cases

    def cache(self):
        """A cache that never evicts: what its blocks are, then who allocates them, and so whose the old ones are."""
        with self.start("cache") as program:
            screen, stacks = self.track(program)
            screen.has_line(r"  99\.\d % +67\.1 MiB +200,000 blocks  of 352 B")
            assert screen.why.startswith("The program's blocks in use take 65."), screen.why
            assert "Blocks that exist now get no call stack; inject records new ones only." in screen.why, screen.why
            assert screen.resident("heapsnap's tracker") == 0
            assert "build_graph" in stacks, stacks
            words = " ".join(stacks.split())
            assert re.search(r"of malloc.s memory in use \(99\.0 %\) are older than the tracker;", words), stacks
            assert re.search(r" 200,000 of 352 B, caller unknown; all 2,000 newer ones in use were allocated by "
                             r"\S*( namespace\)::)?build_graph", words), stacks
            assert f"    heapsnap stacks {program.pid} --by function\n" in stacks, stacks
            assert stacks.endswith(f"    heapsnap eject {program.pid}\n"), stacks
            half = self.attach(program.pid)
            flat = " ".join(half.head.split())
            assert re.search(r"untracked 65\.\d MiB in 200,\d\d\d blocks \(allocated before inject\)", flat), half.text
            assert re.search(r" 200,000 of 352 B, caller unknown; all 2,000 newer ones in use were allocated by "
                             r"\S*( namespace\)::)?build_graph", flat), half.text
            assert half.resident("heapsnap's tracker") > 0.5
            assert half.commands == ["heapsnap stacks a.hsnap"], half.commands
            assert "build_graph" in self.follow(half)
            old, = self.report["tracking"]["old_blocks"]
            assert old["size"] == 352 and old["old"]["count"] == 200_000 and old["newer"] == 2_000, old
            program.end()
        # Who did it is known, but the process is gone.
        later = Screen(self.heapsnap_text("report", "a.hsnap"))
        assert later.commands == ["heapsnap stacks a.hsnap"], later.commands
        export = [self.heapsnap, "export", "--format", "folded", "a.hsnap"]
        said = subprocess.run(export, cwd=self.folder, capture_output=True, text=True, check=True).stderr
        assert re.search(r"65\.\d MiB in 200,\d\d\d blocks have no call stack and are not in the profile\n", said), said
        assert "--by owners" in said, said
        assert not subprocess.run([*export, "--by", "owners"], cwd=self.folder, capture_output=True, check=True).stderr

    def python(self):
        """Python's objects are told from buffers of malloc and listed by class, and can be made malloc's."""
        argv = ["/usr/bin/python3", "-c", PYTHON]
        with Program(argv) as program:
            screen = self.attach(program.pid)
            rows = self.report["rss"]["rows"]
            assert rows["python_objects"]["resident"] > 30 * MIB > 4 * rows["other_anonymous"]["resident"], rows
            screen.has_line(r" +Python objects and their buffers +[34]\d\.\d MiB .*")
            screen.has_line(r".* 2[01] blocks  of 1\.0 MiB to 2\.0 MiB")
            assert "Python's heap takes" in screen.why, screen.why
            assert screen.commands == ["heapsnap objects a.hsnap"], screen.commands
            assert "tuple" in self.follow(screen)
            program.end()
        command = "PYTHONMALLOC=malloc heapsnap run -- " + shlex.join(argv)
        with Program("exec env " + command, shell=True, env=self.environment, cwd=self.folder) as run:
            child = int(pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[0])
            screen = self.attach(child)
            rows = self.report["rss"]["rows"]
            assert rows["used"]["resident"] > 20 * MIB > rows["other_anonymous"]["resident"], rows
            with_functions = f"heapsnap inject --interpreter-frames --sample 512KiB {child}"
            assert screen.commands == ["heapsnap stacks a.hsnap", with_functions, "heapsnap objects a.hsnap"], screen.commands
            assert "tuple" in self.follow(screen)
            run.end()

    def ruby(self):
        """Strings are malloc's; the slots of the objects are Ruby's."""
        if not shutil.which("ruby"):
            raise Skip("ruby is not installed")
        with Program(["ruby", "-e", RUBY]) as program:
            screen = self.attach(program.pid)
            screen.has_line(r".* blocks  of 2\d\d B")
            rows = self.report["rss"]["rows"]
            ruby = rows["ruby_objects"]["resident"] + rows["ruby_pages"]["resident"]
            assert ruby > 8 * MIB and ruby > 2 * rows["other_anonymous"]["resident"], rows
            assert screen.commands == ["heapsnap objects a.hsnap"], screen.commands
            assert "String" in self.follow(screen)
            self.run(f"heapsnap inject {program.pid}")
            program.work()
            assert "libruby" in self.run(f"heapsnap stacks {program.pid}")
            half = self.attach(program.pid)
            assert "(allocated before inject)" in half.head
            self.follow(half)
            program.end()

    def fragmentation(self):
        """In twelve threads: what is free cannot be given back, and that is said."""
        with self.start("fragmented") as program:
            screen = self.attach(program.pid)
            advice = {item["kind"] for item in self.report["advice"]}
            assert advice >= {"fragmentation", "arena-max"}, advice
            assert re.match(r"8\d\.\d MiB is free in malloc's heaps\. ", screen.why), screen.why
            assert "the blocks that remain between the free ones" in screen.why
            assert "13 threads" in screen.head and "48,000 blocks  of 208 B" in screen.head, screen.text
            self.follow(screen)
            program.end()

    def postgresql(self):
        """A backend: what it shares with the others is told from what is its own."""
        if reason := servers.PostgreSQL.missing():
            raise Skip(reason)
        os.chmod(self.folder, 0o755)
        server = servers.PostgreSQL(str(self.folder))
        try:
            server.start()
            backend = server.backends()[0]
            screen = self.attach(backend)
            shared = self.report["rss"]["largest_shared"][0]
            assert shared["name"] == "/dev/zero" and shared["resident"] > 2 * MIB, shared
            flat = " ".join(screen.head.split())
            assert "A page of shared memory counts in each process that has touched it." in flat, screen.text
            assert "bin/postgres " in screen.head, screen.text
            assert screen.commands == ["heapsnap objects a.hsnap", f"heapsnap inject {backend}",
                                       f"heapsnap stacks {backend}"], screen.commands
            # Its contexts are in the snapshot: the server need not be asked.
            assert "pg_log_backend_memory_contexts" not in screen.why, screen.why
            assert "Run the query again in this session before you list them" in screen.why, screen.why
            assert " of resident memory. To see the server's memory contexts, by name: " in screen.why, screen.why
            self.follow(screen)
            tracked = self.attach(backend)
            assert tracked.resident("heapsnap's tracker") > 1 > tracked.resident("other anonymous memory"), tracked.text
            self.follow(tracked)
            assert server.healthy() is None, server.healthy()
        finally:
            server.stop()

    def churn(self):
        """A small live set; once it is tracked, who allocates and frees."""
        with self.start("churn") as program:
            screen = self.attach(program.pid)
            assert screen.why.startswith("Heaps and other anonymous memory take only "), screen.why
            assert screen.commands == [f"heapsnap inject {program.pid}", f"heapsnap watch {program.pid} --count 5"]
            watched = self.follow(screen)
            assert re.search(r"^\d{4}-\S+ +live +live/s +churn/s +allocs/s +rss", watched, re.MULTILINE), watched
            assert len(re.findall(r"^\d\d:\d\d:\d\dZ ", watched, re.MULTILINE)) == 6, watched
            program.work()
            program.work()
            tracked = self.attach(program.pid)
            assert "Much more was allocated and freed than is in use." in tracked.why, tracked.why
            assert tracked.commands == ["heapsnap stacks a.hsnap --sort churn"], tracked.commands
            stacks = self.follow(tracked)
            assert "log_requests" in stacks and "answer_requests" in stacks, stacks
            program.end()

    # Other states

    def no_conclusion(self):
        """Nobody is named where two places allocate the size, whether they keep it or not, and where few were seen."""
        for shape in ("two_places", "passing", "few"):
            with self.start(shape) as program:
                self.run(f"heapsnap inject {program.pid}")
                program.work()
                screen = self.attach(program.pid)
                assert "(allocated before inject)" in screen.head and "newer ones" not in screen.head, screen.text
                assert self.report["tracking"]["old_blocks"] == []
                program.end()

    def idle(self):
        with self.start("idle") as program:
            screen = self.attach(program.pid)
            self.follow(screen)
            tracked = self.attach(program.pid)
            assert tracked.commands == [f"heapsnap watch {program.pid} --count 5"], tracked.commands
            self.follow(tracked)
            program.end()

    def freed(self):
        with self.start("freed") as program:
            screen = self.attach(program.pid)
            assert screen.commands == [f"heapsnap trim {program.pid}"], screen.commands
            before = self.report["rss"]["resident"]
            self.follow(screen)
            self.attach(program.pid)
            assert before - self.report["rss"]["resident"] > 50 * MIB
            program.end()

    def mapped(self):
        """Memory that malloc knows nothing of: how many of which size, and who maps more."""
        if not shutil.which("strace"):
            raise Skip("strace is not installed")
        with self.start("mapped") as program:
            screen = self.attach(program.pid)
            groups = [(one["kind"], one["count"], one["size"]) for one in self.report["rss"]["other_anonymous"]]
            assert groups[:3] == [("large", 1, 40 * MIB), ("same-size", 8, 4 * MIB), ("code", 1, 6 * MIB)], groups
            screen.has_line(r"    8 of 4\.0 MiB, like arenas +32\.0 MiB .*")
            command, = screen.commands
            print(f"$ {command}")
            tracing = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert "attached" in tracing.stderr.readline()
            program.work()
            seen = tracing.communicate()[1]
            assert tracing.returncode in (0, 124, 130) and "mmap(NULL" in seen and "map_apart" in seen, (tracing, seen)
            program.end()

    def files(self):
        data = self.folder / "data.db"
        data.write_bytes(bytes(20 * MIB))
        with self.start("files", str(data)) as program:
            screen = self.attach(program.pid)
            screen.has_line(r"    .*/data\.db +20\.0 MiB .*")
            self.follow(screen)
            program.end()

    def damaged(self):
        with self.start("damaged") as program:
            screen = self.attach(program.pid)
            assert re.match(r"The heap is inconsistent in \d+ places?\. ", screen.why), screen.why
            assert screen.commands == ["heapsnap report a.hsnap"], screen.commands
            whole = self.follow(screen)
            assert "\nDamage\n" in whole
            self.follow(Screen(whole))
            rows = [json.loads(line) for line in (self.folder / "chunks.ndjson").read_text().splitlines()]
            place = int(self.report["corruptions"][0]["where"], 16)
            # The block whose owner wrote is the last one that begins before the place.
            before = max((row for row in rows if row["kind"] == "chunk" and int(row["addr"], 16) <= place),
                         key=lambda row: int(row["addr"], 16))
            assert before["size"] == 112, before
            program.process.kill()

    def core(self):
        """Of a process that was not tracked, and of one that was."""
        if not shutil.which("gcore"):
            raise Skip("gcore is not installed")
        with self.start("cache") as program:
            self.run(f"gcore -o core {program.pid}")
            screen = Screen(self.heapsnap_text("core", f"core.{program.pid}", "-o", "c.hsnap"))
            assert "Address space: " in screen.head and "200,000 blocks  of 352 B" in screen.head, screen.text
            assert screen.commands == ["heapsnap report c.hsnap"], screen.commands
            whole = Screen(self.follow(screen))
            assert whole.commands == [f"heapsnap run -- {self.target} ARGUMENTS"], whole.commands
            for each in (screen, whole):
                assert re.match(r"The program's blocks in use take [\d.]+ MiB\. ", each.why), each.why
            assert "ready" in self.run(whole.commands[0].replace("ARGUMENTS", "idle"))
            self.run(f"heapsnap inject {program.pid}")
            program.work()
            self.run(f"gcore -o tracked {program.pid}")
            program.end()
        screen = Screen(self.heapsnap_text("core", f"tracked.{program.pid}", "-o", "t.hsnap"))
        assert screen.resident("heapsnap's tracker") > 0.5, screen.text
        assert screen.commands == ["heapsnap stacks t.hsnap"], screen.commands
        assert "build_graph" in self.follow(screen)
        # gcore says of what thread heaps have reserved that it can be read: nobody uses it.
        with self.start("fragmented", env=self.environment | {"MALLOC_ARENA_MAX": "2"}) as program:
            reserved = [line for line in pathlib.Path(f"/proc/{program.pid}/maps").read_text().splitlines()
                        if "---p 00000000 00:00" in line]
            sizes = [int(end, 16) - int(begin, 16) for begin, end in (line.split()[0].split("-") for line in reserved)]
            assert max(sizes) > 10 * MIB, reserved
            self.run(f"gcore -o arenas {program.pid}")
            program.end()
        screen = Screen(self.heapsnap_text("core", f"arenas.{program.pid}", "-o", "n.hsnap"))
        assert screen.resident("other anonymous memory") < 5, screen.text

    def allocators(self):
        """Allocators other than glibc's say themselves what they hold."""
        done = []
        for name, library, says in (("jemalloc", "libjemalloc.so.2", "jemalloc statistics"),
                                    ("tcmalloc", "libtcmalloc_minimal.so.4", "Bytes in use by application"),
                                    ("mimalloc", "libmimalloc.so.2", "heap stats")):
            if not (LIBRARIES / library).exists():
                continue
            done.append(name)
            environment = self.environment | {"LD_PRELOAD": str(LIBRARIES / library)}
            with self.start("cache", env=environment) as program:
                screen = self.attach(program.pid, expected=5)
                top = self.report["rss"]["other_anonymous"][0]
                assert top["kind"] == "allocator" and top["evidence"] == name and top["resident"] > 60 * MIB, top
                command, = screen.commands
                program.end()
            assert says in self.run(command.replace("ARGUMENTS", "idle"), env=environment)
        if not done:
            raise Skip("neither jemalloc nor tcmalloc nor mimalloc is installed")

    def node(self):
        if not shutil.which("node"):
            raise Skip("node is not installed")
        with Program(["node", "-e", NODE]) as program:
            screen = self.attach(program.pid)
            assert self.report["rss"]["other_anonymous"][0]["kind"] == "v8", self.report["rss"]
            start, send = screen.commands
            program.end()
        start = "exec " + start.replace("ARGUMENTS", shlex.join(["-e", NODE]))
        with Program(start, shell=True, cwd=self.folder) as program:
            self.run(send.replace("PID", str(program.pid)))
            servers.wait_until(lambda: list(self.folder.glob("*.heapsnapshot")), "the heap snapshot")

    def java(self):
        if not shutil.which("javac") or not shutil.which("jcmd"):
            raise Skip("no JDK is installed")
        (self.folder / "Kept.java").write_text(JAVA)
        self.run("javac Kept.java")
        with Program(["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", self.folder, "Kept"]) as program:
            screen = self.attach(program.pid)
            assert self.report["rss"]["other_anonymous"][0]["kind"] == "java", self.report["rss"]
            assert screen.commands == [f"jcmd {program.pid} GC.class_histogram"], screen.commands
            assert re.search(r" 6\d{7} +\[B ", self.follow(screen))

    def ruby_objects(self):
        """Objects alone: no string is large enough for a block of its own."""
        if not shutil.which("ruby"):
            raise Skip("ruby is not installed")
        script = self.folder / "objects.rb"
        script.write_text("$stdout.sync = true\nkept = Array.new(400_000) { |i| i.to_s }\nputs 'ready'\nSTDIN.read(1)\n"
                          "kept.clear\n")
        with Program(["ruby", script]) as program:
            screen = self.attach(program.pid)
            rows = self.report["rss"]["rows"]
            assert rows["ruby_objects"]["resident"] > 15 * MIB > rows["other_anonymous"]["resident"], rows
            assert screen.commands == ["heapsnap objects a.hsnap"], screen.commands
            assert "String" in self.follow(screen)


def main():
    name, heapsnap, target = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="heapsnap-first-screen.") as folder:
        try:
            getattr(Case(os.path.abspath(heapsnap), os.path.abspath(target), folder), name)()
        except Skip as reason:
            print(f"skipped: {reason}")
            return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
