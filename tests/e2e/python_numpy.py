#!/usr/bin/env python3
"""Arrays of numpy in a Python process, against its own word: python_numpy.py HEAPSNAP

The blocks of malloc that hold their data belong to the arrays: objects counts them as sys.getsizeof does, owners says
which variable keeps them, and what classes retain has them."""

import ast
import json
import subprocess
import sys
import tempfile

from object_graph import ObjectGraph

PYTHON = "/usr/bin/python3"
PROCESS = """
import ctypes, sys, types
import numpy

class Frame(numpy.ndarray):
    __slots__ = ()

app = types.ModuleType("app")
sys.modules["app"] = app
app.FRAMES = [Frame((10 + number, 64), dtype="float64") for number in range(200)]
# Blocks that are used again, which have an address behind what the next arrays take of them.
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
blocks = [libc.malloc(24) for _ in range(50)]
for block in blocks:
    ctypes.c_size_t.from_address(block + 16).value = app.FRAMES[0].ctypes.data
for block in blocks:
    libc.free(block)
app.SMALL = [Frame((3,), dtype="int16") for number in range(50)]
app.OBJECTS = numpy.array([{number} for number in range(5)], dtype=object)
app.SCALARS = {number: Frame((2, 3, 4, 5), dtype="int8", order="F") for number in range(20)}
app.VIEWS = [frame[1:5, ::2] for frame in app.FRAMES[:30]]
app.PLAIN = numpy.zeros((100, 100))
app.EMPTY = [Frame((0, 7)) for number in range(5)]
for frame in app.FRAMES:
    frame[:] = 1.0
every = [*app.FRAMES, *app.SMALL, *app.SCALARS.values(), *app.VIEWS, *app.EMPTY]
said = {
    "count": len(every), "bytes": sum(map(sys.getsizeof, every)), "basic": Frame.__basicsize__,
    "frames": [(id(frame), frame.ctypes.data, frame.nbytes) for frame in app.FRAMES],
    "objects": (app.OBJECTS.ctypes.data, [id(one) for one in app.OBJECTS]),
    "small": [small.ctypes.data for small in app.SMALL],
    "views": [(id(view), id(view.base)) for view in app.VIEWS],
    "plain": (id(app.PLAIN), app.PLAIN.ctypes.data, app.PLAIN.nbytes),
    "nbytes": sum(frame.nbytes for frame in app.FRAMES), "version": numpy.__version__,
}
del every, frame
print(said)
print("ready", flush=True)
sys.stdin.read()
"""


def run(heapsnap, *words):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def check_graph(path, said):
    graph = ObjectGraph(path)
    for array, data, size in [*said["frames"], said["plain"]]:
        block, target = graph.block_of(array), graph.number_at.get(data)
        assert target is not None and graph.blocks[target][1] >= size, (hex(array), hex(data))
        assert target in graph.targets[block] and graph.types[target] == "ndarray data", graph.types.get(target)
    data, objects = said["objects"]
    assert {graph.block_of(one) for one in objects} == set(graph.targets[graph.number_at[data]])
    # Three numbers of two bytes are no reference, nor is what lies behind them.
    assert not any(graph.targets[graph.number_at[data]] for data in said["small"])
    for view, base in said["views"]:
        assert graph.block_of(base) in graph.targets[graph.block_of(view)]


def check_objects(heapsnap, path, said):
    rows = {row["type"]: row for row in json.loads(run(heapsnap, "objects", path, "-j"))["objects"]}
    frame = rows["Frame"]
    assert frame["count"] == said["count"], (frame, said["count"])
    # With the header of the collector, which knows instances of classes of Python.
    assert frame["bytes"] == said["count"] * (said["basic"] + 16), frame
    assert frame["bytes"] + frame["owned_bytes"] == said["bytes"], (frame, said["bytes"])
    assert frame["malloc_bytes"] >= said["nbytes"], frame
    # A word that is left over on a stack may hold the data of one, too.
    assert frame["retained_bytes"] >= said["bytes"] - max(size for _, _, size in said["frames"]), frame
    assert rows["numpy.ndarray"]["owned_bytes"] >= said["plain"][2], rows["numpy.ndarray"]
    print(f"objects: {frame['count']} arrays with {frame['owned_bytes']} bytes of their own, as sys.getsizeof says; "
          f"they retain {frame['retained_bytes']}")


def check_owners(heapsnap, path, said):
    owners = json.loads(run(heapsnap, "owners", path, "-j", "--limit", "0", "--depth", "6"))["owners"]
    by_name = {node.get("root"): node for node in owners}
    frames = by_name["app.FRAMES"]
    # Those that a view refers to belong to both variables, and one may be left over on a stack.
    alone = sorted(size for _, _, size in said["frames"][len(said["views"]):])
    assert frames["retained_bytes"] >= sum(alone[:-1]), (frames, sum(alone))
    text = json.dumps(frames)
    assert '"Frame"' in text and '"ndarray data"' in text, text[:2000]
    # What is left over elsewhere may lead to the data, too; the way by the variable is there all the same.
    for name, kind, data in (("app.FRAMES", "Frame", said["frames"][7][1]), ("app.PLAIN", "numpy.ndarray", said["plain"][1])):
        held = run(heapsnap, "why", hex(data), path, "-j", "--limit", "50")
        assert name in held and kind in held, (name, held[:2000])
    print(f"owners: app.FRAMES keeps {frames['retained_bytes']} bytes")


def main():
    heapsnap = sys.argv[1]
    if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True, check=False).returncode != 0:
        print(f"{PYTHON} has no numpy (python3-numpy)")
        return 77
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [PYTHON, "-c", PROCESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        said = ast.literal_eval(process.stdout.readline())
        assert process.stdout.readline() == "ready\n"
        path = f"{folder}/a.hsnap"
        run(heapsnap, "attach", str(process.pid), "--references", "yes", "-o", path)
        process.communicate("")
        assert process.returncode == 0, "the process was harmed"
        print(f"numpy {said['version']}:")
        check_graph(path, said)
        check_objects(heapsnap, path, said)
        check_owners(heapsnap, path, said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
