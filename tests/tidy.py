#!/usr/bin/env python3
"""clang-tidy over lib/, platform/ and tools/: what changed since it last found nothing, or all.

    tidy.py BUILD [--all] [--jobs N]

BUILD is a finished clang build with Ninja (build/clang): its compile_commands.json says how each file is
compiled, its dependency log which files that read. A file is passed over when nothing of the tree that it
reads has changed

- since the commit that tests/tidy.base names: there, all files were checked, and none had a finding; or
- since it was checked here: the states that passed (what it reads, its command, .clang-tidy, the program's
  version) are digests in $XDG_CACHE_HOME/heapsnap-tidy (~/.cache/heapsnap-tidy), and serve every clone.

--all checks all the same. Where it finds nothing, the commit may go into tests/tidy.base.

Prints the findings; exit code 1 when there is one.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# With these, what is found in any file changes.
DECIDE_FOR_ALL = {".clang-tidy", "CMakeLists.txt", "CMakePresets.json"}
CHATTER = re.compile(r"^\d+ warnings? generated\.$|^Suppressed \d+ |^Use -header-filter=")


def dependencies(build):
    """The files that each object of the build was made from."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    found = {}
    for block in listed.split("\n\n"):
        lines = block.splitlines()
        if lines and "(VALID)" in lines[0]:
            found[lines[0].split(":")[0]] = [os.path.join(build, line.strip()) for line in lines[1:]]
    return found


def object_of(entry):
    return re.search(r" -o (\S+)", entry["command"])[1]


class State:
    """Digests of what a check of a file would read; nothing in it depends on where the tree lies."""

    def __init__(self, build):
        self.build = build
        self.digests = {}
        version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
        self.common = version + self.content(os.path.join(ROOT, ".clang-tidy"))

    def content(self, path):
        if path not in self.digests:
            with open(path, "rb") as file:
                text = file.read().replace(ROOT.encode(), b"")
            self.digests[path] = hashlib.sha256(text).hexdigest()
        return self.digests[path]

    def of(self, entry, files):
        state = hashlib.sha256(self.common.encode())
        state.update(entry["command"].replace(ROOT, "").encode())
        for path in sorted({os.path.normpath(file) for file in files}):
            place = os.path.relpath(path, ROOT) if path.startswith(ROOT + "/") else path
            state.update(f"{place} {self.content(path)}\n".encode())
        return state.hexdigest()


def changed_since_base():
    """The files of the tree that differ from the commit in tests/tidy.base; None if that cannot be told."""

    def git(*arguments):
        try:
            done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)
        except FileNotFoundError:  # a tree without git, as from an archive
            return None
        return done.stdout.split("\0")[:-1] if done.returncode == 0 else None

    with open(os.path.join(ROOT, "tests", "tidy.base"), encoding="utf-8") as file:
        base = file.read().strip()
    differing = git("diff", "-z", "--name-only", base)
    untracked = git("ls-files", "-z", "--others", "--exclude-standard")
    if differing is None or untracked is None:
        return None
    changed = set(differing + untracked)
    return None if changed & DECIDE_FOR_ALL else {os.path.join(ROOT, path) for path in changed}


def check(build, path):
    done = subprocess.run(["clang-tidy", "-quiet", "-p", build, path], capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if not CHATTER.match(line)]
    return done.returncode, "\n".join(said)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)

    passed = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "heapsnap-tidy")
    os.makedirs(passed, exist_ok=True)
    read_by = dependencies(build)
    state = State(build)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    checked = re.compile(rf"({re.escape(os.path.relpath(build, ROOT))}/)?(lib|platform|tools)/")
    changed = None if arguments.all else changed_since_base()
    todo = {}
    known = 0
    for entry in entries:
        if not checked.match(os.path.relpath(entry["file"], ROOT)):
            continue
        files = read_by.get(object_of(entry))
        # What has not been built has no dependencies, and is checked each time.
        if files and changed is not None and changed.isdisjoint(map(os.path.normpath, files)):
            known += 1
            continue
        digest = state.of(entry, files) if files else None
        if digest and not arguments.all and os.path.exists(os.path.join(passed, digest)):
            known += 1
        else:
            todo[entry["file"]] = digest
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for (path, digest), (code, said) in zip(todo.items(), pool.map(lambda file: check(build, file), todo)):
            if said:
                print(said)
            if code != 0:
                failures += 1
            elif digest:
                open(os.path.join(passed, digest), "w", encoding="utf-8").close()
    print(f"{len(todo)} files checked, {known} unchanged since they passed, {failures} with findings")
    return 1 if failures or not todo and not known else 0


if __name__ == "__main__":
    sys.exit(main())
