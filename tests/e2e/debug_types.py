#!/usr/bin/env python3
"""types of blocks by debug information: debug_types.py HEAPSNAP PROGRAM...

Each program says how many blocks of each type it keeps. Their debug information lies in the program, in a file of
its own beside it, or nowhere."""

import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

import reference_sources


def run(heapsnap, *words):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.returncode, done.stdout[-2000:], done.stderr)
    return done.stdout


def read_truth(process):
    """By type: how many blocks, and how many bytes or None; and addresses of objects, and which variable has them."""
    said = {}
    held = []
    for line in process.stdout:
        if line == "ready\n":
            return said, held
        kind, count, rest = line.rstrip("\n").split(" ", 2)
        if kind == "held":
            held.append((count, rest))
            continue
        size, name = rest.split(" ", 1) if kind == "exact" else (None, rest)
        said[name] = (int(count), None if size is None else int(size))
    raise AssertionError("the program has ended")


def found_by_name(found):
    result = collections.defaultdict(lambda: [0, 0])
    for row in found["types"]:
        result[row["type"]][0] += row["count"]
        result[row["type"]][1] += row["bytes"]
    return result


def check_types(found, said):
    """Exactly what the program says, and nothing of its own that it does not say."""
    by_name = found_by_name(found)
    for name, (count, size) in said.items():
        assert by_name[name][0] == count, (name, by_name[name], count)
        assert size is None or by_name[name][1] == size, (name, by_name[name], size)
    own = {name for name, (count, _) in by_name.items() if name.startswith("shop::") and count != 0}
    assert own <= set(said), own - set(said)
    sources = {row["type"]: row["source"] for row in found["types"]}
    assert sources["shop::Session"] == "debug-info", sources["shop::Session"]


def check_no_types(found):
    """Nothing but debug information knows the program's own."""
    own = {name for name in found_by_name(found) if name.startswith("shop::")}
    assert not own, own
    assert found["unknown_blocks"] > 0


def check_held(heapsnap, source, address, variable):
    """By a word that few blocks of that kind have an address in, which is in use all the same."""
    paths = json.loads(run(heapsnap, "why", address, source, "-j"))["paths"]
    own = [path for path in paths if path["root"].endswith(variable)]
    assert own and not any(step["may_be_stale"] for step in own[0]["steps"]), (variable, paths)


def check_program(heapsnap, folder, program, check, has_types=True):
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            said, held = read_truth(process)
            for source in reference_sources.sources_of(heapsnap, process.pid, folder):
                found = json.loads(run(heapsnap, "types", source, "-j"))
                check(found, said)
                for address, variable in held if has_types else ():
                    check_held(heapsnap, source, address, variable)
                if os.path.exists(source):
                    os.unlink(source)
            return found
        finally:
            process.stdin.close()


def with_debug_file(path, folder, keep):
    """The program without its debug information, which lies in a file beside it or, if not `keep`, nowhere."""
    os.makedirs(folder)
    program = os.path.join(folder, "program")
    debug_file = os.path.join(folder, "program.debug")
    subprocess.run(["objcopy", "--only-keep-debug", path, debug_file], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug_file}", path, program], check=True)
    if not keep:
        os.unlink(debug_file)
    return program


def main():
    heapsnap, *programs = sys.argv[1:]
    shares = []
    with tempfile.TemporaryDirectory() as folder:
        for program in programs:
            found = check_program(heapsnap, folder, program, check_types)
            shares.append(found["typed_bytes"] / found["bytes_in_use"])
        if shutil.which("objcopy"):
            separate = with_debug_file(programs[0], os.path.join(folder, "separate"), True)
            check_program(heapsnap, folder, separate, check_types)
            lacking = with_debug_file(programs[0], os.path.join(folder, "lacking"), False)
            check_program(heapsnap, folder, lacking, lambda found, _: check_no_types(found), has_types=False)
    print(f"typed: {', '.join(f'{share:.1%}' for share in shares)} of the bytes in use")
    return 0


if __name__ == "__main__":
    sys.exit(main())
