#!/usr/bin/env python3
"""Who keeps the memory of a Python program that has made and dropped much before:

    python_owners.py HEAPSNAP [VERSION]
    python_owners.py HEAPSNAP SUITE ROOTS    of another Debian suite, in a root folder that ROOTS keeps

What it keeps lies in objects that came from the interpreter's lists of free ones, where their addresses are still, and the
next thing that is made there would seem to hold it. owners names what holds it, a global or a local variable of a call, and
no step to it may be stale: of the process, a snapshot, and, where there is gcore, a core."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from python_heap import find_python

COUNT = 30_000
LARGE_LOST = 50
BEGIN = """
import sys

def churn():
    dicts = [{i: str(i), "x": [i]} for i in range(5000)]
    lists = [[i] * 5 for i in range(5000)]
    tuples = [(i,) * (i % 19 + 1) for i in range(5000)]
    def deep(n):
        words = list(range(20))
        return deep(n - 1) if n else words
    deep(100)

taken = []
def take(count):
    # From the lists of free objects.
    taken.extend([{"a": i}, [i], (i, i)] for i in range(count))
"""
END = """
print(wanted(), flush=True)
sys.stdin.read()
"""
# What holds it, what the first row is called, and types on the way.
PROGRAMS = {
    "an attribute of a class": ("__main__.Store.cache", ("dict", "dict keys"), f"""
class Store:
    pass
class Branch(Store):
    pass
store, branch = Store(), Branch()  # that they lead to their class does not make it theirs
churn(); take(40)
Store.cache = {{}}
take(60)
for i in range({COUNT}):
    Store.cache["key %d" % i] = [i + 1000000]
def wanted():
    return id(Store.cache["key 700"])
{END}
"""),
    "a cell of a closure": ("__main__.get", ("function", "tuple", "cell", "dict", "dict keys"), f"""
def make():
    cache = {{}}
    def get(key):
        if key not in cache:
            cache[key] = ["value %d" % key]
        return cache[key]
    return get
churn(); take(40)
get = make()
take(60)
for i in range({COUNT}):
    get(i + 1000)
def wanted():
    return id(get(1700))
{END}
"""),
    "a list of instances": ("__main__.orders", ("list", "list items"), f"""
class Order:
    def __init__(self, number):
        self.number = number + 1000000
        self.lines = [number + 2000000]
churn(); take(40)
orders = []
take(60)
orders.extend(Order(i) for i in range({COUNT}))
def wanted():
    return id(orders[700].lines)
{END}
"""),
    "a set": ("__main__.seen", ("set", "set table"), f"""
churn(); take(40)
seen = set()
take(60)
seen.update((i, "number %d" % i) for i in range({COUNT}))
def wanted():
    return id(next(iter(seen)))
{END}
"""),
}


# What a call holds while it waits: the root, without the line, which is the one marked "# here", and types on the way. It
# is of the thread that was made last.
HOLD = """
import threading
def hold(wanted):
    print(id(wanted), flush=True)
    sys.stdin.read()
churn(); take(40)
"""
LOCALS = {
    "a local variable that is passed on": ("cache in main()", ("dict", "dict keys"), f"""
def serve(store, key):
    same = store
    hold(store[key])
def main():
    cache = {{}}
    for i in range({COUNT}):
        cache["key %d" % i] = [i + 1000000]
    serve(cache, "key 700")  # here
main()
"""),
    "a local variable of a thread": ("jobs in work()", ("list", "list items"), f"""
def work():
    jobs = [["job %d" % i] for i in range({COUNT})]
    hold(jobs[700])  # here
worker = threading.Thread(target=work, name="worker")
worker.start()
worker.join()
"""),
    "a variable that a closure shares": ("shared in main()", ("cell", "list", "list items"), f"""
def main():
    shared = [["number %d" % i] for i in range({COUNT})]
    def count():
        return len(shared)
    def begin():
        hold(shared[700])
    begin()  # here
main()
"""),
    "a generator that does not run": ("numbers in main()", ("generator", "list", "list items"), f"""
def generate():
    own = [["number %d" % i] for i in range({COUNT})]
    while True:
        yield own[700]
