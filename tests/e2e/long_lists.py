#!/usr/bin/env python3
"""A thread that is met while malloc walks long free lists is led to the end of that: its heap is whole.
long_lists.py METHOD HEAPSNAP TARGET

HEAPSNAP_LONG=1 in the environment wants 50 such meetings."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

MOST_ATTACHES = 2000
LONG_CALL = {"fork": 4096, "stop": 150}  # steps or slices that few short calls take


def main():
    method, heapsnap, program = sys.argv[1:4]
    wanted = 50 if os.environ.get("HEAPSNAP_LONG") == "1" else 2
    met = attaches = 0
    with tempfile.TemporaryDirectory() as folder, \
            subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as target:
        try:
            target.stdout.readline()
            path = pathlib.Path(folder) / "lists.hsnap"
            while met < wanted and attaches < MOST_ATTACHES:
                attaches += 1
                subprocess.run([heapsnap, "attach", "-q", "-f", "--literal-name", "--freeze", method, "--no-symbols",
                                "-o", path, str(target.pid)], check=True, stdout=subprocess.DEVNULL)
                report = json.loads(subprocess.run([heapsnap, "report", "-j", path], check=True, capture_output=True,
                                                   text=True).stdout)
                freeze = report["freeze"]
                assert freeze["method"] == method, freeze
                assert not any("inconsistent in the snapshot" in note for note in freeze["notes"]), freeze
                assert not report["corruptions"], (freeze, report["corruptions"][:3])
                met += freeze["steps"] >= LONG_CALL[method]
        finally:
            target.kill()
    print(f"{method}: met in a long call {met} times in {attaches} attaches")
    assert met == wanted, (met, attaches)


if __name__ == "__main__":
    main()
