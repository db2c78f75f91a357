#!/usr/bin/env python3
"""A process that unloads its Python while its other threads allocate is not harmed by a tracker that knows of it:

    interpreter_unloaded.py HEAPSNAP INTERPRETER_UNLOADER"""

import glob
import os
import subprocess
import sys

ROUNDS = 30  # without a guard it ends at the first or second one


def libraries():
    """One of each version, with the folder that it belongs to."""
    for path in sorted(glob.glob("/usr/lib/*/libpython3.11.so.1.0")):
        yield path, "/usr"
    for version in ("3.12", "3.13"):
        pyenv = os.path.expanduser("~/.pyenv")
        for path in sorted(glob.glob(f"{pyenv}/versions/{version}.*/lib/libpython3*.so.1.0"))[:1]:
            yield path, os.path.dirname(os.path.dirname(path))


def check(heapsnap, unloader, library, home):
    environment = {**os.environ, "PYTHONHOME": home}
    with subprocess.Popen([unloader, library, str(ROUNDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=environment) as process:
        pid = process.stdout.readline().strip()
        done = subprocess.run([heapsnap, "inject", "--interpreter-frames", pid], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0 and "with the frames of Python" in done.stdout, done
        said, _ = process.communicate("\n", timeout=120)
        assert process.returncode == 0 and said == "unloaded\n", (library, process.returncode, said)


def main():
    heapsnap, unloader = sys.argv[1:]
    found = list(libraries())
    if not found:
        print("there is no Python that is a library")
        sys.exit(77)
    for library, home in found:
        check(heapsnap, unloader, library, home)


main()
