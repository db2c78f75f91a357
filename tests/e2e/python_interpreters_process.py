"""Objects in several interpreters of one process: two have arenas of their own, one has the main one's. What each of them
says of itself goes to standard output, a row of counts, and standard error, statistics of its allocator. The last one goes
on, in a function."""

import sys

try:
    import _interpreters as interpreters
    LEGACY, ISOLATED = {"config": "legacy"}, {"config": "isolated"}
except ImportError:
    import _xxsubinterpreters as interpreters
    LEGACY, ISOLATED = {"isolated": False}, {"isolated": True}

COUNT = int(sys.argv[1])
MAKE = """
import gc, os, sys
class Order{number}:
    __slots__ = ("number", "next")
    def __init__(self, number):
        self.number = number + 1000000
ORDERS = [Order{number}(i) for i in range({count})]
gc.collect()
def tell():
    gc.collect()
    os.write(1, ("Order{number} %d %d\\n" % (len(ORDERS), len(gc.get_objects()))).encode())
    os.write(2, b"== {number}\\n")
    sys._debugmallocstats()
"""
WAIT = """
def serve():
    cache = ["order %d" % i for i in range({count})]
    tell()
    os.write(1, b"ready %d\\n" % id(cache))
    sys.stdin.read()
serve()
"""

made = []
for number, how in enumerate((LEGACY, ISOLATED, ISOLATED), 1):
    made.append(interpreters.create(**how))
    interpreters.run_string(made[-1], MAKE.format(number=number, count=COUNT + number))
exec(MAKE.format(number=0, count=COUNT))
interpreters.run_string(made[0], "tell()")
interpreters.run_string(made[1], "tell()")
tell()
interpreters.run_string(made[2], WAIT.format(count=COUNT))
