#!/usr/bin/env python3
"""Applications as people have them, each with a leak: leaking_applications.py CASE HEAPSNAP

    rack    a Rack application on Puma, under load, that keeps each request in a constant
    flask   a Flask application on Gunicorn, under load, that keeps each request in a global list
    irb     an interactive session of Ruby, in which somebody has filled a global variable

The application itself says how much it keeps; owners names the variable and counts as much, objects counts the class, and
a second snapshot shows that the variable grew. Nobody prepared the process, and its clients see no error."""

import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

import servers

SKIP = 77
RACK = """
class Visit
  def initialize(path, agent)
    @path = path
    @agent = agent
    @parts = path.split("/")
  end
end

module Tracking
  SEEN = {}
  LOCK = Mutex.new
end

# SEEN grows, but for what /kept asks.
run(lambda do |env|
  if env["PATH_INFO"] == "/kept"
    count = Tracking::LOCK.synchronize { Tracking::SEEN.size }
    next [200, {"content-type" => "text/plain"}, [count.to_s]]
  end
  Tracking::LOCK.synchronize do
    Tracking::SEEN[Tracking::SEEN.size] = Visit.new(env["PATH_INFO"], "agent %d of those that came" % Tracking::SEEN.size)
  end
  [200, {"content-type" => "text/plain"}, ["seen\\n"]]
end)
"""
FLASK = """
import flask

app = flask.Flask(__name__)
seen = []


class Visit:
    def __init__(self, path, agent):
        self.path = path
        self.agent = agent
        self.parts = path.split("/")


@app.get("/kept")
def kept():
    return str(len(seen))


@app.get("/<path:path>")
def any_page(path):
    seen.append(Visit(path, "agent %d of those that came" % len(seen)))
    return "seen"
"""


class Application(servers.Server):
    """A server of a web application; subclasses say how it is started, and what its leak is called."""

    def start(self):
        self.port = servers.free_port()
        self.server = self.spawn(self.command())
        servers.wait_until(lambda: servers.answers(self.port), self.name)

    def target(self):
        return self.server.pid


class Rack(Application):
    name = "rack"
    programs = ("puma",)
    root, type, retains = "Tracking::SEEN", "Visit", 40 + 80  # at least: a slot, and its strings'

    def command(self):
        place = pathlib.Path(self.folder, "config.ru")
        place.write_text(RACK, encoding="ascii")
        return [self.find("puma"), "-b", f"tcp://127.0.0.1:{self.port}", "-t", "4:4", "-e", "production", str(place)]


class Flask(Application):
    name = "flask"
    programs = ("gunicorn",)
    root, type, retains = "leaking.seen", "leaking.Visit", 48 + 70

    def command(self):
        pathlib.Path(self.folder, "leaking.py").write_text(FLASK, encoding="ascii")
        return [self.find("gunicorn"), "--chdir", str(self.folder), "-b", f"127.0.0.1:{self.port}", "--threads", "4", "leaking:app"]

    def target(self):
        servers.wait_until(lambda: servers.children_of(self.server.pid), "Gunicorn's worker")
        return servers.children_of(self.server.pid)[0]


class Clients:
    """Four that ask all the time, each over one connection."""

    def __init__(self, port):
        self.port, self.errors, self.asked = port, [], 0
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(number,)) for number in range(4)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def ask(self, number):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        asked = 0
        while not self.is_over.is_set():
            try:
                connection.request("GET", f"/customers/{number}/orders/{asked}")
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    raise OSError(f"status {answer.status}")
            except (OSError, http.client.HTTPException) as error:
                self.errors.append(repr(error))
                return
            asked += 1
            self.asked += 1


