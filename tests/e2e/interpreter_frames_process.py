"""Allocates blocks in functions of all kinds, and says of each which calls Python itself sees: a line of JSON per block.

Each line of its standard input names the function to call."""

import json
import os
import re
import signal
import sys
import threading

try:
    import ctypes
except ImportError:  # python3-minimal
    ctypes = None

kept = []
children = []
lock = threading.Lock()
next_size = [20_001]


def big():
    with lock:
        size = next_size[0]
        next_size[0] += 101
    stack = []
    frame = sys._getframe()
    while frame:
        stack.append([frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno])
        frame = frame.f_back
    # The block is allocated one line further down than the innermost frame was looked at.
    line = sys._getframe().f_lineno + 1
    kept.append(bytes(size))
    stack[0][2] = line
    say({"size": size, "stack": stack})


def say(what):
    with lock:
        print(json.dumps(what), flush=True)


def generate(count):
    for i in range(count):
        big()
        yield i


def delegate():
    yield from generate(1)
    big()


def key(number):
    big()
    return -number


class Shop:
    def __init__(self):
        self.name = "shop"

    def handle(self):
        list(generate(2))
        list(delegate())
        sorted([1], key=key)
        re.sub("a", self.replace, "ba")

    def replace(self, _match):
        big()
        return "x"

    @property
    def price(self):
        big()
        return 3

    def __del__(self):
        big()


def deep(levels):
    if levels == 0:
        return big()
    return deep(levels - 1)


def größe_Ω():
    big()


async def answer():
    big()


def run_coroutine():
    try:
        answer().send(None)
    except StopIteration:
        pass


def failing():
    try:
        raise ValueError("x")
    except ValueError:
        big()
    finally:
        big()


def by_qsort():
    if ctypes is None:
        return
    numbers = (ctypes.c_int * 2)(2, 1)
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda _a, _b: big() or 0)
    ctypes.CDLL(None).qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), compare)


def native():
    """Blocks of malloc's own: one is allocated without Python's lock, the other one with it."""
    if ctypes is None:
        return
    for library, size in ((ctypes.CDLL(None), 70_001), (ctypes.PyDLL(None), 71_001)):
        library.malloc.restype = ctypes.c_void_p
        library.malloc.argtypes = [ctypes.c_size_t]
        library.malloc(size)


def several():
    shop = Shop()
    shop.handle()
    shop.price
    del shop
    deep(3)
    größe_Ω()
    run_coroutine()
    failing()
    (lambda: big())()
    [big() for _ in range(1)]
    by_qsort()
    max([1, 2], key=lambda number: number if number == 1 else (big(), number)[1])


def deleted():
    space = {"big": big}
    exec(compile("def gone():\n    pass\n    big()\ngone()\n", "/nowhere/gone.py", "exec"), space)
    space.clear()
    # Other code takes its place.
    for i in range(200):
        exec(compile(f"def other{i}(): return {i}\n", "/nowhere/other.py", "exec"), {})


def replaced():
    """Each function takes the places of the one before it: of its code, its name, its file's name and its lines."""
    for i in range(20):
        empty = "\n" * (i % 5)
        space = {"big": big}
        exec(compile(f"def one{i:02}():{empty}\n    big()\none{i:02}()\n", f"/nowhere/file{i // 2:02}.py", "exec"), space)
        space.clear()


class Sold(Shop):
    def __init__(self, number):
        if number > 97:
            big()

    def __del__(self):
        pass


def made():
    """As often as it takes for Python to have a way of its own for it."""
    for i in range(100):
        Sold(i)


def in_thread():
    several()


def threads():
    all_of_them = [threading.Thread(target=in_thread) for _ in range(3)]
    for one in all_of_them:
        one.start()
    for one in all_of_them:
        one.join()


def main():
    say({"ready": os.getpid()})
    for line in sys.stdin:
        what = line.strip()
        if what == "fork":
            pid = os.fork()
            if pid == 0:
                kept.clear()
                several()
                say({"ready": os.getpid()})
                signal.pause()
            children.append(pid)
            continue
        if what == "wait":
            os.kill(children[-1], signal.SIGKILL)
            os.wait()
        else:
            globals()[what]()
        say({"ready": os.getpid()})


main()
