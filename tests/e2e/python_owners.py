#!/usr/bin/env python3
"""Who keeps the memory of a Python program that has made and dropped much before:

    python_owners.py HEAPSNAP [VERSION]
    python_owners.py HEAPSNAP SUITE ROOTS    of another Debian suite, in a root folder that ROOTS keeps

What it keeps lies in objects that came from the interpreter's lists of free ones, where their addresses are still, and the
next thing that is made there would seem to hold it. owners names what holds it, a global or a local variable of a call, and
no step to it may be stale: of the process, a snapshot, and, where there is gcore, a core."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from python_garbage import COUNT, check_garbage, leaks_of, run
from python_heap import find_python

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
    check_garbage(heapsnap, python)
    check_weak(heapsnap, python)
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
