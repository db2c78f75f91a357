#!/usr/bin/env python3
"""The completion scripts, as the shells themselves read them: completions.py SHELL HEAPSNAP"""

import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from container_groups import group, hierarchies, new_id, put_into

SKIPPED = 77


def output_of(argv, **how):
    done = subprocess.run(argv, capture_output=True, text=True, **how)
    assert done.returncode == 0, done
    assert not done.stderr, done
    return done.stdout


def commands_of(heapsnap):
    """Names of all commands, by --help."""
    lines = output_of([heapsnap, "--help"]).split("Commands:\n")[1].split("\n\n")[0].splitlines()
    return [line.split()[0] for line in lines if not line.startswith("   ")]


def options_of(help_text):
    """The long options of one command, by its --help."""
    options = help_text.split("\nOptions:\n")[1].split("\n\nExamples:")[0]
    return set(re.findall(r"^  (?:-\w \[ )?(--[\w-]+)", options, re.MULTILINE))


class Bash:
    def __init__(self, script):
        self.script = script

    def replies(self, words):
        # As readline calls it: words[-1] is the one to complete.
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
        # compopt works only while readline completes.
        lines = ["compopt() { :; }", f"source '{self.script}'", f"COMP_WORDS=({quoted})",
                 f"COMP_CWORD={len(words) - 1}", "_heapsnap", "printf '%s\\n' \"${COMPREPLY[@]}\""]
        return output_of(["bash", "--norc", "-c", "\n".join(lines)]).split("\n")


class Fish:
    def __init__(self, script):
        self.script = script

    def replies(self, words):
        line = " ".join(words)
        with tempfile.TemporaryDirectory() as home:
            environment = os.environ | {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home}
            found = output_of(["fish", "--no-config", "-c",
                               f"source {self.script}; complete -C '{line}'"], env=environment)
        return [reply.split("\t")[0] for reply in found.splitlines()]


class Zsh:
    """Runs the function with the two builtins replaced that it hands its knowledge to."""

    def __init__(self, script):
        self.script = script

    def replies(self, words):
        quoted = " ".join("'" + word + "'" for word in words)
        lines = ["compdef() { :; }", "_describe() { print -rl -- ${commands%%:*}; }",
                 "_arguments() { print -rl -- \"$@\"; }", f"source '{self.script}'",
                 f"words=({quoted})", f"CURRENT={len(words)}", "_heapsnap"]
        found = output_of(["zsh", "-f", "-c", "\n".join(lines)]).splitlines()
        replies = []
        for line in found:
            # "(-o --output)--output=[help]:FILE:_files", "1:PID:_pids", "attach"
            option = re.match(r"(?:\([^)]*\))?(--[\w-]+)", line)
            values = re.search(r":\(([\w -]+)\)$", line)
            if option:
                replies.append(option.group(1))
            elif re.fullmatch(r"[\w-]+", line):
                replies.append(line)
            if values:
                replies += values.group(1).split()
        return replies

    def completed(self, line, folder):
        """`line` as zsh has it after a press of Tab, in a terminal, with its real functions of completion."""
        shown = pathlib.Path(folder) / "shown"
        shown.unlink(missing_ok=True)
        # ^G writes the line down.
        setup = ("PS1=; autoload -Uz compinit && compinit -D -u", f"source '{self.script}'",
                 f"show() {{ print -rn -- \"$BUFFER\" >'{shown}.part' && mv '{shown}.part' '{shown}' }}",
                 "zle -N show; bindkey '^G' show")
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], os.environ | {"HOME": folder, "TERM": "xterm"})
        try:
            os.write(terminal, "".join(each + "\n" for each in setup).encode() + line.encode() + b"\t\x07")
            end = time.monotonic() + 60
            while not shown.exists():
                assert time.monotonic() < end, "zsh says nothing"
                if select.select([terminal], [], [], 0.1)[0]:  # it would wait for who reads it
                    os.read(terminal, 65536)
            return shown.read_text(encoding="utf-8")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)


