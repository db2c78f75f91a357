#!/usr/bin/env python3
"""Puts the tracker into a real server that is serving, and out again: it goes on without an error.

    inject_servers.py SERVER HEAPSNAP [--seconds S]

Prints the requests per second before, while it is injected, while each allocation is recorded, and
after eject. Each of its processes is injected. Exits 77, with the reason, where something is missing.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import servers


class Failure(Exception):
    pass


def wrk(server, seconds, _):
    command = [server.find("wrk"), "-t1", "-c8", f"-d{seconds}", f"http://127.0.0.1:{server.port}/"]

    def read(output):
        errors = re.search(r"(Socket errors|Non-2xx).*", output)
        return float(re.search(r"Requests/sec:\s*([\d.]+)", output)[1]), errors and errors[0]
    return command, {}, read


def pgbench(server, seconds, _):
    user = server.as_user("postgres")
    command = [*user, f"{server.bin}/pgbench", "-T", str(seconds), "-c", "4", "-j", "1"]
    environment = dict(os.environ, LC_ALL="C", PGHOST=server.folder, PGDATABASE="postgres")

    def read(output):
        failed = re.search(r"number of failed transactions: (\d+)", output)
        aborted = re.search(r".*(aborted|FATAL|ERROR).*", output)
        wrong = aborted[0] if aborted else failed and failed[1] != "0" and failed[0]
        return float(re.search(r"tps = ([\d.]+) \(without", output)[1]), wrong
    return command, {"env": environment, "cwd": server.folder}, read


def slap(server, seconds, rate):
    # It is told how many, not how long; each iteration begins with an empty table, whose rows it reads again and again.
    queries = 1000
    iterations = max(1, int(rate * seconds / queries))
    command = [server.find(server.programs[2]), "--no-defaults", f"--socket={server.folder}/socket", "-uroot",
               "--auto-generate-sql", "--concurrency=4", f"--iterations={iterations}", f"--number-of-queries={queries}"]

    def read(output):
        took = float(re.search(r"Average number of seconds to run all queries: ([\d.]+)", output)[1])
        wrong = re.search(r".*(Error|ERROR|Cannot).*", output)
        return queries / max(took, 0.001), wrong and wrong[0]
    return command, {}, read


FIRST_RATE = 1000  # queries per second, until it has been measured
CLIENTS = {"postgresql": pgbench, "mariadb": slap}


class Client:
    """One run of a client for about that many seconds at the expected rate, or until it is asked to end, which not all
    can be; rate() waits for its end."""

    def __init__(self, server, seconds, expected):
        program = CLIENTS.get(server.name, wrk)
        self.ends_when_asked = program is wrk  # the others would say nothing then
        command, options, self.read = program(server, seconds, expected)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, **options)

    def end_early(self):
        if self.ends_when_asked:
            self.process.send_signal(signal.SIGINT)

    def rate(self):
        output = self.process.communicate()[0]
        if self.process.returncode != 0:
            raise Failure(f"the client ended with {self.process.returncode}: {output}")
        rate, wrong = self.read(output)
        if wrong:
            raise Failure(f"the client saw: {wrong}")
        return rate


def run(heapsnap, command, pid):
    done = subprocess.run([heapsnap, command, str(pid)], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        # A backend may have ended with its client.
        if done.returncode == 3 and not os.path.exists(f"/proc/{pid}"):
            return False
        raise Failure(f"{command} {pid}: {done.stderr.strip()}")
    print("  " + done.stdout.strip().replace("\n", "\n  "))
    if done.stderr.strip():
        print("  " + done.stderr.strip())
    return True


def check(server):
    unwell = server.healthy()
    if unwell:
        raise Failure(unwell)


def rate_undisturbed(server, seconds, expected):
    rate = Client(server, seconds, expected).rate()
    check(server)
    return rate


def rate_while(server, seconds, expected, act):
    """The rate of a client in the middle of whose run `act` is called."""
    client = Client(server, seconds + 2, expected)
    time.sleep(0.5)  # it is under way
    result = act()
    if client.process.poll() is not None:
        raise Failure("the client was through before all was done")
    time.sleep(0.2)
    client.end_early()
    rate = client.rate()
    check(server)
    return rate, result


def survive(server, heapsnap, seconds):
    def inject():
        return [pid for pid in server.pids() if run(heapsnap, "inject", pid)]

    def eject():
        for pid in pids:
            if os.path.exists(f"/proc/{pid}"):
                run(heapsnap, "eject", pid)

    rates = {"before": rate_undisturbed(server, seconds, FIRST_RATE)}
    expected = rates["before"]
    if CLIENTS.get(server.name) is slap:  # which has to be told how much is enough: once more, with warm caches
        expected = rates["before"] = rate_undisturbed(server, seconds, expected)
    rates["injected meanwhile"], pids = rate_while(server, seconds, expected, inject)
    rates["tracked"] = rate_undisturbed(server, seconds, expected)
    rates["ejected meanwhile"], _ = rate_while(server, seconds, expected, eject)
    rates["after"] = rate_undisturbed(server, seconds, expected)
    return rates


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("heapsnap")
    parser.add_argument("--seconds", type=int, default=1)
    arguments = parser.parse_args()
    kind = servers.runnable(arguments.server)
    with tempfile.TemporaryDirectory(prefix="heapsnap-inject-") as folder:
        os.chmod(folder, 0o755)
        server = kind(folder)
        try:
            server.start()
            servers.end(server.load)  # the clients of this test are load enough
            server.load = None
            rates = survive(server, arguments.heapsnap, arguments.seconds)
            print(f"{kind.name}: " + ", ".join(f"{when} {rate:.0f}/s" for when, rate in rates.items()))
        except Failure as failure:
            print(f"FAILED: {kind.name}: {failure}")
            print(server.log_tail())
            sys.exit(1)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