def main():
    numbers = generate()
    hold(next(numbers))  # here
worker = threading.Thread(target=main, name="worker")
worker.start()
worker.join()
"""),
    "a coroutine that waits": ("jobs in serve()", ("list", "list items"), f"""
import asyncio
async def serve():
    jobs = [["job %d" % i] for i in range({2 * COUNT})]
    done = asyncio.Event()
    def look(job):
        hold(job)
        done.set()
    asyncio.get_running_loop().call_soon(look, jobs[700])
    await done.wait()  # here
async def main():
    await serve()
asyncio.run(main())
"""),
    "a generator that runs": ("own in generate()", ("list", "list items"), f"""
def generate():
    own = [["number %d" % i] for i in range({COUNT})]
    hold(own[700])  # here
    yield 1
def main():
    for number in generate():
        pass
main()
"""),
    "a list that a loop goes through": ("a temporary in main()", ("list", "list items"), f"""
def main():
    for order in [["order %d" % i] for i in range({COUNT})]:
        hold(order)  # here
main()
"""),
    "a list that is an argument": ("orders in serve()", ("list", "list items"), f"""
def serve(orders):
    hold(orders[700])  # here
def main():
    serve([["order %d" % i] for i in range({COUNT})])
main()
"""),
    "a list that is an argument of C": ("perhaps a temporary in main()", ("list", "list items"), f"""
def main():
    for order in map(hold, [["order %d" % i] for i in range({COUNT})]):  # here
        pass
main()
"""),
    "a local variable that is a global, too": ("__main__.CACHE", ("list", "list items"), f"""
CACHE = [["order %d" % i] for i in range({COUNT})]
def main():
    cache = CACHE
    hold(cache[700])  # here
