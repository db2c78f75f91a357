"""Remedies for what was typed and for files, as remedies.py follows them: each function is a case of it."""

import os
import re
import shutil
import subprocess
import sys

from remedy_tool import make_core, start


def no_such_process(tool):
    shown = tool.follow(tool.remedy("attach", 4194304), r"^(ps -eo .*)$")
    assert "PID" in shown, shown
    shown = tool.follow(tool.remedy("attach", "no-such-name"), r"^list them with: (ps -eo .*)$")
    assert "python" in shown, shown
    snapshot = tool.folder / "mistaken.hsnap"
    tool.succeed("attach", os.getpid(), "-o", snapshot)
    tool.follow(tool.remedy("attach", snapshot), r"^to read a snapshot: (heapsnap report [^;]*); a core: heapsnap core ")


def ambiguous_name(tool):
    program = tool.folder / "twin"
    shutil.copy(shutil.which("cat"), program)
    with start(program), start(program):
        assert tool.remedy("attach", "twin") == "give one of the PIDs"
        listed = re.search(r"2 processes have this name: (.*)", tool.run("attach", "twin").stderr)[1]
        rows = re.findall(r"(\d+) \(([\d.]+ \w+): ([^)]*)\)", listed)
        assert len(rows) == 2 and all(command.endswith("/twin") for _, _, command in rows), listed
        tool.succeed("attach", rows[0][0])


