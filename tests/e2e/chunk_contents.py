#!/usr/bin/env python3
"""`report --at` shows what a program wrote into its blocks, who allocated them, and refuses what it cannot show.

    chunk_contents.py HEAPSNAP

The target is this script itself (chunk_contents.py --target).
"""

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile

TEXT = b"key=value;" * 10
LARGE = 1 << 20
FAR = 300_000


def be_target():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    small, large, freed = libc.malloc(len(TEXT)), libc.malloc(LARGE), libc.malloc(3000)
    ctypes.memmove(small, TEXT, len(TEXT))
    ctypes.memmove(large + FAR, b"far away", 8)
    ctypes.memset(freed, ord("x"), 3000)
    libc.free.argtypes = [ctypes.c_void_p]
    line = f"{os.getpid()} {small} {large} {freed}\n".encode()
    libc.free(freed)
    # Not print() and sys.stdin: their buffers could be malloc'd from what was just freed.
    os.write(1, line)
    os.read(0, 1)


class Tool:
    def __init__(self, path, folder):
        self.path = path
        self.folder = folder

    def run(self, *words, code=0):
        done = subprocess.run([self.path, *map(str, words)], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == code, (words, done)
        return done

    def chunk(self, snapshot, at, *options):
        return json.loads(self.run("report", snapshot, "--at", hex(at), "-j", *options).stdout)


def bytes_of(chunk):
    """Of the printed part; the parts that were stored, end to end."""
    begin = int(chunk["contents"][0]["addr"], 16)
    return begin, b"".join(bytes.fromhex(part["hex"]) for part in chunk["contents"])


def check(tool, command):
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        try:
            pid, small, large, freed = map(int, target.stdout.readline().split())
            name = "chunk.hsnap"
            tool.run("attach", pid, "-q", "-f", "-o", name, "--contents")
            tool.run("attach", pid, "-q", "-f", "-o", "without.hsnap")
        finally:
            target.stdin.close()
    for at in (small, small + 50, small + len(TEXT) - 1):
        chunk = tool.chunk(name, at)
        assert int(chunk["addr"], 16) == small and chunk["state"] == "used" and chunk["arena"] == 0, chunk
        assert bytes_of(chunk)[1].startswith(TEXT), chunk
    far = tool.chunk(name, large + FAR)
    assert far["state"] == "mmapped" and far["usable"] >= LARGE and far["shown"] == 4096, far
    begin, shown = bytes_of(far)
    assert shown[large + FAR - begin:].startswith(b"far away"), far
    text = tool.run("report", name, "--at", hex(large + FAR)).stdout
    assert re.search(r"^[0-9a-f]{8}  66 61 72 20 61 77 61 79 .*\|far away", text, re.MULTILINE), text
    # What it says how to print all of it does.
    again = re.search(r"^All of it:\n  heapsnap (.*)$", text, re.MULTILINE)[1]
    whole = tool.run(*again.split()).stdout
    assert "All of it" not in whole and "far away" in whole and "not stored: " in whole, whole
    dump, step = whole.split("\n\nWhat next\n")
    assert int(dump.splitlines()[-1], 16) == far["usable"], whole
    assert f"heapsnap why {far['addr']} chunk.hsnap" in step, step
    free = tool.chunk(name, freed + 100)
    assert free["state"] not in ("used", "mmapped") and "frames" not in free, free
    return name, tool.chunk(name, small)


def main():
    if sys.argv[1] == "--target":
        be_target()
        return 0
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(sys.argv[1], folder)
        target = [sys.executable, __file__, "--target"]
        _, chunk = check(tool, target)
        assert "frames" not in chunk, chunk
        # The same of a tracked process: it knows who asked, and for how much.
        name, chunk = check(tool, [sys.argv[1], "run", *target])
        assert chunk["requested"] == len(TEXT) and len(chunk["frames"]) > 3 and chunk["end"] == "complete", chunk
        assert "Allocated by" in tool.run("report", name, "--at", chunk["addr"]).stdout

        # Without contents: the chunk is told, and what to do.
        plain = tool.run("report", "without.hsnap", "--at", chunk["addr"])
        assert "in use" in plain.stdout and "taken without --contents" in plain.stderr, plain
        assert re.search(r"^note: .*heapsnap attach \d+ --contents$", plain.stderr, re.MULTILINE), plain
        refused = tool.run("report", name, "--at", "0x10", code=2)
        assert "no chunk at 0x10\n  why: no memory was mapped there" in refused.stderr, refused
        listing = re.search(r"heapsnap (export \S+ --format ndjson)$", refused.stderr, re.MULTILINE)[1]
        assert chunk["addr"] in tool.run(*listing.split()).stdout
        assert "not a hexadecimal address" in tool.run("report", name, "--at", "here", code=2).stderr
    return 0


if __name__ == "__main__":
    sys.exit(main())
