#!/usr/bin/env python3
"""Puts real output into README.md, so that it cannot drift from what the program does.

    tools/readme_output.py HEAPSNAP DEMOS

Starts the demo servers in the folder DEMOS, runs the commands that README.md names in its blocks

    <!-- output: heapsnap attach PID -->
    ```text
    ...
    ```

with the PID of leaky_server, or, of "output of cache_server:", of that one, and a snapshot in a temporary folder, and
replaces what stands between the fences.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"(<!-- output(?: of (\w+))?: (.*?) -->\n```text\n)(.*?)(```\n)", re.DOTALL)


def run(command, heapsnap, server, folder):
    # A block may be a part of the output:
    #   <!-- output: heapsnap report a.hsnap, from "Arenas" to "Largest" -->
    part = re.fullmatch(r'(.*), from "(.*)" to "(.*)"', command)
    command, start, end = part.groups() if part else (command, "", None)
    words = [word.replace("PID", str(server.pid)) for word in command.split()]
    environment = dict(os.environ, COLUMNS="80", TERM="dumb")
    done = subprocess.run([heapsnap, *words[1:]], cwd=folder, env=environment, capture_output=True,
                          text=True, check=True)
    # Where this checkout lies is nobody's business.
    text = done.stdout.replace(os.path.dirname(server.args[0]), "/opt/demo").rstrip("\n")
    return text[text.index(start):end and text.index(end)].rstrip("\n") + "\n"


@contextlib.contextmanager
def demo(folder, name):
    """The server of that name, once it has its memory."""
    with subprocess.Popen([os.path.join(folder, name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            if not server.stdout.readline().startswith("ready"):
                sys.exit(f"{name} did not start")
            yield server
        finally:
            server.stdin.close()


def main():
    heapsnap, demos = (os.path.abspath(path) for path in sys.argv[1:3])
    readme = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "README.md")
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    for name in ("leaky_server", "cache_server"):
        with demo(demos, name) as server, tempfile.TemporaryDirectory(prefix="heapsnap-readme-") as folder:
            def output(found):
                if (found[2] or "leaky_server") != name:
                    return found[0]
                return found[1] + run(found[3], heapsnap, server, folder) + found[5]

            text = BLOCK.sub(output, text)
    with open(readme, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
