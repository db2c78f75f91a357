#!/usr/bin/env python3
"""Programs with other allocators than glibc's: allocators.py CASE HEAPSNAP TRACKER

bound:    under the tracker every program goes on with the allocator that it has without it.
verdicts: doctor, attach, inject, run, stacks and report say the same of each program.
unknown:  a library with a malloc that nobody knows is named, whether it passes its calls on to glibc or not.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from allocator_programs import PROGRAMS, LIBRARIES, Missing, Running

SKIPPED = 77


def bound(_heapsnap, tracker, folder):
    """The library preloaded, before and after the allocator's: same exit code, same answers, and what the program
    holds (4 MB) is in its allocator's heap, not in another."""
    failures = []
    for name, program in PROGRAMS.items():
        path = program.build(folder, name)
        orders = [[str(tracker), *program.preload]]
        if program.preload:
            orders.append([*program.preload, str(tracker)])
        if name == "address_sanitizer":
            continue  # refuses every library before its own, with or without us
        for order in orders:
            how = type(program)(program.answers, preload=order, environment=program.environment)
            try:
                with Running([path], how) as running:
                    in_glibc = running.in_glibc
                    code, errors = running.end()
            except RuntimeError as error:
                failures.append(f"{name}: {error}")
                continue
            if code != 0 or errors:
                failures.append(f"{name} under {order}: ended with {code}: {errors}")
            if in_glibc is not None and (in_glibc > 3 << 20) != (program.answers == "glibc"):
                failures.append(f"{name} under {order}: glibc's own heap holds {in_glibc} bytes")
    return failures


def told(command, expected, words=()):
    """What a command prints on both streams, or why it is not as expected."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    everything = done.stdout + done.stderr
    if done.returncode != expected:
        return f"{command[1]}: exit code {done.returncode}, not {expected}: {everything}"
    for word in words:
        if word not in everything:
            return f"{command[1]}: does not say {word!r}: {everything}"
    return None


def verdicts_of_running(heapsnap, program, pid, snapshot):
    """Of a process: (command, exit code, what it has to say)."""
    is_glibc = program.answers == "glibc"
    answered = [] if is_glibc else ["malloc is provided by " + program.answers]
    checks = json.loads(subprocess.run([heapsnap, "doctor", "-j", str(pid)], capture_output=True, text=True).stdout)
    allocator = [check for check in checks["checks"] if check["id"] == "allocator"]
    severity = "ok" if is_glibc else "blocked"
    complaints = []
    if len(allocator) != 1 or allocator[0]["severity"] != severity or program.answers not in allocator[0]["what"]:
        complaints.append(f"doctor: {allocator}")
    complaints.append(told([heapsnap, "doctor", pid], 0 if is_glibc else 5))
    complaints.append(told([heapsnap, "attach", "-f", "-o", snapshot, pid], 0 if is_glibc else 5, answered))
    complaints.append(told([heapsnap, "report", snapshot], 0, answered))
    complaints.append(told([heapsnap, "stacks", snapshot], 5, [] if is_glibc else [program.answers]))
    can_inject = is_glibc and program.is_dynamic
    complaints.append(told([heapsnap, "inject", pid], 0 if can_inject else 5,
                           answered if program.is_dynamic else []))
    return complaints


def verdicts(heapsnap, _tracker, folder):
    failures = []
    for name, program in PROGRAMS.items():
        path = program.build(folder, name)
        snapshot = f"{folder}/{name}.hsnap"
        is_glibc = program.answers == "glibc"
        complaints = []
        with Running([path], program) as running:
            complaints += verdicts_of_running(heapsnap, program, running.process.pid, snapshot)
            code, errors = running.end()
            if code != 0 or errors:
                complaints.append(f"ended with {code}: {errors}")
        # Under run: the program does not notice, and what is said beforehand is what comes true.
        is_recorded = is_glibc and program.is_dynamic
        with Running([heapsnap, "run", "--", path], program) as running:
            pid = running.child()
            complaints.append(told([heapsnap, "attach", "-f", "-o", snapshot, pid], 0 if is_glibc else 5))
            complaints.append(told([heapsnap, "stacks", pid], 0 if is_recorded else 5,
                                   [] if is_glibc else [program.answers]))
            code, errors = running.end()
        said = ": none of its blocks will have a call stack" in errors
        if code != 0 or said == is_recorded or (not is_glibc and program.answers not in errors):
            complaints.append(f"run: ended with {code}, and said: {errors}")
        failures += [f"{name}: {complaint}" for complaint in complaints if complaint]
    return failures


OWN = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>
static char memory[1 << 29];
static size_t used;
void *memalign(size_t alignment, size_t size) {
  const size_t at = __atomic_fetch_add(&used, (size + alignment + 47) & ~15ul, __ATOMIC_RELAXED);
  char *const block = (char *)(((uintptr_t)(memory + at + 16) + alignment - 1) / alignment * alignment);
  ((size_t *)block)[-1] = size;
  return block;
}
void *malloc(size_t size) { return memalign(16, size); }
void free(void *block) {}
void *calloc(size_t count, size_t size) { return malloc(count * size); }
size_t malloc_usable_size(void *block) { return ((size_t *)block)[-1]; }
void *realloc(void *block, size_t size) {
  void *const moved = malloc(size);
  const size_t old = block == NULL ? 0 : malloc_usable_size(block);
  return block == NULL ? moved : memcpy(moved, block, old < size ? old : size);
}
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
void *valloc(size_t size) { return memalign(4096, size); }
int posix_memalign(void **block, size_t alignment, size_t size) { return (*block = memalign(alignment, size)) == NULL; }
"""
FORWARDING = """
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
void *malloc(size_t size) { return __libc_malloc(size); }
void free(void *block) { __libc_free(block); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
"""


