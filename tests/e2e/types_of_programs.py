#!/usr/bin/env python3
"""types of real programs with debug information: types_of_programs.py HEAPSNAP FOLDER PROGRAM...

The programs are Debian's, built from their source packages in FOLDER. Of each, at least nine tenths of the bytes in
use have a type, and as many objects of its own classes are counted as its input has. Live, from a snapshot and, where
there is gcore, from a core."""

import contextlib
import json
import os
import pathlib
import random
import string
import subprocess
import sys
import tempfile
import time

import debian_source
import reference_sources

LEAST_SHARE = 0.9
FLAGS = ("-std=c++17", "-O2", "-g")
SECONDS_TO_START = 60


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.returncode, done.stdout[-2000:], done.stderr)
    return done.stdout


def built(folder, name, flags, sources):
    program = folder / name
    if not program.exists():
        new = folder / f"{name}.new"
        run("g++", *FLAGS, *flags, *map(str, sources), "-o", str(new))
        new.rename(program)
    return program


class Ninja:
    """Runs the first of its edges, for which all the others wait."""

    FILES = 10000

    @staticmethod
    def build(folder):
        source = debian_source.unpacked(folder, "ninja-build") / "src"
        others = ("_test.cc", "perftest.cc", "_bench.cc", "bench.cc", "win32.cc", ".in.cc", "/test.cc", "/browse.cc",
                  "minidump-win32.cc", "msvc_helper_main-win32.cc")
        return built(folder, "ninja", [], [path for path in sorted(source.glob("*.cc"))
                                           if not str(path).endswith(others)])

    @classmethod
    @contextlib.contextmanager
    def running(cls, program, folder):
        os.mkfifo(folder / "gate")
        with open(folder / "build.ninja", "w", encoding="ascii") as manifest:
            manifest.write("rule wait\n  command = echo > began; cat gate > $out\n"
                           "rule make\n  command = make-source $in $flags > $out\n"
                           "rule compile\n  command = cc $flags -c $in -o $out\n  description = compiling $out\n"
                           "build first: wait\n")
            for i in range(cls.FILES):
                manifest.write(f"build generated/in/some/folder/{i}.c: make first\n  flags = --number {i}\n"
                               f"build objects/in/some/folder/{i}.o: compile generated/in/some/folder/{i}.c\n")
            manifest.write("build program: phony")
            manifest.writelines(f" objects/in/some/folder/{i}.o" for i in range(cls.FILES))
            manifest.write("\n")
        with subprocess.Popen([program, "-C", folder], stdout=subprocess.DEVNULL) as process:
            wait_for(process, (folder / "began").exists)
            try:
                yield process.pid
            finally:
                process.terminate()

    @classmethod
    def truth(cls):
        """How many objects of a class there are."""
        return {"Edge": 2 * cls.FILES + 2, "Node": 2 * cls.FILES + 2}


class Hunspell:
    """Waits for a word after the first one."""

    WORDS = 60000

    @staticmethod
    def build(folder):
        source = debian_source.unpacked(folder, "hunspell") / "src"
        return built(folder, "hunspell", ["-DHUNSPELL_STATIC", f"-I{source / 'hunspell'}"],
                     [*sorted(source.glob("hunspell/*.cxx")), source / "tools/example.cxx"])

    @classmethod
    @contextlib.contextmanager
    def running(cls, program, folder):
        choice = random.Random(1)
        words = set()
        while len(words) < cls.WORDS:
            words.add("".join(choice.choices(string.ascii_lowercase, k=choice.randint(3, 14))))
        (folder / "words.aff").write_text("SET UTF-8\nTRY esianrtolcdugmphbyfvkwz\nSFX S Y 1\nSFX S 0 s .\n"
                                          "PFX A Y 1\nPFX A 0 re .\n", encoding="ascii")
        (folder / "words.dic").write_text("\n".join(
            [str(cls.WORDS), *(word + choice.choice(("", "/S", "/AS")) for word in sorted(words)), ""]), encoding="ascii")
        os.mkfifo(folder / "asked")
        with open(folder / "said", "wb") as said, subprocess.Popen(
                ["stdbuf", "-oL", program, folder / "words.aff", folder / "words.dic", folder / "asked"],
                stdout=said) as process, open(folder / "asked", "w", encoding="ascii") as asked:
            asked.write(min(words) + "\n")
            asked.flush()
            wait_for(process, lambda: (folder / "said").stat().st_size != 0)
            try:
                yield process.pid
            finally:
                process.terminate()

    @classmethod
    def truth(cls):
        return {"hentry": cls.WORDS}


def wait_for(process, is_ready):
    until = time.monotonic() + SECONDS_TO_START
    while not is_ready():
        assert process.poll() is None, "the program has ended"
        assert time.monotonic() < until, "the program does not start"
        time.sleep(0.05)


def check(found, truth):
    share = found["typed_bytes"] / found["bytes_in_use"]
    assert share >= LEAST_SHARE, (share, found["unknown"][:5])
    for name, count in truth.items():
        counted = sum(row["count"] for row in found["types"] if row["type"] == name)
        assert counted == count, (name, counted, count)
    return share


def main():
    heapsnap, folder, *names = sys.argv[1:]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    known = {"ninja": Ninja, "hunspell": Hunspell}
    for name in names:
        program = known[name].build(folder)
        with tempfile.TemporaryDirectory() as place, known[name].running(program, pathlib.Path(place)) as pid:
            for source in reference_sources.sources_of(heapsnap, pid, place):
                found = json.loads(run(heapsnap, "types", source, "-j"))
                share = check(found, known[name].truth())
                known_by = ", ".join(f"{by['bytes'] / found['bytes_in_use']:.1%} by {by['source']}"
                                     for by in found["typed_by"])
                print(f"{name}, {'live' if source == str(pid) else source.rpartition('.')[2]}: "
                      f"{share:.1%} of {found['bytes_in_use']:,} bytes in use are typed, {known_by}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
