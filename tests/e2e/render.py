#!/usr/bin/env python3
"""heapsnap render: its pictures, read by something that is not libpng, against what report, leaks, types and the list
of all chunks say of the same snapshot.

    render.py CASE HEAPSNAP DEMOS
"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zlib

SVG = "{http://www.w3.org/2000/svg}"
FREE = ("tcache", "fastbin", "unsorted", "smallbin", "largebin", "top")


def run(*command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, (command, done.returncode, done.stdout[-1000:], done.stderr)
    return done


class Png:
    """Decoded by hand: signature, checksums, header, palette, texts, rows."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        at, packed, self.texts = 8, b"", {}
        while at < len(data):
            length, = struct.unpack_from(">I", data, at)
            kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + length]
            assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(kind + body), kind
            at += 12 + length
            if kind == b"IHDR":
                self.width, self.height, depth, color, *_ = struct.unpack(">IIBBBBB", body)
                assert (depth, color) == (8, 3), "eight bits, a palette"
            elif kind == b"PLTE":
                self.palette = [tuple(body[i:i + 3]) for i in range(0, len(body), 3)]
            elif kind == b"iTXt":
                keyword, rest = body.split(b"\0", 1)
                self.texts[keyword.decode()] = rest[2:].split(b"\0", 2)[2].decode("utf-8")
            elif kind == b"IDAT":
                packed += body
        assert kind == b"IEND"
        rows = zlib.decompress(packed)
        assert len(rows) == self.height * (self.width + 1)
        self.rows = [rows[i:i + self.width + 1] for i in range(0, len(rows), self.width + 1)]
        assert all(row[0] == 0 for row in self.rows), "no filter"
        self.rows = [row[1:] for row in self.rows]

    def dots(self):
        counts = [0] * 256
        for row in self.rows:
            for index in set(row):
                counts[index] += row.count(index)
        return {color: counts[i] for i, color in enumerate(self.palette) if counts[i]}


def account_in(text):
    return {label: int(number.replace(",", "")) for label, number in re.findall(r"^(.*): ([\d,]+) bytes?$", text, re.M)}


class Snapshot:
    def __init__(self, heapsnap, folder, command, tracked=False):
        self.heapsnap, self.folder = heapsnap, folder
        self.path = os.path.join(folder, "a.hsnap")
        words = [heapsnap, "run", "--", *command] if tracked else command
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
            pid = target.stdout.readline().split()[1]
            run(heapsnap, "attach", "-q", "--references", "yes", "-o", self.path, pid)
            target.stdin.close()

    def render(self, *options, name="a.png", code=0):
        path = os.path.join(self.folder, name)
        done = run(self.heapsnap, "render", self.path, "-f", "-o", path, *options, code=code)
        return path if code == 0 else done.stderr

    def account(self, *options):
        return account_in(Png(self.render(*options)).texts["Description"])

    def json(self, *command, code=0):
        return json.loads(run(self.heapsnap, *command, "-j", self.path, code=code).stdout)

    def chunks(self):
        rows = run(self.heapsnap, "export", self.path, "--format", "ndjson").stdout.splitlines()
        return [row for row in map(json.loads, rows) if row["kind"] == "chunk"]


