#!/usr/bin/env python3
"""A manual page for each command, made of what its --help prints.

    command_pages.py HEAPSNAP MANUAL FOLDER

writes FOLDER/heapsnap-COMMAND.1.gz; date and version are those of the first line of MANUAL, the page of the
program itself, which goes to FOLDER/heapsnap.1.gz."""

import gzip
import os
import pathlib
import re
import subprocess
import sys
import textwrap

WIDTH = 68
# Wide enough that every option is one line.
WIDEST = "200"
OPTION = re.compile(r"^  (?:-(\w) \[ --([\w-]+) \]|--([\w-]+))(?: ([A-Z:]+))?(?: +(.*))?$")


def help_of(heapsnap, *words):
    return subprocess.run([heapsnap, *words, "--help"], capture_output=True, text=True, check=True,
                          env=os.environ | {"COLUMNS": WIDEST, "LC_ALL": "C.UTF-8"}).stdout


def escaped(text):
    """`text` as troff prints it: no escape, no hyphen that is a minus, no line that is a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")
    text = text.replace("`", "\\(ga").replace('"', "\\(dq")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def bold(text):
    return f"\\fB{escaped(text)}\\fR"


def italic(text):
    return f"\\fI{escaped(text)}\\fR"


def filled(text):
    """Lines of a paragraph. Each sentence begins a line, from which troff takes the space between them."""
    sentences = re.split(r"(?<=[.!?:])\s+(?=[A-Z`])", " ".join(text.split()))
    return "\n".join(escaped(line) for sentence in sentences
                     for line in textwrap.wrap(sentence, WIDTH, break_on_hyphens=False, break_long_words=False))


def description(text):
    """Paragraphs; lines that are indented are shown as they are."""
    parts = []
    for block in text.split("\n\n"):
        lines = block.split("\n")
        as_they_are = [line.startswith("  ") for line in lines]
        first = as_they_are.index(True) if any(as_they_are) else len(lines)
        if first > 0:
            parts.append(filled("\n".join(lines[:first])))
        if first < len(lines):
            shown = escaped(textwrap.dedent("\n".join(lines[first:])))
            parts.append(f".RS 2\n.nf\n{shown}\n.fi\n.RE")
    return "\n.PP\n".join(parts).replace("\n.PP\n.RS", "\n.sp\n.RS")


def options(text):
    """`text` has a line an option, or more where its help does not fit in one."""
    entries = []
    for line in text.splitlines():
        match = OPTION.match(line)
        if match:
            letter, long, alone, placeholder, words = match.groups()
            name = (bold(f"-{letter}") + ", " if letter else "") + bold(f"--{long or alone}")
            entries.append([name + (" " + italic(placeholder) if placeholder else ""), words or ""])
        elif line.strip():
            entries[-1][1] += " " + line.strip()
    return "\n".join(f".TP\n{name}\n{filled(words)}" for name, words in entries)


def examples(text):
    lines = text.rstrip("\n").split("\n")
    return "\n".join(f".TP\n{bold(command.strip())}\n{filled(purpose)}"
                     for command, purpose in zip(lines[::2], lines[1::2]))


def page(command, summary, text, date, version):
    usage, rest = re.fullmatch(r"Usage: heapsnap ([^\n]+)\n\n(.*)", text, re.DOTALL).groups()
    words, rest = rest.split("\n\nOptions:\n")
    option_lines, _, example_lines = rest.partition("\n\nExamples:\n")
    name, _, arguments = usage.partition(" ")
    assert name == command, usage
    sections = [f'.TH HEAPSNAP\\-{command.upper()} 1 {date} "{version}" "User Commands"',
                f".SH NAME\nheapsnap\\-{command} \\-\n{escaped(summary)}",
                f".SH SYNOPSIS\n{bold('heapsnap ' + command)} {escaped(arguments)}",
                f".SH DESCRIPTION\n{description(words)}",
                f".SH OPTIONS\n{options(option_lines)}"]
    if example_lines:
        sections.append(f".SH EXAMPLES\n{examples(example_lines)}")
    sections.append(".SH SEE ALSO\n.BR heapsnap (1)\n")
    return "\n".join(section.rstrip(" ") for section in sections)


def main():
    heapsnap, manual, folder = sys.argv[1:]
    whole = pathlib.Path(manual).read_text(encoding="utf-8")
    title = whole.split("\n", 1)[0]
    date, version = re.fullmatch(r'\.TH HEAPSNAP 1 (\S+) "([^"]+)" "User Commands"', title).groups()
    pages = {"heapsnap": whole}
    listed = help_of(heapsnap).split("Commands:\n")[1].split("\n\n")[0]
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for line in listed.splitlines():
        command, summary = line.strip().split(maxsplit=1)
        pages[f"heapsnap-{command}"] = page(command, summary, help_of(heapsnap, command), date, version)
    for name, text in pages.items():
        # Without a time, so that the same text is the same file.
        compressed = gzip.compress(text.encode("utf-8"), 9, mtime=0)
        (pathlib.Path(folder) / f"{name}.1.gz").write_bytes(compressed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
