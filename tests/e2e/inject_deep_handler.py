#!/usr/bin/env python3
"""inject and eject while a handler far up the stack will return into malloc's first instructions.

    inject_deep_handler.py HEAPSNAP TARGET

The target (tests/targets/deep_handler.c) is in a signal handler that has taken 16 KiB to 1 MiB of stack. As
long as it is, malloc's entry must not be changed: heapsnap says so and gives up. Let go, the handler
returns, and the target ends as it would have.
"""

import concurrent.futures
import subprocess
import sys

DEPTHS = (16 << 10, 1 << 20)
PATIENCE = 60


def run(heapsnap, target, depth):
    with subprocess.Popen([target, str(depth)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout.readline() != "inside\n":
                return "the target was not caught in malloc"
            pid = str(process.pid)
            injected = subprocess.run([heapsnap, "inject", pid], capture_output=True, text=True, timeout=PATIENCE,
                                      check=False)
            said = process.communicate("\n", timeout=PATIENCE)[0]
        finally:
            process.kill()
    if process.returncode != 0 or said != "fine\n":
        return f"the target ended with {process.returncode} and said {said!r}"
    if injected.returncode != 5 or "always inside the instructions" not in injected.stderr:
        return f"inject ended with {injected.returncode} and said {injected.stdout + injected.stderr!r}"
    return None


def main():
    heapsnap, target = sys.argv[1:]
    failures = 0
    # heapsnap waits for the handler to return until it gives up.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for depth, why in zip(DEPTHS, pool.map(lambda depth: run(heapsnap, target, depth), DEPTHS)):
            if why:
                print(f"a handler {depth} bytes deep: {why}")
                failures += 1
    print(f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