def run_in_background(tool):
    """A shell's $! is the PID of heapsnap: what is asked of it is asked of the program that it runs."""
    with subprocess.Popen([*tool.command("run", "--"), "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        running.stdin.write(b"it runs\n")
        running.stdin.flush()
        assert running.stdout.readline() == b"it runs\n"
        done = tool.run("stacks", running.pid)
        assert done.returncode == 0 and re.match(r"Process \d+: cat\n", done.stdout), (done.stdout, done.stderr)
        program = re.match(r"Process (\d+)", done.stdout)[1]
        assert f"PID {running.pid} is heapsnap run; the program that it started, PID {program}, is meant" in done.stderr, done.stderr
        running.stdin.close()


def usage(tool):
    """Wrong words: what to look at, and an example."""
    tool.follow(tool.remedy("nonsense"), r"(heapsnap --help)$")
    tool.follow(tool.remedy("atach"), r"^did you mean this: (heapsnap attach --help)$")
    tool.follow(tool.remedy("run-stack"), r"(heapsnap --help)$")
    for word, meant in (("4242", "attach 4242"), ("a.hsnap", "report a.hsnap"), ("dump", "attach PID"),
                        ("snapshot", "attach PID"), ("compare", "diff OLD.hsnap NEW.hsnap")):
        assert tool.remedy(word).endswith(f"did you mean this: heapsnap {meant}"), (word, tool.remedy(word))
    help_of = [tool.succeed("help", "attach"), tool.succeed("attach", "--help")]
    assert help_of[0] == help_of[1], help_of
    for words, why in ((["--nonsense"], "there is no option --nonsense"),
                       (["--referencs", "no"], "there is no option --referencs; did you mean --references?"),
                       (["1", "2"], "it takes one PID, and was given more")):
        tool.follow(tool.remedy("attach", *words, why=why), r"^see: (heapsnap attach --help)$")
    for number in ("-5", "30ms", "1e3", "99999999999999999999"):
        why = f"--deadline takes a whole number (MS), not '{number}'"
        assert "MS" in tool.follow(tool.remedy("attach", f"--deadline={number}", why=why), r"^see: (heapsnap attach --help)$")
    with start() as target:
        option = re.search(r"for example: (\S+) (\S+)$", tool.remedy("inject", "--sample", "much", target.pid)).groups()
        tool.succeed("inject", *option, target.pid)
        remedy = tool.remedy("watch", "--format", "churnlog", target.pid)
        option = re.search(r"for example: (\S+) (\S+)$", remedy).groups()
        watch = subprocess.Popen(tool.command("watch", "--format", "churnlog", *option, target.pid),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        target.process.kill()  # what it waits for
        assert watch.wait(timeout=60) == 3, watch.stderr.read()
        watch.communicate()
    for verb in ("attach", "inject", "eject", "trim", "watch"):
        with start() as target:
            command = re.search(r"(heapsnap \w+) 4242$", tool.remedy(verb))[1]
            if verb in ("eject", "watch"):
                tool.succeed("inject", target.pid)
            options = ["--count", "1", "--interval", "1ms"] if verb == "watch" else []
            tool.succeed(*command.split()[1:], *options, target.pid)
    for verb in ("core", "stacks", "run", "report", "export", "render", "view"):
        assert "heapsnap " in tool.remedy(verb), verb


def run_command_line(tool):
    """`run` needs no dashes; where a word could be an option of either, each of the two ways is printed."""
    show = tool.folder / "show"
    show.write_text('#!/bin/sh\necho "depth $HEAPSNAP_FRAMES, words $*"\n')
    show.chmod(0o755)
    for words, expected in (([show, "-x", "a b", "--", "-f5"], "depth 64, words -x a b -- -f5\n"),
                            (["--frames", "7", show, "-x"], "depth 7, words -x\n"),
                            (["--frames=7", show], "depth 7, words \n"),
                            (["--", show, "--frames", "7"], "depth 64, words --frames 7\n")):
        assert tool.succeed("run", *words) == expected, words
    for words, theirs, ours in ((["--frames", "7"], "depth 64, words a --frames 7 b\n", "depth 7, words a b\n"),
                                (["--frames=7"], "depth 64, words a --frames=7 b\n", "depth 7, words a b\n"),
                                (["-f"], "depth 64, words a -f b\n", "depth 64, words a b\n")):
        remedy = tool.remedy("run", show, "a", *words, "b", why=f"{words[0]} may be meant for heapsnap or for {show}")
        assert tool.follow(remedy, r"^for the program: (heapsnap run [^;]*);") == theirs, remedy
        assert tool.follow(remedy, r"; for heapsnap: (heapsnap run .*)$") == ours, remedy
    assert tool.remedy("run", show, "", "--frames").endswith(f"for heapsnap: heapsnap run --frames N -- {show} ''")
    limited = 'ulimit -S -{} 400000; {}; exec "$@"'
    for option in "vd":
        command = [*tool.command("run", "--"), show]
        said = [subprocess.run(["bash", "-c", limited.format(option, remedy), "bash", *command], capture_output=True, text=True,
                               check=True).stderr for remedy in (":", f"ulimit -{option} unlimited")]
        assert f"ulimit -{option} is 390.6 MiB" in said[0] and f"  do:  raise the limit: ulimit -{option} unlimited\n" in said[0], said
        assert said[1] == "", said
    tool.follow(tool.remedy("run", "--nonsense", show), r"^see: (heapsnap run --help)$")
    tool.follow(tool.remedy("run", "--frames", "7"), r"^for example: (heapsnap run -- ls -l)$")


def outputs(tool):
    """Files that cannot be written as named."""
    with start() as target:
        existing = tool.output / "b.hsnap"
        existing.write_text("precious")
        words = ("attach", target.pid, "-o", existing)
        assert "pass -f to replace it" in tool.remedy(*words)
        assert existing.read_text() == "precious"
        tool.succeed(*words, "-f")
        folder = tool.output / "new"
        words = ("attach", target.pid, "-o", folder / "c.hsnap")
        assert tool.remedy(*words) == "create the folder first"
        folder.mkdir()
        tool.succeed(*words)
        words = ("attach", target.pid, "-o", existing / "d.hsnap")
        assert tool.remedy(*words) == "a part of the path is a file: name a folder"
        link = tool.output / "link.hsnap"
        link.symlink_to(existing)
        words = ("attach", target.pid, "-f", "-o", link)
        assert "remove the link" in tool.remedy(*words)
        link.unlink()
        tool.succeed(*words)
        keeps_what_is_read(tool, existing)


def keeps_what_is_read(tool, snapshot):
    """No command replaces its own input, by whatever name it is given, with -f or without."""
    before = snapshot.read_bytes()
    linked, later = snapshot.with_name("linked.hsnap"), snapshot.with_name("later.hsnap")
    linked.hardlink_to(snapshot)
    later.write_bytes(before)
    dotted = snapshot.parent / "." / ".." / snapshot.parent.name / snapshot.name
    for words in (["share", snapshot], ["view", snapshot], ["view", snapshot, later], ["render", snapshot],
                  ["render", snapshot, later, "--color-by", "age"], ["export", snapshot, "--format", "ndjson"]):
        for output in (snapshot, linked, dotted):
            for force in ([], ["-f"]):
                why = f"it is the file that is read ({snapshot})"
                assert tool.remedy(*words, "-o", output, *force, why=why) == "choose another name for the output"
        assert snapshot.read_bytes() == before and linked.samefile(snapshot), words
        tool.succeed(*words, "-o", snapshot.with_name("other"), "-f")
    image = snapshot.with_name("image")
    image.write_bytes(bytes(4096))
    words = ("core", "--image", f"0x10000:{image}", "-f", "-o")
    assert tool.remedy(*words, image, why="it is the file that is read") == "choose another name for the output"
    assert image.read_bytes() == bytes(4096)


def temporary_folder(tool):
    with start() as target:
        tool.succeed("inject", target.pid)
        without = os.environ | {"TMPDIR": "/nonexistent"}
        assert tool.remedy("stacks", target.pid, env=without).startswith("set TMPDIR to a directory")
        tool.succeed("stacks", target.pid, env=without | {"TMPDIR": str(tool.output)})


def damaged_snapshot(tool):
    with start() as target:
        tool.succeed("attach", target.pid)
        whole = tool.snapshot.read_bytes()
        copy = tool.output / "copy.hsnap"
        copy.write_bytes(whole[:len(whole) // 2])
        assert tool.remedy("report", copy).startswith("copy the file again")
        copy.write_bytes(whole)
        tool.succeed("report", copy)
        copy.write_text("something else")
        assert tool.remedy("report", copy) == "give a file that heapsnap wrote"
        tool.succeed("report", tool.snapshot)


def cores(tool):
    """A compressed core; a program in the place of its core."""
    core = make_core(tool, [sys.executable, "-c", "import os; os.abort()"])
    subprocess.run(["gzip", "-k", core], check=True)
    packed = core.with_name(core.name + ".gz")
    core.unlink()
    tool.follow(tool.remedy("core", packed, "-o", tool.snapshot), r"^unpack it first: (gzip -dk .*)$")
    tool.succeed("core", core, "-f", "-o", tool.snapshot)
    remedy = tool.remedy("core", sys.executable, "-o", tool.output / "d.hsnap")
    assert remedy == "give the core file; pass the program with --exe", remedy
    tool.succeed("core", core, "--exe", os.path.realpath(sys.executable), "-o", tool.output / "d.hsnap")
