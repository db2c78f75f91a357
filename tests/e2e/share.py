#!/usr/bin/env python3
"""heapsnap share: nothing that was planted is in the shared file, and what it says of the memory is the same.

    share.py CASE HEAPSNAP KNOWN_LEAKS LEAK_HOLDER
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

import reference_sources
from snapshot_file import EditedSnapshot
from read_snapshot import CHUNKS, Snapshot, read_chunks

SKIP = 77
HOST = "hostplantedzq"
# Planted in a Python program that runs from a folder of somebody's home.
PLANTED = {
    "user": "userplantedzq", "folder": "folderplantedzq", "argument": "argumentplantedzq", "variable": "environmentplantedzq",
    "data file": "dataplantedzq", "memory file": "memfdplantedzq", "shared memory": "shmplantedzq", "thread": "thrplantedzq",
    "contents": "contentsplantedzq"}
PROGRAM = """
import mmap, os, sys, threading, ctypes
folder, where = sys.argv[1:3]
with open(folder + '/dataplantedzq.db', 'wb') as file:
    file.write(b'x' * 65536)
kept = []
with open(folder + '/dataplantedzq.db', 'r+b') as file:
    kept.append(mmap.mmap(file.fileno(), 0))
bytes(kept[0])
fd = os.memfd_create('memfdplantedzq')
os.ftruncate(fd, 65536)
kept.append(mmap.mmap(fd, 65536))
kept[-1][:] = b'y' * 65536
with open('/dev/shm/shmplantedzq' + where, 'w+b') as file:
    file.write(b'z' * 65536)
    file.flush()
    kept.append(mmap.mmap(file.fileno(), 65536))
bytes(kept[-1])
os.unlink('/dev/shm/shmplantedzq' + where)
kept += [b'contentsplantedzq' * (i % 90 + 1) for i in range(20000)]
end, begun = threading.Event(), threading.Event()
def work():
    ctypes.CDLL(None).prctl(15, b'thrplantedzq', 0, 0, 0)
    kept.append([bytes(i) for i in range(3000)])
    begun.set()
    end.wait()