main()
"""),
}


def run(heapsnap, *words, codes=(0,)):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode in codes, (words, done.stdout, done.stderr)
    return done.stdout


def check(heapsnap, what, root, types, wanted):
    printed = json.loads(run(heapsnap, "owners", what, "-j", "--depth", "8"))
    first = printed["owners"][0]
    assert first["root"] == root, [(node["root"], node["kind"], node["retained_bytes"], node["holds"][:1])
                                   for node in printed["owners"][:4]]
    # A list, what is in it, and what leads to it, at least.
    assert first["retained_bytes"] > COUNT * 100, first
    text = json.dumps(first)
    for name in types:
        assert f'"{name}"' in text, (name, text[:3000])
    # A frame of C may hold it as well, but the interpreter nothing on the way that it keeps for reuse.
    paths = json.loads(run(heapsnap, "why", hex(wanted), what, "-j", "--limit", "20"))["paths"]
    held = next(path for path in paths if path["root"] == root)
    assert not any(step["may_be_stale"] for step in held["steps"]), held
    shorter = [path for path in paths if len(path["steps"]) < len(held["steps"])]
    assert not any(path["root"] == "_PyRuntime" for path in shorter), paths


def check_program(heapsnap, python, folder, name):
    root, types, text = PROGRAMS[name]
    with subprocess.Popen([*python, "-c", BEGIN + text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          cwd="/") as process:
        wanted = int(process.stdout.readline())
        pid = str(process.pid)
        check(heapsnap, pid, root, types, wanted)
        run(heapsnap, "attach", pid, "--references", "yes", "-o", f"{folder}/a.hsnap")
        check(heapsnap, f"{folder}/a.hsnap", root, types, wanted)
        if shutil.which("gcore"):
            subprocess.run(["gcore", "-o", f"{folder}/core", pid], check=True, capture_output=True)
            check(heapsnap, f"{folder}/core.{pid}", root, types, wanted)
        process.communicate("")
        assert process.returncode == 0, "the process was harmed"
    print(f"{name}: {root}")


def check_local(heapsnap, what, root, kind, types, wanted):
    owners = json.loads(run(heapsnap, "owners", what, "-j", "--depth", "8"))["owners"]
    first = owners[0]
    assert (first["root"], first["kind"]) == (root, kind), [(node["root"], node["kind"], node["retained_bytes"])
                                                            for node in owners[:4]]
    assert first["retained_bytes"] > COUNT * 100, first
    assert all(node["retained_bytes"] < COUNT * 20 for node in owners[1:] if node["kind"] == "local"), owners[1:4]
    text = json.dumps(first)
    for name in types:
        assert f'"{name}"' in text, (name, text[:3000])
    paths = json.loads(run(heapsnap, "why", hex(wanted), what, "-j", "--limit", "20"))["paths"]
    held = next(path for path in paths if path["root"] == root)
    # Of a value on the stack of a call of C's functions it is not known whether it is there still.
    assert held["steps"][0]["may_be_stale"] == root.startswith("perhaps "), held
    assert not any(step["may_be_stale"] for step in held["steps"][1:]), held
    if kind == "local":
        assert root in run(heapsnap, "owners", what, "--width", "120"), first
        return first["tid"], held["tid"]
    return None


def has_core(folder, pid):
    """Makes one, if there is gcore and it can. Where a thread's stack begins with a guard page that is no mapping of its
    own (glibc 2.42), gdb leaves out the stack."""
    if not shutil.which("gcore"):
        return False
    said = subprocess.run(["gcore", "-o", f"{folder}/core", pid], check=True, capture_output=True, text=True).stderr
    return "Memory read failed" not in said


def check_locals(heapsnap, python, folder, name):
    root, types, text = LOCALS[name]
    program = BEGIN + HOLD + text
    line = next(number for number, row in enumerate(program.splitlines(), 1) if "# here" in row)
    kind = "global" if root.startswith("__main__.") else "local"
    with subprocess.Popen([*python, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          cwd="/") as process:
        wanted = int(process.stdout.readline())
        pid = str(process.pid)
        tasks = sorted(int(task.name) for task in pathlib.Path(f"/proc/{pid}/task").iterdir())
        # Before 3.11 no frame that runs says how deep its stack is.
        version = run(heapsnap, "objects", pid, "-j")
        minor = int(json.loads(version)["runtimes"][0]["version"].split(".")[1])
        if root.startswith("a temporary") and minor < 11:
            root = f"perhaps {root}"
        # Since 3.14 one that calls C says it, too.
        if root.startswith("perhaps ") and minor >= 14:
            root = root.removeprefix("perhaps ")
        if kind == "local":
            root += f" at <string>:{line}"
        tids = (tasks[-1], tasks[-1]) if kind == "local" else None
        assert check_local(heapsnap, pid, root, kind, types, wanted) == tids, (tids, tasks)
        run(heapsnap, "attach", pid, "--references", "yes", "-o", f"{folder}/a.hsnap")
        assert check_local(heapsnap, f"{folder}/a.hsnap", root, kind, types, wanted) == tids
        if has_core(folder, pid):
            assert check_local(heapsnap, f"{folder}/core.{pid}", root, kind, types, wanted) == tids
        process.communicate("")
        assert process.returncode == 0, "the process was harmed"
    print(f"{name}: {root}")


# Objects whose fields their sizes do not tell, and names that only the cache of attributes keeps: after a collection
# no object is garbage.
KEPT = """
import collections, csv, decimal, functools, gc, hashlib, io, re, sys, time, xml.etree.ElementTree
times = [time.localtime(i * 86400) for i in range(2000)]
trees = [xml.etree.ElementTree.fromstring("<a><b c='1'/></a>") for _ in range(500)]
patterns = [re.compile("a%d" % i) for i in range(200)]
numbers = [decimal.Decimal(i) / 7 for i in range(500)]
queues = [collections.deque(range(i)) for i in range(100)]
ordered = collections.OrderedDict((i, str(i)) for i in range(500))
calls = [functools.partial(print, [i]) for i in range(100)]
hashes = [hashlib.sha256(b"a") for _ in range(100)]
writers = [csv.writer(io.StringIO()) for _ in range(100)]
for i in range(500):
    getattr(sys, "name_%d" % i, None)