def legend(heapsnap, demos, folder):
    """The totals are those of report -j, to the byte."""
    snapshot = Snapshot(heapsnap, folder, [os.path.join(demos, "leaky_server"), "20"])
    report = snapshot.json("report")
    states = report["states"]
    assert report["pages_known"] or os.geteuid() != 0

    def here(*names):
        return sum(states[name]["resident"] + states[name]["unknown"] for name in names)

    def total(member, *names):
        return sum(states[name][member] for name in names or states)

    def given(pairs):
        return {label: number for label, number in pairs.items() if number}

    everything = {"total": total("bytes")}
    in_use = total("bytes", "used", "mmapped")
    free_here = total("resident", *FREE) + total("unknown", *FREE)
    free = {"free": free_here, "free, absent or in swap": total("bytes", *FREE) - free_here,
            "fences at segments' ends": states["fence"]["bytes"], "not walked: damage": states["unknown"]["bytes"]}
    assert snapshot.account() == given({
        "in use": here("used", "mmapped"), "free in thread caches (tcache)": here("tcache"),
        "free in fastbins": here("fastbin"), "free in bins": here("unsorted", "smallbin", "largebin"),
        "free in top chunks": here("top"), "fences at segments' ends": here("fence"),
        "not walked: damage": here("unknown"), "in swap": total("swapped"),
        "absent: costs no memory": total("absent")}) | everything

    def small(*names):
        return total("resident", *names) - total("huge", *names)
    used = ("used", "mmapped", "fence", "unknown")
    assert snapshot.account("--color-by", "residency") == given({
        "in use, in small pages": small(*used), "in use, in huge pages": total("huge", *used),
        "free, in small pages": small(*FREE), "free, in huge pages": total("huge", *FREE), "in swap": total("swapped"),
        "absent: costs no memory": total("absent"), "not known where its pages are": total("unknown")}) | everything

    by_size = snapshot.account("--color-by", "size")
    borders = {"below 64 B": (0, 64), "64 B to 256 B": (64, 256), "256 B to 1 KiB": (256, 1024),
               "1 KiB to 4 KiB": (1024, 4096), "4 KiB to 16 KiB": (4096, 16384), "16 KiB to 128 KiB": (16384, 131072),
               "128 KiB to 1 MiB": (131072, 1048576), "1 MiB and more": (1048576, 1 << 64)}
    sizes = {f"in use, {name}": sum(each["used"]["bytes"] for each in report["size_classes"] if low <= each["begin"] < high)
             for name, (low, high) in borders.items()}
    assert sum(sizes.values()) == in_use
    assert by_size == given(sizes | free) | everything, by_size

    # Types count the bytes of blocks, pictures those of chunks: each has a word more.
    types = snapshot.json("types")
    by_type = snapshot.account("--color-by", "type")
    for row in types["types"][:2]:
        if row["type"] == "std::string characters":
            assert by_type[row["type"]] == row["bytes"] + 8 * row["count"], (row, by_type)
            break
    else:
        raise AssertionError("the demo server has strings")
    assert sum(number for label, number in by_type.items() if label != "total") == everything["total"]


def leaks_and_stacks(heapsnap, demos, folder):
    """Of a tracked server that leaks: what leaks says is leaked, and what each stack allocated."""
    snapshot = Snapshot(heapsnap, folder, [os.path.join(demos, "forgetful_server"), "8000"], tracked=True)
    leaks = snapshot.json("leaks", code=1)
    assert leaks["leaked_blocks"] > 500
    by_leak = snapshot.account("--color-by", "leak")
    assert by_leak["leaked: nothing leads to it"] == leaks["leaked_bytes"] + 8 * leaks["leaked_blocks"], by_leak
    by_stack = snapshot.account("--color-by", "stack")
    in_use = sum(row["size"] for row in snapshot.chunks() if row["state"] in ("used", "mmapped"))
    free = sum(number for label, number in by_stack.items() if label.startswith(("free", "fences")))
    assert by_stack["total"] - free == in_use, by_stack
    # The replies that are not freed are most of it: by what makes them, not by malloc.
    assert by_stack[next(label for label in by_stack if label.startswith("make_reply"))] >= leaks["leaked_bytes"] // 2


