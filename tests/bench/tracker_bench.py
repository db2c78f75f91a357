#!/usr/bin/env python3
"""What the tracker costs: added CPU nanoseconds a malloc/free pair, bytes a live block, CPU ratio of real programs.

    tracker_bench.py TRACKER.so WORKLOAD WORKLOAD_WITH_FRAME_POINTERS [--runs 5] [--pairs 3000000]
                     [--only pairs|grow|programs]

Everything is paired in one run with plain, and with heaptrack's and jemalloc's profilers where they are
installed; each figure is the least of several runs. The bars that the project has set itself are printed with
each row, and what misses one is marked.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile

JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
HEAPTRACK_PRELOAD = "/usr/lib/heaptrack/libheaptrack_preload.so"
BARS = {("fixed", 10): 18, ("fixed", 40): 30, ("vary", 10): 60, ("vary", 40): 80}
SAMPLED_BAR = 4
GROW_BAR = 10
RATIO_BAR = {"every allocation": 1.25, "512 KiB samples": 1.03}


def tools(tracker):
    """name -> variables; a tool that is not installed is left out."""
    found = {
        "plain": {},
        "every allocation": {"LD_PRELOAD": tracker},
        "512 KiB samples": {"LD_PRELOAD": tracker, "HEAPSNAP_SAMPLE": "512KiB"},
    }
    if os.path.exists(HEAPTRACK_PRELOAD):
        found["heaptrack"] = {"LD_PRELOAD": HEAPTRACK_PRELOAD, "DUMP_HEAPTRACK_OUTPUT": "/dev/null"}
    if os.path.exists(JEMALLOC):
        base = {"LD_PRELOAD": JEMALLOC}
        found["jemalloc, 512 KiB samples"] = {**base, "MALLOC_CONF": "prof:true,lg_prof_sample:19"}
        found["jemalloc, no profile"] = base
    return found


def run(command, variables):
    """Standard output and CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, env={**os.environ, **variables}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} with {variables} failed: {result.stderr.decode(errors='replace')}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result.stdout.decode(errors="replace"), spent


def least(workload, arguments, variables, runs):
    return min(float(run([workload, *map(str, arguments)], variables)[0]) for _ in range(runs))


def mark(value, bar):
    return "" if bar is None else f" (bar {bar:g}{', MISSED' if value > bar else ''})"


def bench_pairs(options, found):
    for title, workload in (("no frame pointers", options.workload),
                            ("frame pointers", options.workload_fp)):
        for threads in (1, 2):
            print(f"\nadded CPU ns a malloc/free pair, {title}, {threads} thread{'s' if threads > 1 else ''}")
            for kind, depth in BARS:
                arguments = [kind, depth, threads, options.pairs]
                plain = least(workload, arguments, found["plain"], options.runs)
                cells = []
                for name, variables in found.items():
                    if name == "plain":
                        continue
                    added = least(workload, arguments, variables, options.runs) - plain
                    bar = None
                    if name == "every allocation":
                        bar = BARS[kind, depth] * (1.2 if threads == 2 else 1)
                    elif name == "512 KiB samples":
                        bar = SAMPLED_BAR
                    cells.append(f"{name} {added:.1f}{mark(added, bar)}")
                print(f"  {kind} d{depth}: plain {plain:.1f}; " + "; ".join(cells), flush=True)


def bench_growth(options, found):
    blocks = 2_000_000
    print(f"\nresident bytes a live block more than plain, {blocks} blocks (of the process; heaptrack writes elsewhere)")
    arguments = ["grow", 10, 1, blocks]
    plain = least(options.workload, arguments, found["plain"], 2)
    for name, variables in found.items():
        if name == "plain":
            continue
        added = least(options.workload, arguments, variables, 2) - plain
        print(f"  {name}: {added:.1f}{mark(added, GROW_BAR if name == 'every allocation' else None)}", flush=True)


PYTHON = """
import json, re, collections
data = [{'id': i, 'name': 'n%d' % i, 'tags': ['a', 'b', str(i)]} for i in range(3000)]
for _ in range(80):
    text = json.dumps(data); back = json.loads(text)
    words = collections.Counter(re.findall(r'[a-z]+', text))
"""
RUBY = """
text = (1..4000).map { |i| "line #{i} of #{i * 7}" }.join("\\n")
30.times { text.split("\\n").map { |l| l.split(' ').map(&:upcase) }.group_by(&:size).to_a.flatten.join(',') }
"""
CPP = """
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
int main() { std::map<std::string, std::vector<std::string>> m; m["a"].push_back("b");
  std::regex r("a+b"); return std::regex_match("aab", r) ? 0 : static_cast<int>(m.size()); }
"""


def bench_programs(options, found):
    print("\nCPU of real programs, as a ratio to plain")
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "a.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(CPP)
        programs = {}
        server = os.path.join(os.path.dirname(os.path.abspath(options.workload)), "tracker_server")
        if os.path.exists(server):
            programs["C++ server, 2 threads"] = ([server, "2", "40000"], {})
        cc1plus = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True,
                                 check=False).stdout.strip()
        if cc1plus.startswith("/"):
            programs["cc1plus"] = ([cc1plus, "-quiet", "-O1", "-D_GNU_SOURCE", "-imultiarch", "x86_64-linux-gnu",
                                    source, "-o", "/dev/null"], {})
        if shutil.which("python3"):
            programs["python3, PYTHONMALLOC=malloc"] = (["/usr/bin/python3", "-c", PYTHON],
                                                        {"PYTHONMALLOC": "malloc"})
        if shutil.which("ruby"):
            programs["ruby"] = (["ruby", "-e", RUBY], {})
        for program, (command, own) in programs.items():
            # In turns, so that a slow minute of the machine hits all of them.
            times = {name: [] for name in found}
            for _ in range(options.runs):
                for name, variables in found.items():
                    times[name].append(run(command, {**variables, **own})[1])
            plain = min(times["plain"])
            cells = []
            for name in found:
                if name != "plain":
                    ratio = min(times[name]) / plain
                    cells.append(f"{name} {ratio:.2f}{mark(ratio, RATIO_BAR.get(name))}")
            print(f"  {program}: plain {plain:.2f} s; " + "; ".join(cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tracker")
    parser.add_argument("workload")
    parser.add_argument("workload_fp")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=3_000_000)
    parser.add_argument("--only", choices=["pairs", "grow", "programs"])
    options = parser.parse_args()
    found = tools(os.path.abspath(options.tracker))
    if options.only in (None, "pairs"):
        bench_pairs(options, found)
    if options.only in (None, "grow"):
        bench_growth(options, found)
    if options.only in (None, "programs"):
        bench_programs(options, found)


if __name__ == "__main__":
    main()