def report_of(heapsnap, snapshot):
    return json.loads(subprocess.run([heapsnap, "report", "-j", snapshot], capture_output=True, text=True).stdout)


def unknown(heapsnap, _tracker, folder):
    failures = []
    glibc = PROGRAMS["glibc"]
    path = glibc.build(folder, "user")
    for name, source in (("libown.so", OWN), ("libforwarding.so", FORWARDING)):
        built = pathlib.Path(folder, name)
        subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", "-fno-builtin", "-x", "c", "-", "-o", built],
                       input=source, text=True, check=True)
        how = type(glibc)(name, preload=[str(built)])
        snapshot = f"{folder}/{name}.hsnap"
        with Running([path], how) as running:
            pid = running.process.pid
            if source == OWN:
                # Of glibc's malloc there is nothing to be said, and nothing to be tracked.
                failures += [told([heapsnap, "attach", "-o", snapshot, pid], 5, [f"malloc is provided by {name}"]),
                             told([heapsnap, "share", "--no-names", snapshot, "-o", snapshot + ".shared"], 0)]
                # Nor does anything leak, as far as is known.
                failures += [told([heapsnap, verb, pid], 5, [f"malloc is provided by {name}"])
                             for verb in ("owners", "types", "leaks")]
                first_screen = subprocess.run([heapsnap, "report", snapshot], capture_output=True, text=True).stdout
                if "heapsnap inject" in first_screen:
                    failures.append(f"{name}: it says to inject:\n{first_screen}")
                shared = report_of(heapsnap, snapshot + ".shared")["foreign_allocator"]
                if not shared.startswith("module-"):
                    failures.append(f"shared without names it is {shared}")
            else:
                failures.append(told([heapsnap, "attach", "-o", snapshot, pid], 0))
                notes = report_of(heapsnap, snapshot)["notes"]
                if not any(f"{name} has a malloc that heapsnap does not know" in note for note in notes):
                    failures.append(f"{name}: not told of: {notes}")
            code, errors = running.end()
            if code != 0 or errors:
                failures.append(f"{name}: ended with {code}: {errors}")
    return [failure for failure in failures if failure]


CASES = {"bound": bound, "unknown": unknown, "verdicts": verdicts}


def main():
    case, heapsnap, tracker = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    with tempfile.TemporaryDirectory(prefix="heapsnap-allocators.") as folder:
        try:
            failures = CASES[case](heapsnap, tracker, folder)
        except Missing as missing:
            print(f"skipped: {missing} is not there")
            return SKIPPED
    print(*failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
