"""What the commands that explain memory read: a snapshot, a process, a core; and what known_leaks says of its blocks."""

import os
import shutil
import subprocess
import tempfile


def take_snapshot(heapsnap, pid, folder):
    """With references."""
    path = os.path.join(folder, f"{pid}.hsnap")
    subprocess.run([heapsnap, "attach", str(pid), "-q", "--references", "yes", "-o", path], check=True)
    return path


def take_core(pid, folder):
    core = os.path.join(folder, "core")
    subprocess.run(["gcore", "-o", core, str(pid)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return f"{core}.{pid}"


def sources_of(heapsnap, pid, folder):
    """A snapshot, the process, and a core where there is gcore."""
    sources = [take_snapshot(heapsnap, pid, folder), str(pid)]
    if shutil.which("gcore"):
        sources.append(take_core(pid, folder))
    return sources


def check_containers(heapsnap, target, check):
    """Calls check(source, lines) for each source of a target that says a line for each container, and then "ready"."""
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stdout:
            if line.rstrip("\n") == "ready":
                break
            lines.append(line.rstrip("\n"))
        try:
            sources = sources_of(heapsnap, process.pid, folder)
            for source in sources:
                check(source, lines)
        finally:
            process.stdin.close()
    print(f"{os.path.basename(target)}: {len(lines)} containers agree in {len(sources)} sources")


def said_blocks(lines):
    """What known_leaks says, up to "ready": the words by address."""
    said = {}
    for line in lines:
        words = line.split()
        if words == ["ready"]:
            return said
        said[int(words[-1], 16)] = words[:-1]
    raise AssertionError("the program has ended")
