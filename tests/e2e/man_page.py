#!/usr/bin/env python3
"""The manual page against the program: the same commands and options, and no warning of a formatter.

man_page.py PAGE HEAPSNAP"""

import os
import re
import shutil
import subprocess
import sys

from completions import commands_of, options_of, output_of


def main():
    page, heapsnap = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        source = file.read().replace("\\-", "-")
    synopsis, commands_part = re.search(r"\.SH SYNOPSIS\n(.*?)\.SH DESCRIPTION.*?\.SH COMMANDS\n(.*?)"
                                        r"\.SH EXIT STATUS", source, re.DOTALL).groups()
    described = set(re.findall(r"--[\w-]+", commands_part)) - {"--version"}
    in_synopsis = set(re.findall(r"heapsnap ([\w-]+)", synopsis))
    with_section = set(re.findall(r"^\.SS ([\w-]+)$", commands_part, re.MULTILINE))

    commands = set(commands_of(heapsnap))
    assert in_synopsis == commands, in_synopsis ^ commands
    assert with_section == commands, with_section ^ commands
    accepted = set()
    for columns in (60, 80):
        for command in commands:
            text = subprocess.run([heapsnap, command, "--help"], capture_output=True, text=True, check=True,
                                  env={**os.environ, "COLUMNS": str(columns)}).stdout
            prose = text.partition("\n\n")[2].partition("\nExamples:")[0]  # commands are never broken
            wide = [line for line in prose.splitlines() if len(line.rstrip()) > columns]
            assert not wide, (command, columns, wide)
    for command in commands:
        accepted |= options_of(output_of([heapsnap, command, "--help"]))
    assert described == accepted, described ^ accepted

    version = output_of([heapsnap, "--version"]).strip()
    assert f'"{version}"' in source.splitlines()[0], (version, source.splitlines()[0])
    for formatter in (["mandoc", "-T", "lint", "-W", "warning"], ["man", "-l", "--warnings"]):
        if shutil.which(formatter[0]):
            done = subprocess.run(formatter + [page], capture_output=True, text=True)
            assert done.returncode == 0 and not done.stderr, done
            if formatter[0] == "mandoc":
                assert not done.stdout, done.stdout
    return 0


if __name__ == "__main__":
    sys.exit(main())