threading.Thread(target=work).start()
begun.wait()
print('ready', flush=True)
sys.stdin.read()
end.set()
"""
# What names something or somebody, or says where or when: not compared.
OF_THE_PROCESS = {"pid", "tid", "uid", "start_time", "device", "inode", "snapshot_bytes"}


def run(argv, expected=(0,), **how):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False, **how)
    assert done.returncode in expected, (argv, done)
    return done.stdout


def named_host(argv):
    """`argv` where the host is called HOST."""
    return ["unshare", "--uts", "sh", "-c", f'hostname {HOST} && exec "$@"', "sh", *map(str, argv)]


def report(heapsnap, command, snapshot, *options):
    return json.loads(run([heapsnap, command, snapshot, "-j", *options], (0, 1)))


def sums(value, name=""):
    """The numbers of a report in their places; texts and addresses say only that they are there."""
    if isinstance(value, dict):
        return {key: sums(inner, key) for key, inner in value.items() if key not in OF_THE_PROCESS | {"notes"}}
    if isinstance(value, list):
        return [sums(inner, name) for inner in value]
    return "text" if isinstance(value, str) else value


def in_any_order(value):
    """Rows of equal size come by name."""
    if isinstance(value, dict):
        return {key: in_any_order(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted((in_any_order(inner) for inner in value), key=lambda inner: json.dumps(inner, sort_keys=True))
    return value


def check_sums(heapsnap, before, after, commands):
    for command, *options in commands:
        was = in_any_order(sums(report(heapsnap, command, before, *options)))
        now = in_any_order(sums(report(heapsnap, command, after, *options)))
        different = [key for key in was.keys() | now.keys() if was.get(key) != now.get(key)]
        assert not different, (command, options, different, {key: (was.get(key), now.get(key)) for key in different[:2]})
        print(f"{command} {' '.join(options)}: the same, {len(json.dumps(was))} bytes of sums")


def decoded(path):
    """All bytes of the file: as they are stored, and each column of each section decompressed."""
    data = pathlib.Path(path).read_bytes()
    parts = [data]
    for section in EditedSnapshot(data).sections:
        parts += [column.data for column in section.columns]
    return parts


def check_absent(path, secrets):
    parts = [part.lower() for part in decoded(path)]
    for what, secret in secrets.items():
        for form in (secret.encode(), secret.encode("utf-16-le")):
            assert not any(form.lower() in part for part in parts), (what, secret)


def check_present(path, secrets):
    """That the search can find them."""
    parts = [part.lower() for part in decoded(path)]
    for what, secret in secrets.items():
        assert any(secret.encode().lower() in part for part in parts), (what, secret)


# Columns of tables that hold addresses; the others of that type hold offsets and numbers.
ADDRESSES = {"mappings": ("begin", "end"), "arenas": ("address", "top"), "segments": ("begin", "end"),
             "malloc_instances": ("main_arena", "malloc_par"), "thread_caches": ("tcache",), "corruptions": ("where",),
             "threads": ("instruction_pointer", "stack_pointer", "thread_pointer"), "tracker": ("directory",),
             "tracker_modules": ("begin", "end", "bias"), "tracker_memory": ("begin", "end"),
             "mmapped_chunks": ("mapping_begin", "chunk"), "stack_nodes": ("return_address",),
             "code_frames": ("return_address",), "root_places": ("begin",)}


# A program that is not position-independent, and its heap, are below it. Such an address is eight bytes of which most
# are zeros, as flags and counts side by side are, too; it is looked for in the columns of addresses only.
LEAST_TELLING = 1 << 32


def addresses_of(snapshot):
    for table, columns in ADDRESSES.items():
        for row in snapshot.tables.get(table, []):
            yield from (row[column] for column in columns)
    for section in snapshot.sections(CHUNKS):
        yield next(read_chunks(section))[0]
    yield from (begin for begin, _, _ in snapshot.pages())
    yield from (row["begin"] for row in snapshot.index)


def check_addresses(before, after):
    """No address of the process is in it, in no form that a text or a word has."""
    old = Snapshot(pathlib.Path(before).read_bytes())
    ranges = [(row["begin"], row["end"]) for row in old.tables["mappings"]]
    new = Snapshot(pathlib.Path(after).read_bytes())
    # Where a program's own heap begins may by chance be where the new addresses are.
    met = [address for address in addresses_of(new)
           if any(begin <= address < end for begin, end in ranges if begin >= LEAST_TELLING)]
    assert not met, [hex(address) for address in met[:5]]
    moved = [(begin, row["begin"]) for (begin, _), row in zip(ranges, new.tables["mappings"], strict=True)]
    assert all(was != now for was, now in moved), moved
    assert any(begin <= address < end for address in addresses_of(old) for begin, end in ranges)
    parts = decoded(after)
    telling = [begin for begin, _ in ranges if begin >= LEAST_TELLING]
    assert telling
    for begin in telling:
        forms = (begin.to_bytes(8, "little"), f"{begin:x}".encode(), str(begin).encode())
        assert not any(form in part for form in forms for part in parts), hex(begin)


class Planted:
    """A process in which names are planted, tracked, and a snapshot of it with all that may be asked for."""

    def __init__(self, heapsnap, folder):
        self.home = pathlib.Path(folder) / PLANTED["user"] / PLANTED["folder"]
        self.home.mkdir(parents=True)
        self.program = self.home / "tradebook"
        shutil.copy(os.path.realpath(sys.executable), self.program)
        self.process = subprocess.Popen(
            [heapsnap, "run", "--", self.program, "-c", PROGRAM, self.home, str(os.getpid()), "--token", PLANTED["argument"]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.home,
            env={**os.environ, "PASSWORD": PLANTED["variable"], "PYTHONMALLOC": "malloc", "PYTHONHOME": sys.base_prefix})
        assert self.process.stdout.readline() == "ready\n", self.process.wait()
        pid = self.process.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        self.pid = int(children[0])
        self.snapshot = self.home / "before.hsnap"
        run(named_host([heapsnap, "attach", self.pid, "-q", "--references", "yes", "--contents", "--with-arguments",
                        "-o", self.snapshot]))

    def end(self):
        self.process.communicate("")


@contextlib.contextmanager
def planted(heapsnap, folder):
    if os.geteuid() != 0:
        print("the test needs root, to name a host")
        sys.exit(SKIP)
    target = Planted(heapsnap, folder)
    try:
        yield target
    finally:
        target.end()


def secrets(heapsnap, folder, *_):
    """What was planted is not in the file, by any name, and no address of the process is."""
    with planted(heapsnap, folder) as target:
        check_present(target.snapshot, {**PLANTED, "host": HOST})
        for options in ([], ["--no-names"]):
            after = pathlib.Path(folder) / "after.hsnap"
            said = run([heapsnap, "share", target.snapshot, "-f", "-o", after, *options])
            check_absent(after, {**PLANTED, "host": HOST, "scratch folder": pathlib.Path(folder).name,
                                 "boot": pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()})
            check_addresses(target.snapshot, after)
            assert stat.S_IMODE(after.stat().st_mode) == 0o600, after.stat()
            head = report(heapsnap, "report", after)
            assert head["pid"] == 1, head["pid"]
            for word in ("kept", "cut", "arguments", "contents of memory", "host", "rebased"):
                assert word in said, said
            text = run([heapsnap, "report", after]) + run([heapsnap, "stacks", after]) + run([heapsnap, "owners", after])
            assert ("tradebook" in text) == (not options), text
            if options:
                check_absent(after, {"program": "tradebook", "function": "_PyEval_EvalFrameDefault", "library": "libc.so",
                                     "build id": report(heapsnap, "report", target.snapshot)["mallocs"][0]["build_id"]})
            else:
                check_present(after, {"program": "tradebook", "function": "_PyEval_EvalFrameDefault", "library": "libc.so"})


def same_sums(heapsnap, folder, known_leaks, leak_holder):
    """report, owners, leaks, types and stacks add up to the same; of a tracked program, and of one with leaks."""
    after = pathlib.Path(folder) / "after.hsnap"
    with planted(heapsnap, folder) as target:
        run([heapsnap, "share", target.snapshot, "-o", after])
        check_sums(heapsnap, target.snapshot, after,
                   [("report",), ("owners",), ("leaks",), ("types",), ("stacks", "--limit", "300"), ("stacks", "--by", "function"),
                    ("stacks", "--by", "module"), ("stacks", "--by", "thread")])
    with subprocess.Popen([known_leaks, leak_holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        said = reference_sources.said_blocks(process.stdout)
        before = reference_sources.take_snapshot(heapsnap, process.pid, folder)
        process.stdin.close()
    assert said
    commands = [("report",), ("owners",), ("leaks",), ("types",)]
    for options in ([], ["--no-names"]):
        run([heapsnap, "share", before, "-f", "-o", after, *options])
        check_sums(heapsnap, before, after, commands)
    assert report(heapsnap, "leaks", after)["leaked_bytes"] > 0
    # The reader's machine has another process with the number that stands for the PID.
    screens = "".join(run([heapsnap, command, after], (0, 1)) for command in ("report", "owners", "leaks", "types"))
    screens += run([heapsnap, "diff", after, after])
    assert not re.search(r"heapsnap .* \d+( |$)", screens, re.M), screens
    assert re.search(r"    heapsnap .* PID$", screens, re.M), screens
    check_addresses(before, after)


def refused(heapsnap, folder, *_):
    """What cannot be done is said, and nothing is left behind."""
    folder = pathlib.Path(folder)
    source = folder / "a.hsnap"
    run([heapsnap, "attach", os.getpid(), "-q", "-o", source])
    done = subprocess.run([heapsnap, "share", source], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "-o FILE" in done.stderr, done
    (folder / "b.hsnap").write_text("mine", encoding="ascii")
    done = subprocess.run([heapsnap, "share", source, "-o", folder / "b.hsnap"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "exists" in done.stderr, done
    assert (folder / "b.hsnap").read_text(encoding="ascii") == "mine"
    source.write_bytes(source.read_bytes()[:-100])
    done = subprocess.run([heapsnap, "share", source, "-o", folder / "c.hsnap"], capture_output=True, text=True, check=False)
    assert done.returncode == 6, done
    assert {path.name for path in folder.iterdir()} == {"a.hsnap", "b.hsnap"}
    # To a pipe: the file and nothing else.
    run([heapsnap, "attach", os.getpid(), "-q", "-f", "-o", source])
    piped = subprocess.run([heapsnap, "share", source, "-o", "-"], capture_output=True, check=True).stdout
    run([heapsnap, "share", source, "-o", folder / "d.hsnap"])
    assert piped == (folder / "d.hsnap").read_bytes() and re.match(rb"HEAPSNAP", piped), piped[:16]


def main():
    case, heapsnap, *programs = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="scratchplantedzq") as folder:
        {"secrets": secrets, "same_sums": same_sums, "refused": refused}[case](heapsnap, folder, *programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
