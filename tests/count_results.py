#!/usr/bin/env python3
"""Counts a JUnit file of ctest: names the tests that failed or were skipped, with what they said of it, and
the slowest, and ends with a line "PASSED FAILED SKIPPED" of numbers."""

import re
import sys
import xml.etree.ElementTree


SHOWN_SLOWEST = 12
# doctest's lines about a failed assertion: where, the expression, the values, what was captured.
ASSERTION = re.compile(r"ERROR: |^(CHECK|REQUIRE)\w*\(|^values: |^logged: |:= ")


def output_lines(case):
    output = case.findtext("system-out") or ""
    return [line.strip() for line in output.splitlines() if line.strip()] or ["no output"]


def failure(case):
    """The first failed assertions where the test is doctest's, else the last line."""
    lines = output_lines(case)
    assertions = [line for line in lines if ASSERTION.search(line)]
    return "\n    ".join(assertions[:8] or lines[-1:])


def count(cases):
    """({"passed": n, ...}, lines about those that did not pass)."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    lines = []
    for case in cases:
        status = case.get("status")
        skipped = case.find("skipped")
        if status == "run":
            counts["passed"] += 1
        elif status == "disabled" or (skipped is not None and "SKIP_" in (skipped.get("message") or "")):
            counts["skipped"] += 1
            lines.append(f"skipped: {case.get('name')}: {output_lines(case)[-1]}")
        else:  # also "notrun" for want of the program or of a fixture
            counts["failed"] += 1
            lines.append(f"FAILED: {case.get('name')}: {failure(case)}")
    return counts, lines


def slowest(cases):
    """ "slowest: live.inject 21 s, ..." """
    times = sorted(((float(case.get("time") or 0), case.get("name")) for case in cases), reverse=True)
    return "slowest: " + ", ".join(f"{name} {time:.0f} s" for time, name in times[:SHOWN_SLOWEST])


def main(path):
    cases = list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
    counts, lines = count(cases)
    lines.append(slowest(cases))
    print("\n".join(lines + [f"{counts['passed']} {counts['failed']} {counts['skipped']}"]))


if __name__ == "__main__":
    main(sys.argv[1])
