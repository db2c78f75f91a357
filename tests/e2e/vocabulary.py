#!/usr/bin/env python3
"""What heapsnap says keeps to docs/vocabulary.md: no text of the program or its manual has a word that stands there under "not",
and each word that stands there is said.

    vocabulary.py SOURCE_FOLDER"""

import pathlib
import re
import sys

# Names that other tools, and CPython's types, have.
OTHERS = {'"(GC roots)"', '"cell"'}


def table(text):
    """Words, and those not to be said."""
    words, forbidden = [], []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 3 and cells[0] != "word":
            words += cells[0].split(", ")
            forbidden += filter(None, cells[2].split(", "))
    return words, forbidden


def texts(source):
    """(file, what it says): the literals of reports, commands and the page, and the manual."""
    literal = re.compile(r'R"\w*\((?:.|\n)*?\)\w*"|"(?:[^"\\\n]|\\.)*"')
    for folder in ("lib", "platform", "tools"):
        for path in sorted([*(source / folder).rglob("*.cpp"), *(source / folder).rglob("*.h")]):
            code = re.sub(r"^\s*(//|#include).*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            # Neighbours are one text.
            code = re.sub(r'"\s*\n\s*"', "", code)
            yield from ((path, found[0]) for found in literal.finditer(code))
    literal = re.compile(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`')
    for path in sorted((source / "tools/viewer/src").glob("*.ts")):
        code = re.sub(r"//.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        yield from ((path, found[0]) for found in literal.finditer(code))
    manual = source / "docs/man/heapsnap.1.in"
    yield manual, re.sub(r"\\f.|\\", "", manual.read_text(encoding="utf-8"))


def main():
    source = pathlib.Path(sys.argv[1])
    words, forbidden = table((source / "docs/vocabulary.md").read_text(encoding="utf-8"))
    assert {"arena", "chunk", "bin", "tcache", "top", "resident", "owner", "retained", "leaked"} <= set(words), words
    assert len(forbidden) > 20, forbidden
    said = list(texts(source))
    assert len(said) > 2000, len(said)
    pattern = re.compile(r"\b(?:" + "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in forbidden) + r")s?\b", re.IGNORECASE)
    wrong = []
    for path, text in said:
        found = pattern.search(text)
        if found and text not in OTHERS:
            wrong.append(f"{path.relative_to(source)}: says {found[0]!r} in {text[max(0, found.start() - 60):found.end() + 60]!r}")
    every = "\n".join(text for _, text in said)
    wrong += [f"{word!r} is in docs/vocabulary.md, and nothing says it" for word in words if not re.search(rf"\b{word}s?\b", every, re.IGNORECASE)]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