def check_values(shell, words):
    """What is offered as the value of an option is what its --help speaks of."""
    if isinstance(shell, Zsh):
        return shell.replies(["heapsnap", words[0], ""])
    return shell.replies(["heapsnap"] + words + [""])


def check_names(shell, folder):
    """Processes are offered by their names, and one that is called like a command runs none."""
    ran = pathlib.Path(folder, "ran")
    plain = "plain.name-1"
    hostile = ["$(touch ran)", "`touch ran`", "a;touch ran", "container:`id`"]
    programs = []
    for name in [plain, *hostile]:
        path = pathlib.Path(folder, name)
        shutil.copy(shutil.which("sleep"), path)
        programs.append(subprocess.Popen([path, "60"]))
    here = os.getcwd()
    os.chdir(folder)
    try:
        for words in (["attach", ""], ["attach", "container", ":"], ["attach", "container", ":", "`"]):
            offered = shell.replies(["heapsnap", *words])
            assert not ran.exists(), "the name of a process was run as a command"
            assert not any(character in word for word in offered for character in "$`;()"), offered
        assert plain in shell.replies(["heapsnap", "attach", "plain"])
        assert str(programs[0].pid) in shell.replies(["heapsnap", "attach", str(programs[0].pid)])
    finally:
        os.chdir(here)
        for program in programs:
            program.kill()
            program.wait()


def check_containers(shell, home):
    """One that has a process is offered in the place of a PID."""
    if os.geteuid() != 0 or not hierarchies():
        return
    name = new_id()
    with group(f"docker/{name}", hierarchies()[0]) as folder, subprocess.Popen(["sleep", "60"]) as process:
        put_into(folder, process.pid)
        try:
            word = f"container:{name[:12]}"
            if isinstance(shell, Zsh):
                for begin in ("cont", "container:", f"container:{name[:3]}"):
                    line = shell.completed(f"heapsnap attach {begin}", home)
                    assert line.rstrip() == f"heapsnap attach {word}", (begin, line)
                return
            assert word in shell.replies(["heapsnap", "attach", "cont"]), word
            if isinstance(shell, Bash):  # which takes words apart at the colon
                for words in (["container", ":"], ["container", ":", name[:3]]):
                    assert name[:12] in shell.replies(["heapsnap", "attach", *words]), words
        finally:
            process.kill()


def main():
    shell_name, heapsnap = sys.argv[1:]
    if shutil.which(shell_name) is None:
        print(f"skipped: there is no {shell_name} here")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "script"
        script.write_text(output_of([heapsnap, "completions", shell_name]))
        shell = {"bash": Bash, "fish": Fish, "zsh": Zsh}[shell_name](script)

        commands = commands_of(heapsnap)
        assert len(commands) >= 6, commands
        offered = shell.replies(["heapsnap", ""])
        for command in commands:
            assert command in offered, (command, offered)
        for command in commands:
            expected = options_of(output_of([heapsnap, command, "--help"]))
            assert "--help" in expected, expected
            found = {reply for reply in shell.replies(["heapsnap", command, "--"])
                     if reply.startswith("--")}
            assert found == expected, (command, found ^ expected)
        for command, option, values in (("attach", "--freeze", ["auto", "fork", "stop", "none"]),
                                        ("doctor", "--color", ["auto", "always", "never"]),
                                        ("export", "--format", ["ndjson", "ptmallocdump", "folded", "pprof", "speedscope", "dhat",
                                                                 "heaptrack", "heapsnapshot", "ruby-dump-all", "heap_dump"])):
            found = check_values(shell, [command, option])
            help_text = output_of([heapsnap, command, "--help"])
            for value in values:
                assert value in found, (command, option, found)
                assert value in help_text, (command, option, value)
        found = check_values(shell, ["completions"])
        assert {"bash", "zsh", "fish"} <= set(found), found
        if shell_name == "bash":
            # "--color=a", as readline takes it apart.
            found = shell.replies(["heapsnap", "attach", "--color", "=", "a"])
            assert set(found) - {""} == {"auto", "always"}, found
            check_names(shell, folder)
        check_containers(shell, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
