"""What no root leads to in a Python program is garbage, and nothing else is: check_garbage(), for each version."""

import contextlib
import json
import os
import subprocess

COUNT = 30_000
LARGE_LOST = 50


def run(heapsnap, *words, codes=(0,)):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode in codes, (words, done.stdout, done.stderr)
    return done.stdout


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


def check_garbage(heapsnap, python):
    check_nothing_is_garbage(heapsnap, python)
    check_newest(heapsnap, python)
    check_large(heapsnap, python)
