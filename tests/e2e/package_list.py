#!/usr/bin/env python3
"""tools/packages.sh --install, with programs of this test in the place of apt's: what it asks for.

    package_list.py SOURCE_FOLDER
"""

import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAMS = {"dpkg-query": "exit 1", "sudo": 'shift; exec "$@"',
            "apt-get": 'echo "$@" >>"$ASKED"',
            "apt-cache": 'if [ "$AVAILABLE" = no ]; then echo "  Candidate: $NONE"; else echo "  Candidate: 1.0"; fi'}


def main():
    (source,) = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="heapsnap-packages-") as name:
        folder = pathlib.Path(name)
        for program, text in PROGRAMS.items():
            (folder / program).write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
            (folder / program).chmod(0o755)
        for available, none in (("yes", ""), ("no", "(none)"), ("no", "")):
            asked = folder / "asked"
            asked.unlink(missing_ok=True)
            environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "ASKED": str(asked), "AVAILABLE": available,
                                        "NONE": none}
            done = subprocess.run([f"{source}/tools/packages.sh", "--install", "build", "test"], capture_output=True, text=True,
                                  check=False, env=environment)
            assert done.returncode == 0, done
            update, install = asked.read_text(encoding="ascii").splitlines()
            assert update == "-q update" and " g++ " in install and " gdb " in install, install
            assert (" clickhouse-server " in f"{install} ") == (available == "yes"), (available, install)
            assert ("skipped: apt has no clickhouse-server here" in done.stderr) == (available == "no"), done.stderr
    return 0


if __name__ == "__main__":
    sys.exit(main())