gc.collect()
print(0, flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def leaks_of(heapsnap, python, code, **variables):
    """The pid of a process that has run this and waits, and what `leaks` says of it."""
    with subprocess.Popen([*python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          cwd="/", env=dict(os.environ, **variables)) as process:
        process.stdout.readline()
        yield str(process.pid), json.loads(run(heapsnap, "leaks", str(process.pid), "-j"))
        process.communicate("")


def check_nothing_is_garbage(heapsnap, python):
    with leaks_of(heapsnap, python, KEPT) as (_, leaks):
        print({key: leaks[key] for key in ("leaked_blocks", "garbage_blocks")})
        assert leaks["garbage_blocks"] == 0, leaks


# Cycles that nothing leads to, the newest objects, and what only a cache of the interpreter's or unused memory
# of a buffer leads to as well.
NEWEST = f"""
import collections, contextvars, gc, sys
class Doc: pass
request = contextvars.ContextVar("request")
def handle():
    request.set([Doc() for _ in range({COUNT})])
    request.get()
contextvars.Context().run(handle)
CACHE = [[Doc() for _ in range(10)] for _ in range({COUNT} // 10)]
numbers = bytearray(b"".join(id(one).to_bytes(8, "little") for one in CACHE))
grown = [{{str(j): j for j in range(5)}} for i in range(12)]
MORE = [Doc() for _ in range({2 * COUNT})]  # where nothing was before, nothing has the addresses of what comes next
gc.collect()
gc.disable()
small = [{{str(i): i}} for i in range(200)]  # takes all free tables that there are
for one in grown:
    one.update((str(j), j) for j in range(20))  # the table that it had is among the free ones, as it was
def lose():
    # The last ones may be on the stacks of C functions still.
    for _ in range(16):
        lost = Doc()
        lost.own, lost.data = lost, bytearray(1 << 20)
def lose_locals():
    a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p = [Doc() for _ in range(16)]
    for lost in (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p):
        lost.own, lost.data = lost, bytearray(1 << 20)
if sys.version_info < (3, 10):
    lose()
else:
    lose_locals()  # their words are left in the memory of frames
print(0, flush=True)
sys.stdin.read()
"""


def check_newest(heapsnap, python):
    with leaks_of(heapsnap, python, NEWEST) as (pid, leaks):
        assert 12 << 20 < leaks["garbage_bytes"] < 17 << 20, leaks
        owners = json.loads(run(heapsnap, "owners", pid, "-j"))["owners"]
        kept = {node["root"]: node["retained_blocks"] for node in owners}
        assert kept["__main__.CACHE"] > COUNT, owners[:3]
        assert kept["__main__.MORE"] > 2 * COUNT, owners[:3]


# An object leads to the weak references to it, which are not its own.
WEAK = """
import gc, sys, weakref
class Slotted: __slots__ = ("__weakref__",)
class Plain: pass
class Text(str): pass
class Reference(weakref.ref): __slots__ = ("data",)
def refer(to):
    references = [Reference(one) for one in to]
    for one in references:
        one.data = bytes(2000)
    return references
SLOTTED, PLAIN, TEXTS = [[of() for _ in range(1000)] for of in (Slotted, Plain, Text)]
OF_SLOTTED, OF_PLAIN, OF_TEXTS = refer(SLOTTED), refer(PLAIN), refer(TEXTS)
gc.collect()
print(0, flush=True)
sys.stdin.read()
"""


def check_weak(heapsnap, python):
    with leaks_of(heapsnap, python, WEAK) as (pid, _):
        owners = json.loads(run(heapsnap, "owners", pid, "-j", "--limit", "0"))["owners"]
        kept = {node["root"]: node["retained_bytes"] for node in owners}
        of_objects = {name: kept[f"__main__.{name}"] for name in ("SLOTTED", "PLAIN", "TEXTS")}
        of_references = {name: kept[f"__main__.OF_{name}"] for name in of_objects}
        print("weak references:", of_objects, of_references)
        assert all(size > 1000 * 2000 for size in of_references.values()), of_references
        assert all(size < 1000 * 1000 for size in of_objects.values()), of_objects


# Cycles whose objects lie in blocks of malloc: large ones, or all of them (PYTHONMALLOC=malloc).
LARGE = f"""
import gc, sys, threading
Large = type("Large", (), {{"__slots__": ["slot_%d" % i for i in range(100)]}})
class Ring:
    __slots__ = ("own", "items", "data")
def make(count):
    made = []
    for _ in range(count):
        large, ring = Large(), Ring()
        large.slot_7 = large
        ring.own, ring.items, ring.data = ring, [None] * 100, bytearray(2000)
        made += [large, ring]
    return made
kept = make(2000)  # where nothing was before, nothing has the addresses of what comes next
gc.collect()
gc.disable()
# So large a stack of a thread is given back when the thread ends, and with it what is left over there.
threading.stack_size(64 << 20)
thread = threading.Thread(target=make, args=({LARGE_LOST},))
thread.start()
thread.join()
print(0, flush=True)
sys.stdin.read()
"""


def check_large(heapsnap, python):
    for allocator in ("pymalloc", "malloc"):
        with leaks_of(heapsnap, python, LARGE, PYTHONMALLOC=allocator) as (pid, leaks):
            found = {key: leaks[key] for key in ("leaked_blocks", "garbage_blocks")}
            print(f"cycles of large objects, {allocator}: {found}")
            # The large one; the small one, a list, its items, a bytearray, and its bytes.
            assert found == {"leaked_blocks": 0, "garbage_blocks": LARGE_LOST * 6}, leaks
            owners = json.loads(run(heapsnap, "owners", pid, "-j"))
            assert {key: owners[key] for key in found} == found, found


# A table on both sides of a multiple of 4 GiB: a word seems to lead there when a small number was written over the lower
# half of an address, as of a function's version.
BETWEEN = """
import ctypes
LARGE = 1 << 32
mmap = ctypes.CDLL(None).mmap
mmap.restype = ctypes.c_void_p
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

def is_between(numbers):
    # PySetObject: mask, table
    mask, table = (ctypes.c_size_t.from_address(id(numbers) + offset).value for offset in (32, 40))
    return table < border < table + mask * 16

numbers = list(range(1000000, 1030000))  # the arenas before that
# All between the border and what is mapped: without access, no backing, and where it is (MAP_FIXED_NOREPLACE).
libc = next(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if "libc.so" in line or "libc-" in line)
border = libc // LARGE * LARGE
begins = [int(line.split("-")[0], 16) for line in open("/proc/self/maps")]
lowest = min(begin for begin in begins if begin > border)
assert mmap(border + (1 << 20), lowest - border - (1 << 20), 0, 0x104022, -1, 0) == border + (1 << 20)
seen = set(numbers)
del numbers
print(int(is_between(seen)), flush=True)
sys.stdin.read()
"""


def check_between(heapsnap, python):
    for _ in range(8):  # as its memory happens to lie, there may be no room for that
        with subprocess.Popen([*python, "-c", "import sys\n" + BETWEEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL, cwd="/") as process:
            if process.stdout.readline() != "1\n":
                process.communicate("")
                continue
            owners = json.loads(run(heapsnap, "owners", str(process.pid), "-j", "--limit", "0"))["owners"]
            process.communicate("")
            kept = {node["root"]: node["retained_bytes"] for node in owners}
            print("on both sides of a multiple of 4 GiB:", kept.get("__main__.seen"))
            assert kept.get("__main__.seen", 0) > COUNT * 60, [(node["root"], node["retained_bytes"]) for node in owners[:4]]
            return
    raise AssertionError("no table lies on both sides of a multiple of 4 GiB")


def main():
    heapsnap = sys.argv[1]
    python = find_python(sys.argv[2:])
    check_nothing_is_garbage(heapsnap, python)
    check_newest(heapsnap, python)
    check_weak(heapsnap, python)
    check_large(heapsnap, python)
    # A root folder has no /proc.
    if python[0] != "chroot":
        check_between(heapsnap, python)
    for name in PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            check_program(heapsnap, python, folder, name)
    for name in LOCALS:
        with tempfile.TemporaryDirectory() as folder:
            check_locals(heapsnap, python, folder, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
