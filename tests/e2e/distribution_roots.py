#!/usr/bin/env python3
"""The package, or the static program's tarball, on whole distributions.

    distribution_roots.py SUITE PACKAGES TARBALLS ROOTS

On bookworm: collected by the timer's command and by cron itself from a PostgreSQL and an nginx under load and from a
server that leaks and counts what it leaks. On others: installed, attached and looked at. ROOTS keeps the roots; the
package is the one in PACKAGES, the tarball the one in TARBALLS. Exits 77, with the reason, where they cannot be had."""

import json
import pathlib
import re
import subprocess
import sys
import time

import distribution_root
from overlaid_root import OverlaidRoot, reenter, skip
from packaging import names_of

CRON_TIME = 190  # seconds: three minutes, each of which begins in it
LEAK = """
import time
kept = []
size = 0
begin = time.time()
while True:
    while size < 2_000_000 * (time.time() - begin):  # so fast however busy the machine is
        kept.append(bytearray(40000))
        for at in range(0, 40000, 4096): kept[-1][at] = 1
        size += 40000
        print(time.time(), size, flush=True)
    time.sleep(0.02)
"""
LOAD = """
import socket, time
while socket.socket().connect_ex(("127.0.0.1", 8099)) != 0:
    time.sleep(0.1)
while True:
    with socket.create_connection(("127.0.0.1", 8099)) as to:
        to.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        assert to.recv(100).startswith(b"HTTP/1.1 200")
    time.sleep(0.01)
"""
CONFIG = """
store = "/var/lib/heapsnap"
keep = { last = 4 }
[skip]
memory_pressure_over = "100%"
io_pressure_over = "100%"
[[target]]
name = "db"
process = "postgres"
[[target]]
name = "web"
process = "nginx"
[[target]]
name = "leak"
pid_file = "/run/leak.pid"
"""


def command_of_unit(root, unit):
    """What systemd would execute."""
    text = (root.root / "lib/systemd/system" / unit).read_text(encoding="utf-8")
    return re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1].split()


def traces(root):
    """Files and folders anywhere that have the package's name."""
    found = root.run("find", "/", "-xdev", "(", "-path", "/proc", "-o", "-path", "/tmp", "-o", "-path", "/dev", ")",
                     "-prune", "-o", "-name", "*heapsnap*", "-print").split()
    return {path for path in found if not path.startswith("/var/lib/heapsnap/")}


class Servers:
    """PostgreSQL, nginx and a leaking server, with their load."""

    def __init__(self, root):
        self.root = root
        self.started = []
        root.write("/etc/nginx/sites-enabled/default",
                   "server { listen 127.0.0.1:8099; root /usr/share/doc; location / { return 200 'here'; } }\n")
        root.run("pg_ctlcluster", "15", "main", "start")
        self.start("nginx", "-g", "daemon off;")
        self.as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "env", "HOME=/tmp"]
        root.run(*self.as_postgres, "psql", "-qc", "CREATE TABLE load AS SELECT generate_series(1, 1000) AS number")
        self.start("sh", "-c", "exec " + " ".join(self.as_postgres) + " sh -c 'while :; do psql -qtAc \"SELECT sum(a.number) FROM "
                   "load a, load b WHERE a.number = b.number\"; sleep 0.2; done'", stdout=subprocess.DEVNULL)
        self.start("python3", "-c", LOAD)
        self.leak = self.start("python3", "-c", LEAK, stdout=open(root.root / "tmp/leaked", "w", encoding="ascii"))
        root.write("/run/leak.pid", f"{self.leak.pid}\n")
        time.sleep(1)

    def start(self, *words, **how):
        process = self.root.start(*words, stdin=subprocess.DEVNULL, **how)
        self.started.append(process)
        return process

    def own_count(self):
        """(time, bytes) as the leaking server printed them."""
        lines = (self.root.root / "tmp/leaked").read_text(encoding="ascii").splitlines()
        return [tuple(map(float, line.split())) for line in lines if len(line.split()) == 2]

    def end(self):
        assert all(process.poll() is None for process in self.started), [process.args for process in self.started
                                                                          if process.poll() is not None]
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            process.wait()
        self.root.run("pg_ctlcluster", "15", "main", "stop", "-m", "immediate")


def at(counted, when):
    """What had been leaked by then."""
    return max((size for time_of, size in counted if time_of <= when), default=0)