def age(heapsnap, demos, folder):
    """What all snapshots have at the same address and of the same size is old, and the rest as new as it is."""
    paths = [os.path.join(folder, f"{name}.hsnap") for name in ("first", "second", "third")]

    def chunks(path):
        rows = map(json.loads, run(heapsnap, "export", path, "--format", "ndjson").stdout.splitlines())
        return {(row["addr"], row["size"]) for row in rows if row["kind"] == "chunk" and row["state"] in ("used", "mmapped")}
    with subprocess.Popen([os.path.join(demos, "leaky_server"), "20"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as program:
        pid = program.stdout.readline().split()[-1]
        taken = []
        while len(taken) < len(paths):
            path = paths[len(taken)]
            run(heapsnap, "attach", "-q", "-f", "-o", path, pid)
            now = chunks(path)
            if not taken or now - taken[-1]:
                taken.append(now)
        program.stdin.close()
    first, second, third = taken
    moments = [json.loads(run(heapsnap, "report", "-j", path).stdout)["taken_at"][:19] + "Z" for path in paths]
    if moments[0] == moments[1] or moments[1] == moments[2]:
        moments = [os.path.basename(path) for path in paths]
    expected = {f"there by {moments[0]}": third & second & first, f"first seen {moments[1]}": (third & second) - first,
                f"first seen {moments[2]}": third - second}
    expected = {label: sum(size for _, size in part) for label, part in expected.items() if part}
    assert len(expected) >= 2, expected
    picture = os.path.join(folder, "age.png")
    run(heapsnap, "render", *paths, "--color-by", "age", "-o", picture)
    account = account_in(Png(picture).texts["Description"])
    assert {label: number for label, number in account.items() if label.startswith(("there by", "first seen"))} == expected, account

    def refused(words, *said):
        done = run(heapsnap, "render", *words, "-f", "-o", picture, code=5 if "heapsnap diff" in said[-1] else 2)
        assert all(part in done.stderr for part in said), done.stderr
    refused(paths, "one snapshot", "--color-by age")
    refused([*reversed(paths), "--color-by", "age"], "the oldest snapshot first")
    refused([*paths * 3, "--color-by", "age"], "8 of them apart at most")
    # Reduced snapshots of one process can be told to be that, but each has addresses of its own.
    shared = [path.replace(".hsnap", ".shared.hsnap") for path in paths[:2]]
    for path, reduced in zip(paths, shared):
        run(heapsnap, "share", path, "-o", reduced)
    for pair in (shared, [paths[0], shared[1]], [shared[0], paths[1]]):
        refused([*pair, "--color-by", "age"], "heapsnap share has replaced its addresses", "heapsnap diff")
    run(heapsnap, "render", shared[0], "-f", "-o", picture)
    # A process that executes itself keeps its number, its start time and its program, and has none of its blocks.
    again = "import os, sys; print('ready', flush=True); sys.stdin.readline() and os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])"
    executed = [os.path.join(folder, f"{name}.hsnap") for name in ("before", "after")]
    with subprocess.Popen([sys.executable, "-S", "-c", again], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        for path in executed:
            assert program.stdout.readline() == "ready\n"
            run(heapsnap, "attach", "-q", "-o", path, str(program.pid))
            if path == executed[0]:
                program.stdin.write("\n")
                program.stdin.flush()
        program.stdin.close()
    refused([*executed, "--color-by", "age"], "was started anew in between", f"heapsnap diff {executed[0]} {executed[1]}")
    run(heapsnap, "diff", *executed)
    other = Snapshot(heapsnap, folder, [os.path.join(demos, "leaky_server"), "5"])
    refused([paths[0], other.path, "--color-by", "age"], "not of the same process", f"heapsnap diff {paths[0]} {other.path}")
    run(heapsnap, "diff", paths[0], other.path)


def squares(heapsnap, demos, folder):
    """Colours cover as much of a picture as the legend says, and of a part what lies there."""
    snapshot = Snapshot(heapsnap, folder, [os.path.join(demos, "leaky_server"), "40"])
    wordless = Png(snapshot.render("--width", "512", "--height", "400"))
    account = account_in(wordless.texts["Description"])
    dots = wordless.dots()
    white = dots.pop((255, 255, 255), 0)
    assert white < wordless.width * wordless.height / 10, "all of it is the map"
    used, bins = dots[(0x0b, 0x4f, 0x8a)], dots[(0xf5, 0xa8, 0x3c)]
    for dotted, label in ((used, "in use"), (bins, "free in bins")):
        expected = account[label] / account["total"]
        assert abs(dotted / sum(dots.values()) - expected) < 0.02, (label, dotted, dots, account)

    report = snapshot.json("report")
    arena = report["arenas"][1]["states"]
    assert snapshot.account("--region", "arena 1")["total"] == sum(state["bytes"] for state in arena.values())
    assert snapshot.account("--region", "mmapped")["total"] == report["states"]["mmapped"]["bytes"]
    main = sum(state["bytes"] for state in report["arenas"][0]["states"].values())
    for name in ("main arena", "arena 0", "[heap]"):
        assert snapshot.account("--region", name)["total"] == main, name
    segment = next(each for each in report["segments"] if each["arena"] == 2)
    begin, end = (int(segment[side], 16) for side in ("begin", "end"))
    assert snapshot.account("--region", f"{begin + 5000:#x}")["total"] == end - begin
    # Every chunk in a range, cut at its ends, in squares of 16 bytes.
    low, high = begin + 1000, begin + 33000
    region = f"{low:#x}-{high:x}"
    inside = {"used": 0, "free": 0}
    for row in snapshot.chunks():
        first = int(row["addr"], 16) - 16
        part = min(first + row["size"], high) - max(first, low)
        if part > 0 and row["arena"] == 2:
            inside["used" if row["state"] == "used" else "free"] += part
    detail = snapshot.account("--region", region, "--scale", "16", "--color-by", "size")
    assert detail["total"] == high - low == sum(inside.values()), (detail, inside)
    assert sum(number for label, number in detail.items() if label.startswith("in use")) == inside["used"]


def formats(heapsnap, demos, folder):
    """PNG or SVG by the name or by --format, sizes as asked for, standard output, and the same words in both."""
    snapshot = Snapshot(heapsnap, folder, [os.path.join(demos, "leaky_server"), "20"])
    usual = Png(snapshot.render())
    assert usual.width == 1280 and usual.height <= 800
    assert usual.texts["Title"].startswith("Heap of leaky_server (PID ")
    for name, options in (("a.svg", []), ("b.png", ["--format", "svg"])):
        path = snapshot.render(*options, name=name)
        root = xml.etree.ElementTree.parse(path).getroot()
        assert root.tag == SVG + "svg" and root.get("role") == "img"
        assert root.find(SVG + "title").text == usual.texts["Title"]
        assert account_in(root.find(SVG + "desc").text) == account_in(usual.texts["Description"])
        texts = [text for each in root.iter(SVG + "text") for text in each.itertext()]
        assert any("main arena" in text for text in texts) and any(text.startswith("0x") for text in texts)
        assert os.path.getsize(path) < 1_000_000
        with open(path, encoding="utf-8") as file:
            assert "href" not in file.read(), "nothing is loaded from elsewhere"
    Png(snapshot.render("--format", "png", name="c.svg"))
    hostile = os.path.join(folder, "\x1b[2J.png")
    assert run(heapsnap, "render", snapshot.path, "-o", hostile).stdout.startswith(hostile.replace("\x1b", "\\x1b") + ": ")
    for width, height in ((16, 16), (8192, 300), (900, 600), (1920, 1080)):
        sized = Png(snapshot.render("--width", str(width), "--height", str(height)))
        assert sized.width == width and sized.height <= height
    tall = Png(snapshot.render("--scale", "16"))
    assert tall.height > 800 and tall.texts["Description"] == usual.texts["Description"]
    out = subprocess.run([heapsnap, "render", snapshot.path, "-o", "-"], capture_output=True, check=True).stdout
    assert out.startswith(b"\x89PNG")


def refusals(heapsnap, demos, folder):
    """Each says why, and what to do."""
    snapshot = Snapshot(heapsnap, folder, [os.path.join(demos, "leaky_server"), "10"])
    # One more than it has threads, unless one began when another had ended.
    arenas = json.loads(run(heapsnap, "report", snapshot.path, "-j").stdout)["arenas"]
    for options, code, words in (
            (["--color-by", "age"], 2, ["it takes an older one", "heapsnap render OLDER.hsnap"]),
            (["--color-by", "colour"], 2, ["state", "leak"]),
            (["--color-by", "stack"], 5, ["not tracked", "heapsnap inject"]),
            (["--region", "arena 99"], 2, [f"arenas 0 to {len(arenas) - 1}"]),
            (["--region", "arena x"], 2, [f"arenas 0 to {len(arenas) - 1}"]),
            (["--region", "0x10"], 2, ["no memory there"]),
            (["--region", "0x20-0x10"], 2, ["no memory there"]),
            (["--region", "[stack]"], 2, ["no memory there"]),
            (["--region", "[nowhere]"], 2, ["no mapping has that name", "arena N"]),
            (["--scale", "17"], 2, ["power of two", "--scale 16"]),
            (["--scale", "8"], 2, ["16 bytes", "--scale 16"]),
            (["--scale", "16", "--format", "svg"], 2, ["overview"]),
            (["--format", "gif"], 2, ["png", "svg"]),
            (["--width", "15"], 2, ["between 16 and 8192"])):
        said = snapshot.render(*options, name="refused.png", code=code)
        assert all(word in said for word in words), (options, said)
        assert not os.path.exists(os.path.join(folder, "refused.png")), options
    for command in ("render", "share", "report", "export", "view"):
        options = ["-o", os.path.join(folder, "refused.png")] if command != "report" else []
        said = run(heapsnap, command, *options, *(["--format", "folded"] if command == "export" else []), str(os.getpid()), code=2).stderr
        assert f"that is a process, and {command} reads snapshots" in said and f"attach --references yes {os.getpid()}" in said, said
        # Of a word that names neither a file nor a process: these take files.
        said = run(heapsnap, command, *options, *(["--format", "folded"] if command == "export" else []), "nonesuch", code=6).stderr
        assert "cannot open nonesuch" in said and "check the path" in said, said
    assert "cannot open nonesuch" in run(heapsnap, "diff", "nonesuch", snapshot.path, code=6).stderr
    run(heapsnap, "attach", "-q", "-f", "--references", "no", "-o", snapshot.path, str(os.getpid()))
    said = snapshot.render("--color-by", "type", code=5)
    assert "no references" in said and "--references" in said, said


CASES = {case.__name__: case for case in (legend, leaks_and_stacks, age, squares, formats, refusals)}


def main():
    case, heapsnap, demos = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="heapsnap-render-") as folder:
        CASES[case](heapsnap, demos, folder)


main()
