"""A process of Ruby as a target, of this system or of a folder that ruby_roots.sh has made:

    for name, ruby, root in rubies(words): with RubyTarget(ruby, root, "script.rb", ...) as target: target.said"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import distribution_root

# Of versions that no Debian suite has: suites of Ubuntu.
UBUNTU = {"3.2": "noble"}
HERE = os.path.dirname(os.path.abspath(__file__))


class RubyTarget:
    """`ruby` is the command, `root` the folder that it sees as /. Ends well when its standard input does."""

    def __init__(self, ruby, root, script, *words):
        place = HERE
        if root != "/":
            shutil.copy(f"{HERE}/{script}", f"{root}/tmp")
            place = "/tmp"
            ruby = ["chroot", root, *ruby]
        self.process = subprocess.Popen([*ruby, "--disable-gems", f"{place}/{script}", *map(str, words)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        lines = list(iter(self.process.stdout.readline, "ready\n"))
        self.said = json.loads(lines[0]) if lines else None
        self.pid = str(self.process.pid)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.communicate()
        assert self.process.returncode == 0, f"the process was harmed: {self.process.returncode}"


def rubies(words):
    """No words: this system's. FOLDER VERSION...: those. Gives (name, command, root) of each, and ends with 77 where one
    cannot be had."""
    if not words:
        if shutil.which("ruby") is None:
            print("there is no Ruby here")
            sys.exit(77)
        yield "of this system", ["ruby"], "/"
        return
    folder, *versions = words
    if os.geteuid() != 0:
        print("only root can chroot")
        sys.exit(77)
    of_debian = [version for version in versions if version not in UBUNTU]
    missing = 0
    if of_debian:
        missing = subprocess.run(["sh", f"{HERE}/ruby_roots.sh", folder, *of_debian], check=False).returncode
    for version in of_debian:
        if os.path.exists(f"{folder}/{version}/usr/bin/ruby{version}"):
            yield version, [f"ruby{version}"], f"{folder}/{version}"
    for version in versions:
        if version in UBUNTU:
            root = distribution_root.make(pathlib.Path(folder), UBUNTU[version], [f"ruby{version}"])
            yield version, [f"ruby{version}"], str(root)
    if missing != 0:
        sys.exit(missing)
