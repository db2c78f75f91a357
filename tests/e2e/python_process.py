"""A Python process (3.9 or newer) that makes objects of many classes in 4 threads and says what it has:
python_process.py COUNT

Lines on stdout: one literal of Python with what gc.get_objects(), sys.getsizeof() and sys._debugmallocstats() (on
stderr) say. Then it makes 1,000 orders more for each line of stdin, up to its end. Nothing of it is in the objects
that it counts but what it says is."""

import array
import collections
import gc
import sys
import threading


class Order:
    def __init__(self, number):
        self.number = number * 1000003
        self.name = f"order {number}"
        self.lines = [number] * (number % 40)


class Slotted:
    __slots__ = ("first", "second")

    def __init__(self, number):
        self.first = number * 1000003
        self.second = (number, str(number))


class Derived(Order):
    def __init__(self, number):
        super().__init__(number)
        self.extra = {number}


class Table(dict):
    pass


class Row(list):
    pass


class Pair(tuple):
    pass


class Name(str):
    pass


class Numbers(set):
    pass


class Buffer(bytearray):
    pass


class Whole(int):
    pass


class Samples(array.array):
    pass


class Queue(collections.deque):
    pass


class Ordered(collections.OrderedDict):
    pass


# Of the same name as the first one, in another module.
Elsewhere = type("Order", (), {"__init__": Order.__init__, "__module__": "depot.models"})

KEPT = []
CLASSES = [Order, Elsewhere, Slotted, Derived, Table, Row, Pair, Name, Numbers, Buffer, Whole, Samples, Queue, Ordered]
MADE = len(CLASSES)
CLASSES += [type(f"Made{number}", (), {"__init__": Order.__init__}) for number in range(50)]


def make(count):
    mine = []
    for number in range(count):
        mine += [Order(number), Elsewhere(number), Slotted(number), Table((key, key) for key in range(number % 90)),
                 Row(range(number % 200)), Pair(range(number % 70)), Numbers(range(number % 50)),
                 CLASSES[MADE + number % 50](number)]
        if number % 3 == 0:
            mine += [Derived(number), Name("ä" * (number % 900)), Buffer(number % 1000), Whole(1 << number % 200),
                     Samples("d", range(number % 300)), Queue(range(number % 500)),
                     Ordered((key, key) for key in range(number % 90))]
        if number % 7 == 0:
            mine.pop(len(mine) // 2)
            mine.append({})
            mine.append((number,) * (number % 100))
    KEPT.append(mine)


def full_name(kind):
    return kind.__qualname__ if kind.__module__ == "__main__" else f"{kind.__module__}.{kind.__qualname__}"


def main():
    threads = [threading.Thread(target=make, args=(int(sys.argv[1]),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    gc.freeze()
    gc.unfreeze()
    gc.disable()
    counts = {full_name(kind): [0, 0] for kind in CLASSES}
    for mine in KEPT:
        for one in mine:
            said = counts.get(full_name(type(one)))
            if said is not None:
                said[0] += 1
                said[1] += sys.getsizeof(one)
    tracked = collections.Counter(type(one).__name__ for one in gc.get_objects())
    print({"counts": counts, "tracked": dict(tracked), "version": sys.version.split()[0]})
    sys._debugmallocstats()
    sys.stderr.flush()
    print("ready", flush=True)
    for line in sys.stdin:
        KEPT.append([Order(number) for number in range(1000)])
        print(line, end="", flush=True)


main()
