#!/usr/bin/env python3
"""Counts a JUnit file of ctest: names the tests that failed or were skipped, with what they said last,
and ends with a line "PASSED FAILED SKIPPED" of numbers."""

import sys
import xml.etree.ElementTree


def last_line(case):
    output = case.findtext("system-out") or ""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


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
            lines.append(f"skipped: {case.get('name')}: {last_line(case)}")
        else:  # also "notrun" for want of the program or of a fixture
            counts["failed"] += 1
            lines.append(f"FAILED: {case.get('name')}: {last_line(case)}")
    return counts, lines


def main(path):
    counts, lines = count(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
    print("\n".join(lines + [f"{counts['passed']} {counts['failed']} {counts['skipped']}"]))


if __name__ == "__main__":
    main(sys.argv[1])