def check_growth(root, servers):
    """The slope of history against the program's own count at the times of the snapshots."""
    row = json.loads(root.run("heapsnap", "history", "leak", "-j", "--least-span", "1m"))
    resident = row["series"][0]
    counted = servers.own_count()
    run = row["runs"][0]
    stamps = [time.mktime(time.strptime(run[key][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone for key in ("first", "last")]
    own = (at(counted, stamps[1]) - at(counted, stamps[0])) / (stamps[1] - stamps[0]) * 86400
    found = resident["slope"]["per_day"]
    print(f"own count {own / 2**20:.0f} MiB a day, history {found / 2**20:.0f}: {found / own - 1:+.2%} "
          f"over {stamps[1] - stamps[0]:.0f} s and {run['snapshots']} snapshots")
    assert row["grows"] and row["trend"] == "grows", row["trend"]
    assert abs(found / own - 1) <= 0.05, (found, own)
    return run["snapshots"]


def check_collecting(root):
    """The timer's command by hand, then cron for three minutes; prune, history."""
    servers = Servers(root)
    try:
        root.write("/etc/heapsnap/collect.toml", CONFIG)
        said = root.run("heapsnap", "collect", "--check")
        assert "db: " in said and "web: " in said and "leak: " in said, said
        collect = command_of_unit(root, "heapsnap-collect.service")
        for _ in range(3):
            said = root.run(*collect)
            print(said, end="")
            for name in ("db", "web", "leak"):
                assert re.search(rf"^{name}: collected: \d+ ", said, re.MULTILINE), said
            time.sleep(5)
        by_hand = len(list((root.root / "var/lib/heapsnap").rglob("*.hsnap")))
        assert by_hand == 9, by_hand
        servers.start("cron", "-f")
        time.sleep(CRON_TIME)
        counts = {name: len(list((root.root / "var/lib/heapsnap").glob(f"*/{name}/*.hsnap")))
                  for name in ("db", "web", "leak")}
        print("snapshots after cron:", counts)
        assert all(3 + 2 < count <= 3 + 4 for count in counts.values()), counts
        snapshots = check_growth(root, servers)
        assert snapshots == counts["leak"], (snapshots, counts)
        said = root.run(*command_of_unit(root, "heapsnap-prune.service"))
        print(said, end="")
        left = list((root.root / "var/lib/heapsnap").glob("*/leak/*.hsnap"))
        assert len(left) == 4 and "removed" in said, left
        assert root.run("heapsnap", "history", "db").startswith("db: ")
        assert root.run("heapsnap", "history", "web").startswith("web: ")
    finally:
        servers.end()


def check_package(root):
    check_collecting(root)
    root.run("apt-get", "-q", "-y", "-o", "APT::Sandbox::User=", "purge", "heapsnap")
    left = traces(root)
    assert left == {"/var/lib/heapsnap"}, left
    assert root.run("find", "/var/lib/heapsnap", "-type", "f").count(".hsnap\n") == 12


def check_use(root, program):
    """A program of this root: attached to, and a history of two snapshots."""
    print(root.run(program, "doctor"))
    assert "Nothing prevents attaching" in root.run(program, "doctor")
    target = root.start("python3", "-c", LEAK, stdout=subprocess.PIPE)
    try:
        target.stdout.readline()
        pid = str(target.pid)
        for number in range(2):
            screen = root.run(program, "attach", pid, "-o", f"/tmp/{number}.hsnap")
            assert "used by the program (malloc)" in screen and "malloc     glibc" in screen, screen
            for _ in range(20):
                target.stdout.readline()
        said = root.run(program, "history", "/tmp/0.hsnap", "/tmp/1.hsnap")
        assert "2 in" in said or "2 snapshots" in said, said
        assert "tracker loaded" in root.run(program, "inject", pid)
        for _ in range(20):
            target.stdout.readline()
        assert "recorded" in root.run(program, "stacks", pid)
        assert "tracker disabled" in root.run(program, "eject", pid)
    finally:
        target.kill()
        target.communicate()


def main():
    suite = sys.argv[1]
    packages, tarballs, roots = (pathlib.Path(word).resolve() for word in sys.argv[2:])
    reenter()
    package = names_of(packages).get("heapsnap")
    assert package, f"there is no package in {packages}"
    with OverlaidRoot(distribution_root.make(roots, suite)) as root:
        why_not = distribution_root.install(root, package)
        if not why_not:
            assert "Nothing prevents attaching" in root.run("heapsnap", "doctor")
            if suite == "bookworm":
                check_package(root)
            else:
                check_use(root, "heapsnap")
            print(f"the package on {suite}: passed")
            return 0
        assert suite != "bookworm" or "reached" in why_not, why_not
        print(f"the package cannot be installed on {suite}: {why_not}")
        tarball = next(tarballs.glob("*.tar.gz"), None)
        if tarball is None:
            skip(f"and there is no tarball in {tarballs}")
        subprocess.run(["tar", "-C", root.root / "usr/local", "--strip-components=1", "-xf", tarball], check=True)
        check_use(root, "/usr/local/bin/heapsnap")
        print(f"the tarball on {suite}: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
