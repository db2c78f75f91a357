#!/usr/bin/env python3
"""A process can hold more than one malloc: all blocks of each are found.

    second_malloc.py dlmopen|malloc_debug HEAPSNAP TARGET LIBRARY

dlmopen: a library in a link-map namespace has a C library of its own. malloc_debug: glibc's
libc_malloc_debug.so.0 is preloaded and its malloc, not libc's, serves the program; with its checks on
malloc_usable_size(3) is what was asked for, and a byte behind that is taken for the check.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile


def main():
    case, heapsnap, target, library = sys.argv[1:]
    environment = dict(os.environ)
    command = [target]
    spare = range(1)
    if case == "malloc_debug":
        try:
            ctypes.CDLL("libc_malloc_debug.so.0")
        except OSError as error:
            print("skipped:", error)
            return 77
        environment |= {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}
        spare = range(1, 25)  # the byte, and the rounding up to a chunk
    else:
        command.append(library)
    with tempfile.TemporaryDirectory() as folder:
        snapshot = f"{folder}/two.hsnap"
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        blocks = {}
        for line in process.stdout:
            if line == "ready\n":
                break
            pointer, usable = line.split()
            blocks[int(pointer, 16)] = int(usable)
        subprocess.run([heapsnap, "attach", str(process.pid), "-q", "-o", snapshot], check=True)
        exported = subprocess.run([heapsnap, "export", snapshot, "--format", "ndjson"],
                                  capture_output=True, text=True, check=True).stdout.splitlines()
        process.stdin.close()
        if process.wait() != 0:
            print("FAILED: the target ended with", process.returncode)
            return 1
    chunks = {int(chunk["addr"], 16): chunk for chunk in map(json.loads, exported)
              if chunk["kind"] == "chunk"}
    wrong = [f"{pointer:#x}: {usable} usable, exported as {chunks.get(pointer)}"
             for pointer, usable in blocks.items()
             if chunks.get(pointer, {}).get("state") not in ("used", "mmapped")
             or chunks[pointer]["usable"] - usable not in spare]
    print(f"{len(blocks)} blocks, {len(wrong)} not as the target says", *wrong[:5], sep="\n")
    expected = 300 if case == "malloc_debug" else 600
    return 0 if len(blocks) == expected and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