def kept(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/kept")
    return int(connection.getresponse().read())


def run(heapsnap, *words):
    done = subprocess.run([heapsnap, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def owner(heapsnap, snapshot, root):
    """The largest one that has a name (an interpreter's classes and code are held by many roots at once), and the wanted one."""
    rows = json.loads(run(heapsnap, "owners", snapshot, "-j", "--limit", "0"))["owners"]
    return next(row for row in rows if row["kind"] != "several"), next((row for row in rows if row["root"] == root), None)


def check_growth(heapsnap, application, folder):
    """Three snapshots under load, between two words of the application each."""
    pid = application.target()
    bounds, snapshots = [], []
    with Clients(application.port) as clients:
        for number in range(3):
            servers.wait_until(lambda: clients.errors or kept(application.port) >= 3000 * (number + 1), "the load")
            before = kept(application.port)
            snapshots.append(f"{folder}/{number}.hsnap")
            run(heapsnap, "attach", str(pid), "--references", "yes", "-o", snapshots[-1])
            bounds.append((before, kept(application.port)))
    assert not clients.errors, clients.errors[:3]
    for snapshot, (least, most) in zip(snapshots, bounds):
        first, row = owner(heapsnap, snapshot, application.root)
        assert row is not None, (application.root, first)
        assert row["retained_bytes"] >= least * application.retains, (row["retained_bytes"], least)
        objects = json.loads(run(heapsnap, "objects", snapshot, "-j"))["objects"]
        count, = (one["count"] for one in objects if one["type"] == application.type)
        # Those that are being made are not kept yet.
        assert least <= count <= most + 8, (least, count, most)
    first, row = owner(heapsnap, snapshots[-1], application.root)
    assert first["root"] == application.root, (first["root"], first["retained_bytes"], row["retained_bytes"])
    assert application.root in run(heapsnap, "report", snapshots[-1]).partition("What keeps")[2]
    rows = json.loads(run(heapsnap, "diff", *snapshots, "--by", "owner", "-j"))
    text = run(heapsnap, "diff", *snapshots, "--by", "owner")
    assert application.root in text.splitlines()[next(i for i, line in enumerate(text.splitlines())
                                                      if line.lstrip().startswith("what ")) + 1], (text, rows)
    print(f"{application.name}: {bounds[-1][0]} kept, {row['retained_bytes']} bytes by {application.root}, "
          f"{clients.asked} answers, no error")


def web(heapsnap, kind):
    with tempfile.TemporaryDirectory() as folder:
        application = kind(folder)
        lacking = application.missing()
        if lacking:
            print("skipped:", lacking)
            sys.exit(SKIP)
        application.start()
        try:
            check_growth(heapsnap, application, folder)
            assert application.healthy() is None, application.healthy()
        finally:
            application.stop()


def rack(heapsnap):
    web(heapsnap, Rack)


def flask(heapsnap):
    web(heapsnap, Flask)


def irb(heapsnap):
    """What was typed at its prompt, while it waits for more."""
    program = "/usr/bin/irb"
    if not os.path.exists(program):
        print("skipped: there is no irb here")
        sys.exit(SKIP)
    with subprocess.Popen([program, "-f", "--noreadline", "--nomultiline", "--prompt", "null"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as session:
        session.stdin.write("class Order; def initialize(n); @lines = [n, \"order number %d\" % n]; end; end\n"
                            "$orders = (1..20_000).map { |n| Order.new(n) }; nil\n"
                            "puts \"made #{$orders.size}\"\n")
        session.stdin.flush()
        while "made 20000" not in (line := session.stdout.readline()):
            assert line, "irb has ended"
        with tempfile.TemporaryDirectory() as folder:
            snapshot = f"{folder}/a.hsnap"
            run(heapsnap, "attach", str(session.pid), "--references", "yes", "-o", snapshot)
            first, _ = owner(heapsnap, snapshot, "$orders")
            assert first["root"] == "$orders" and first["retained_bytes"] >= 20_000 * 3 * 40, first
            objects = json.loads(run(heapsnap, "objects", snapshot, "-j"))["objects"]
            assert [one["count"] for one in objects if one["type"] == "Order"] == [20_000], objects[:5]
            listed = run(heapsnap, "objects", snapshot)
            assert re.search(r"20,000.*Order$", listed, re.M), listed
        session.stdin.write("puts \"still #{$orders.sum { |order| order.instance_variable_get(:@lines)[0] }}\"\nexit\n")
        said, _ = session.communicate()
        assert "still 200010000" in said and session.returncode == 0, (said, session.returncode)
    print(f"irb: $orders keeps {first['retained_bytes']} bytes")


CASES = {case.__name__: case for case in (rack, flask, irb)}

if __name__ == "__main__":
    CASES[sys.argv[1]](sys.argv[2])
