#!/usr/bin/env python3
"""libcapstone is loaded when it is needed, and where it is missing or damaged, heapsnap says so: missing_library.py HEAPSNAP

What needs none of it works without; what does is refused before anything is done to the process, with what to install.
Exits 77, with the reason, where no root folder of one's own can be made."""

import pathlib
import re
import shutil
import subprocess
import sys

from command_output import output_of
from overlaid_root import OverlaidRoot, reenter, skip

NAME = re.compile(r"libcapstone\.so\.(\d+)")
TARGET = "kept = [bytes(i % 900 + 1) for i in range(20000)]\nprint('ready', flush=True)\ninput()\n"


def libraries(root):
    """The files and links of libcapstone in the root folder."""
    found = [path for pattern in ("lib*", "lib*/*", "usr/lib*", "usr/lib*/*") for path in root.glob(f"{pattern}/libcapstone.so*")]
    return sorted({path.parent.resolve() / path.name for path in found})


def mapped(pid):
    return pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")


def check_is_loaded_late(heapsnap):
    """Not before main(): a command that disassembles nothing does without."""
    needed = output_of("readelf", "--dynamic", heapsnap)
    assert "libelf" in needed and "libcapstone" not in needed, needed
    with subprocess.Popen([heapsnap, "run", "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        run.stdin.write("line\n")
        run.stdin.flush()
        assert run.stdout.readline() == "line\n" and "libcapstone" not in mapped(run.pid)


def refused(root, why, *words):
    said = root.run("/tmp/heapsnap", *words, expected=5)
    assert re.search(rf"^  why: .*{why}", said, re.MULTILINE), said
    assert re.search(r"^  do:  apt-get install --reinstall libcapstone\d+$", said, re.MULTILINE), said
    assert "heapsnap: machine code cannot be disassembled\n" in said, said


def check_refusals(root, why, pid):
    before = mapped(pid)
    for words in (["attach", pid, "-f", "-o", "/tmp/a.hsnap"], ["inject", pid], ["owners", pid]):
        refused(root, why, *words)
        assert mapped(pid) == before
    # Before the program runs, not when it ends.
    refused(root, why, "run", "--at-exit", "/tmp/b.hsnap", "--", "touch", "/tmp/has_run")
    assert not (root.root / "tmp/has_run").exists()


def check(heapsnap):
    with OverlaidRoot() as root:
        shutil.copy(heapsnap, root.root / "tmp/heapsnap")
        target = root.start("python3", "-c", TARGET, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        target.stdout.readline()
        pid = str(target.pid)
        attach = ["/tmp/heapsnap", "attach", pid, "-f", "-o", "/tmp/a.hsnap"]
        root.run(*attach)
        kept = root.memory / "kept"
        kept.mkdir()
        places = {kept / path.name: path for path in libraries(root.root)}
        for path, place in places.items():
            shutil.move(place, path)
        check_refusals(root, "No such file or directory", pid)
        assert "Arenas" in root.run("/tmp/heapsnap", "report", "/tmp/a.hsnap")
        assert "Nothing prevents attaching" in root.run("/tmp/heapsnap", "doctor", pid)

        # A file that was cut off, and another library by that name.
        (named,) = (place for place in places.values() if NAME.fullmatch(place.name))
        named.write_bytes(b"")
        check_refusals(root, "file too short", pid)
        (other,) = {path.resolve() for path in pathlib.Path(named.parent).glob("libz.so.1")}
        shutil.copy(other, named)
        check_refusals(root, "undefined symbol: cs_open", pid)

        named.unlink()
        for path, place in places.items():
            shutil.move(path, place)
        root.run(*attach)
        target.communicate("\n")
        assert target.returncode == 0
    return 0


def main():
    heapsnap = pathlib.Path(sys.argv[1]).resolve()
    reenter()
    if not libraries(pathlib.Path("/")):
        skip("there is no libcapstone here")
    check_is_loaded_late(heapsnap)
    return check(heapsnap)


if __name__ == "__main__":
    sys.exit(main())
