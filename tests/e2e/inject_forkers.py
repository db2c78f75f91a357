#!/usr/bin/env python3
"""Real programs that fork all the time, while trim, inject and eject are at work in them in turns.

    inject_forkers.py PROGRAM HEAPSNAP [--operations N]

PROGRAM: bash (loops over /bin/true), make (a recipe after the other), perl (accepts and forks, as sshd does),
apache (prefork, a child for each two requests), cron (a job a minute, which is seldom), postmaster (pgbench -C:
a backend for each transaction).
Each operation must come to its end, and the program must have forked meanwhile and be able to afterwards.
Exits 77, with the reason, where something is missing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

import servers

VERBS = (["trim", "--no-estimate"], ["inject"], ["eject"])
PERL = r"""
use IO::Socket::INET;
$SIG{CHLD} = 'IGNORE';
my $server = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], ReuseAddr => 1);
while (1) {
  my $client = $server->accept or next;
  my $child = fork // die;
  if (!$child) { my %table = map { $_ => 'x' x $_ } 1 .. 100; print $client scalar(%table); exit 0 }
  close $client;
}
"""
CLIENT = """
import socket, sys
while True:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60) as connection:
        if connection.recv(16) == b"":
            sys.exit("a child gave no answer")
"""
APACHE = """
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/pid
ServerName localhost
Listen 127.0.0.1:{port}
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
User www-data
Group www-data
StartServers 2
MinSpareServers 1
MaxSpareServers 2
MaxConnectionsPerChild 2
ErrorLog {folder}/log
DocumentRoot {folder}/files
<Directory {folder}/files>
  Require all granted
</Directory>
"""


class Failure(Exception):
    pass


class Forker(servers.Server):
    def forks(self):
        """What changes when it forks: faults of the children it has waited for, and those it has."""
        with open(f"/proc/{self.server.pid}/stat", encoding="utf-8", errors="replace") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return int(fields[8]), servers.children_of(self.server.pid)


class Bash(Forker):
    name = "bash"
    programs = ("bash",)

    def start(self):
        self.server = self.spawn(["bash", "-c", "while :; do /bin/true; x=$(echo y); done"])


class Make(Forker):
    name = "make"
    programs = ("make",)

    def start(self):
        with open(f"{self.folder}/Makefile", "w", encoding="utf-8") as rules:
            rules.write("all: $(shell seq 1 1000000)\n%:\n\t@test -n $@ && :\n")
        self.server = self.spawn(["make", "-s", "-j2", "all"])
        servers.wait_until(lambda: self.forks()[1], "make")


class Perl(Forker):
    name = "perl"
    programs = ("perl",)

    def start(self):
        port = servers.free_port()
        self.server = self.spawn(["perl", "-e", PERL, str(port)])
        servers.wait_until(lambda: servers.answers(port), self.name)
        self.load = self.spawn([sys.executable, "-c", CLIENT, str(port)])


class Apache(Forker):
    name = "apache"
    programs = ("apache2", "wrk")

    def start(self):
        port = servers.free_port()
        os.makedirs(f"{self.folder}/files")
        os.chmod(self.folder, 0o755)
        with open(f"{self.folder}/files/index.html", "w", encoding="utf-8") as page:
            page.write("here\n")
        with open(f"{self.folder}/conf", "w", encoding="utf-8") as conf:
            conf.write(APACHE.format(folder=self.folder, port=port, modules="/usr/lib/apache2/modules"))
        self.server = self.spawn(["apache2", "-DFOREGROUND", "-f", f"{self.folder}/conf"],
                                 start_new_session=True)  # it ends its whole group
        servers.wait_until(lambda: servers.answers(port), self.name)
        self.load = self.spawn(["wrk", "-t1", "-c2", "-d3600", f"http://127.0.0.1:{port}/index.html"])


class Cron(Forker):
    name = "cron"
    programs = ("cron", "unshare")

    def start(self):
        # Its tables and its pid file are its own here.
        table = "/etc/cron.d/forker"
        script = (f"mount -t tmpfs none /var/run && mount -t tmpfs none /etc/cron.d && "
                  f"echo '* * * * * root /bin/true' > {table} && exec cron -f")
        self.server = self.spawn(["unshare", "-m", "sh", "-c", script])
        servers.wait_until(lambda: os.readlink(f"/proc/{self.server.pid}/exe").endswith("cron"), self.name)


class Postmaster(servers.PostgreSQL):
    name = "postmaster"

    def start(self):
        super().start()
        servers.end(self.load)
        environment = dict(os.environ, LC_ALL="C", PGHOST=self.folder, PGDATABASE="postgres")
        self.load = self.spawn([*self.as_user("postgres"), f"{self.bin}/pgbench", "-C", "-S", "-n", "-T", "3600",
                                "-c", "2"], env=environment)

    forks = Forker.forks


KINDS = {kind.name: kind for kind in (Bash, Make, Perl, Apache, Cron, Postmaster)}


def await_fork(server):
    """It is not held anywhere."""
    if server.name == "cron":
        return  # a fork a minute is too long to wait for; `healthy` and the operations must do
    before = server.forks()
    deadline = time.monotonic() + 60
    while server.forks() == before:
        if server.healthy() or time.monotonic() > deadline:
            with open(f"/proc/{server.server.pid}/stack", encoding="utf-8") as stack:
                raise Failure(f"it does not fork any more: {stack.read()}")
        time.sleep(0.002)


def operate(server, heapsnap, operations):
    for i in range(operations):
        verb = VERBS[i % len(VERBS)]
        try:
            done = subprocess.run([heapsnap, *verb, str(server.server.pid)], capture_output=True, text=True,
                                  timeout=100)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"operation {i}, {verb[0]}, does not come to an end") from late
        if done.returncode != 0:
            raise Failure(f"operation {i}, {verb[0]}: {done.stderr.strip()}")
        unwell = server.healthy()
        if unwell:
            raise Failure(f"operation {i}, {verb[0]}: {unwell}")
        await_fork(server)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("heapsnap")
    parser.add_argument("--operations", type=int, default=6)
    arguments = parser.parse_args()
    kind = KINDS[arguments.program]
    missing = kind.missing()
    if missing or (os.geteuid() != 0 and kind in (Apache, Cron, Postmaster)):
        print("skipped:", missing or "it takes root")
        return 77
    folder = tempfile.mkdtemp(prefix="heapsnap-forkers-")
    os.chmod(folder, 0o755)
    server = kind(folder)
    try:
        server.start()
        operate(server, arguments.heapsnap, arguments.operations)
    except Failure as failure:
        print(f"FAILED: {kind.name}: {failure}")
        print(server.log_tail())
        return 1
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{kind.name}: {arguments.operations} operations")
    return 0


if __name__ == "__main__":
    sys.exit(main())
