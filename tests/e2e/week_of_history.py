#!/usr/bin/env python3
"""README's section on snapshots at intervals: its four commands, with a week between the third and the fourth.

    week_of_history.py PACKAGES SHIFTED_CLOCK LEAKY_SERVER README [--write]

runs them in a layer over this system's root folder. The week is made by a clock that is set ahead for heapsnap alone: 168
times an hour passes for it, and the timer's command takes a snapshot of the demo server, which leaks all the while. What
the last command prints has the shape of what README shows; with --write it takes its place. Exits 77, with the
reason, where the machine lacks what it takes."""

import pathlib
import re
import subprocess
import sys
import time

from overlaid_root import OverlaidRoot, reenter, skip
from packaging import names_of, need

PASSES = 7 * 24 + 1
STEP = 3602  # seconds between them: an hour, and the rounding of a snapshot's time
BETWEEN = 0.04  # seconds that the server goes on for in an hour
SECTION = re.compile(r"(<!-- week_of_history.py: commands -->\n```sh\n)(.*?)(```\n)(.*?)"
                     r"(<!-- week_of_history.py: output -->\n```text\n)(.*?)(```\n)", re.DOTALL)


def commands_of(section):
    """Without sudo, which there is none of in a root folder that is root's, and without what is said of them."""
    lines = [re.sub(r" +#.*", "", line).strip() for line in section[2].splitlines()]
    commands = [line.replace("sudo ", "") for line in lines if line]
    assert len(commands) == 4, commands
    return commands


def let_a_week_pass(root, clock):
    """As the timers would, but by a clock of its own: a pass an hour, and what the configuration does not keep goes."""
    began = int(time.time()) - (PASSES - 1) * STEP
    for turn in range(PASSES):
        shift = began + turn * STEP - int(time.time())
        environment = {"LD_PRELOAD": str(clock), "CLOCK_SHIFT": str(shift)}
        for _ in range(20):
            collector = root.start("heapsnap", "collect", "--at-once", stdout=subprocess.PIPE, environment=environment)
            said = collector.communicate()[0]
            if collector.returncode != 1:  # skipped: this machine is too busy
                break
            time.sleep(1)
        assert collector.returncode == 0 and "shop: collected: " in said, said
        root.run("heapsnap", "prune", environment=environment)
        time.sleep(BETWEEN)


def shape_of(text):
    """Its words, without figures, units and bars; columns are as wide as the figures, so a name may be broken elsewhere."""
    text = re.sub(r"[▁▂▃▄▅▆▇█]+", "~", text)
    text = re.sub(r"[-+]?\d[\d.,:TZ-]*( ?[KMGT]i?B?| B)?\b", "0", text)
    return sorted(text.split())


def main():
    packages, clock, server, readme = (pathlib.Path(word).resolve() for word in sys.argv[1:5])
    reenter()
    need("apt-get", "systemctl")
    text = readme.read_text(encoding="utf-8")
    section = SECTION.search(text)
    install, configure, enable, history = commands_of(section)
    package = names_of(packages)["heapsnap"]
    with OverlaidRoot() as root:
        (root.root / "tmp" / package.name).write_bytes(package.read_bytes())
        quiet = {"COLUMNS": "80"}
        at_home = ["env", "-C", "/tmp", "sh", "-c"]
        said = root.run(*at_home, install)
        assert "Setting up heapsnap" in said, said
        root.run(*at_home, configure)
        # No systemd runs in the root folder that could start the timer.
        root.run(*at_home, enable.replace(" --now", ""))
        assert (root.root / "etc/systemd/system/timers.target.wants/heapsnap-collect.timer").is_symlink()
        with subprocess.Popen([server, "40"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as demo:
            assert demo.stdout.readline().startswith("ready")
            said = root.run("heapsnap", "collect", "--check")
            if f"{demo.pid} " not in said:
                skip(f"another process has the server's name: {said}")
            let_a_week_pass(root, clock)
            demo.stdin.close()
        printed = root.run(*at_home, history, environment=quiet).replace(f"{server.parent}/", "/opt/demo/")
    print(printed)
    assert "grows by " in printed, printed
    if "--write" in sys.argv:
        readme.write_text(text[:section.start(6)] + printed.rstrip("\n") + "\n" + text[section.end(6):], encoding="utf-8")
        return 0
    assert shape_of(printed) == shape_of(section[6]), (shape_of(printed), shape_of(section[6]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
