"""A service of Python with a leak through a list of a module, as a target: says what it consists of.

    python_graph_process.py COUNT

First line: a dict of addresses and sizes; then `ready`. For each object that it names, what it refers to by gc's own word."""

import array
import collections
import gc
import sys
import types
import weakref

app = types.ModuleType("app")
sys.modules["app"] = app


class Order:
    def __init__(self, number):
        self.number = number + 100000
        self.note = f"order {number} \u00e9"
        self.lines = [number + 200000, (number + 300000,)]


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left, right):
        self.left = left
        self.right = right


app.CACHE = []
app.INDEX = {}
app.SEEN = set()
app.PAIRS = ()
app.TABLE = bytearray(b"x" * 100000)
app.QUEUE = collections.deque()
app.ORDER = collections.OrderedDict()


def fill(count):
    for number in range(count):
        app.CACHE.append(Order(number))
    app.INDEX.update({f"key {number}": [number] for number in range(200)})
    app.SEEN.update(f"seen {number}" for number in range(200))
    app.QUEUE.extend([number] for number in range(300))
    app.ORDER.update((f"name {number}", [number]) for number in range(10))
    # Numbers, though they look like addresses.
    app.NUMBERS = array.array("Q", [id(one) for one in app.QUEUE])
    app.PAIRS = tuple(Slotted([number], {number: "x"}) for number in range(100))


def watch():
    watched = Order(7)
    app.WATCH = weakref.ref(watched)
    return watched


def cycle():
    """Garbage that only the collector sees."""
    for _ in range(50):
        one = []
        one.append([one])


def in_function():
    local_only = [Order(i) for i in range(3)]
    return local_only


gc.disable()
fill(int(sys.argv[1]))
held = watch()
keep = in_function()
cycle()


# Values of attributes that lie in the instance itself, since 3.13: a dict of them leads to that. Since 3.14 the collector
# says that it leads to the values.
embedded = {id(vars(order)): order for order in keep} if sys.version_info >= (3, 14) else {}


def references(one):
    if id(one) in embedded:
        return [id(embedded[id(one)])]
    return sorted({id(other) for other in gc.get_referents(one)})


named = {"CACHE": app.CACHE, "INDEX": app.INDEX, "SEEN": app.SEEN, "PAIRS": app.PAIRS, "keep": keep}
some = [*app.CACHE[:50], *[order.lines for order in app.CACHE[:50]], *app.PAIRS, *[pair.right for pair in app.PAIRS],
        app.CACHE, app.INDEX, app.SEEN, app.PAIRS, app.QUEUE, app.ORDER, app.NUMBERS, *app.INDEX.values(), *[vars(order) for order in keep]]
said = {
    "named": {name: id(one) for name, one in named.items()},
    "references": {id(one): references(one) for one in some},
    "order": id(app.CACHE[3]), "watched": id(held), "watch": id(app.WATCH),
    "orders": len(app.CACHE),
}
print(said)
# What says it holds nothing any more, nor numbers that look like addresses.
del said, some, named, embedded
print({id(one) for one in gc.get_objects()})
print("ready", flush=True)
sys.stdin.readline()
print(gc.collect(), flush=True)
sys.stdin.read()
