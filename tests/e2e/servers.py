"""Real servers of Debian under real load, for tests that attach to them.

Each class starts a server in a folder of its own and a client that keeps it busy; `pids()` are its
processes, `healthy()` says what the client saw. `stop()` ends both. `missing()` names what the machine
lacks, for a skip with a reason. Nothing listens outside of the loopback interface.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time


def wait_until(condition, what, seconds=60):
    """Polls a foreign program that offers no hand-shake."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not come up in {seconds} s")
        time.sleep(0.05)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listing:
            return [int(child) for child in listing.read().split()]
    except OSError:
        return []


def end(process, how=signal.SIGTERM):
    if process and process.poll() is None:
        process.send_signal(how)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Server:
    """One server and its load. Subclasses fill `server` and `load` in start()."""

    name = ""
    programs = ()  # paths, the first that exists of each tuple

    def __init__(self, folder):
        self.folder = f"{folder}/{self.name}"
        os.makedirs(self.folder, exist_ok=True)
        self.server = None
        self.load = None

    @classmethod
    def find(cls, alternatives):
        names = alternatives if isinstance(alternatives, tuple) else (alternatives,)
        return next((path for path in map(shutil.which, names) if path), None)

    @classmethod
    def missing(cls):
        for alternatives in cls.programs:
            if not cls.find(alternatives):
                return f"{cls.name}: {alternatives} is not installed"
        return None

    def spawn(self, command, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        log = open(f"{self.folder}/log", "ab")
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **options)

    def as_user(self, name):
        user = pwd.getpwnam(name)
        for path in (os.path.dirname(self.folder), self.folder):
            os.chmod(path, 0o755)
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        return ["setpriv", f"--reuid={name}", f"--regid={user.pw_gid}", "--init-groups"]

    def pids(self):
        return [self.server.pid]

    def healthy(self):
        """A sentence that says what is wrong, or None."""
        if self.server.poll() is not None:
            return f"{self.name} ended with {self.server.returncode}"
        if self.load and self.load.poll() not in (None, 0):
            return f"the load of {self.name} ended with {self.load.returncode}: {self.log_tail()}"
        return None

    def log_tail(self):
        with open(f"{self.folder}/log", encoding="utf-8", errors="replace") as log:
            return log.read()[-2000:]

    def stop(self):
        end(self.load)
        end(self.server)


class PostgreSQL(Server):
    name = "postgresql"
    client = "/usr/lib/postgresql/15/bin"
    bin = client
    options = ()  # of the server
    programs = ("pg_config", f"{bin}/postgres", f"{bin}/pgbench", "setpriv")

    def start(self):
        environment = dict(os.environ, LC_ALL="C", PGHOST=self.folder, PGDATABASE="postgres", PGUSER="postgres")
        self.user = self.as_user("postgres")
        self.environment = environment
        data = f"{self.inside()}/db"
        subprocess.run([*self.on_server(), f"{self.bin}/initdb", "-D", data, "--no-sync", "-A", "trust"], check=True,
                       capture_output=True, cwd=self.folder, env=environment)
        self.start_server()
        subprocess.run([*self.user, f"{self.client}/pgbench", "-i", "-q", "-s", "2"], check=True,
                       capture_output=True, cwd=self.folder, env=environment)
        self.load = self.spawn([*self.user, f"{self.client}/pgbench", "-T", "3600", "-c", "4", "-j", "1"],
                               env=environment)
        wait_until(lambda: len(self.backends()) >= 4, "pgbench")

    def start_server(self):
        inside = self.inside()
        self.server = self.spawn([*self.on_server(), f"{self.bin}/postgres", "-D", f"{inside}/db",
                                  "-c", "listen_addresses=", "-c", f"unix_socket_directories={inside}",
                                  "-c", "fsync=off", *self.options], env=self.environment)
        ready = [*self.user, f"{self.client}/pg_isready", "-q", "-h", self.folder]
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, self.name)

    def on_server(self):
        """What goes in front of the server's own programs."""
        return self.user

    def inside(self):
        """The folder as the server sees it."""
        return self.folder

    def backends(self):
        """Processes that serve a client, by the title that they give themselves."""
        found = []
        for pid in children_of(self.server.pid):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as title:
                    if b"[local]" in title.read():
                        found.append(pid)
            except OSError:
                pass
        return found

    def pids(self):
        return [self.server.pid, *self.backends()[:2]]

    def stop(self):
        end(self.load)
        end(self.server, signal.SIGINT)


class Nginx(Server):
    name = "nginx"
    programs = ("nginx", "wrk")

    def start(self):
        self.port = free_port()
        os.chmod(self.folder, 0o755)
        with open(f"{self.folder}/index.html", "w", encoding="ascii") as page:
            page.write("heap " * 4000)
        with open(f"{self.folder}/nginx.conf", "w", encoding="ascii") as config:
            config.write(f"""
daemon off; worker_processes 1; pid {self.folder}/pid; error_log {self.folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; gzip on; gzip_min_length 1; gzip_types text/plain;
  client_body_temp_path {self.folder}/body; proxy_temp_path {self.folder}/proxy;
  fastcgi_temp_path {self.folder}/fastcgi; uwsgi_temp_path {self.folder}/uwsgi;
  scgi_temp_path {self.folder}/scgi;
  server {{ listen 127.0.0.1:{self.port}; root {self.folder}; }}
}}""")
        self.server = self.spawn([self.find("nginx"), "-p", self.folder, "-c",
                                  f"{self.folder}/nginx.conf"])
        wait_until(lambda: answers(self.port) and children_of(self.server.pid), self.name)
        self.load = self.spawn([self.find("wrk"), "-t1", "-c32", "-d3600", "-H",
                                "Accept-Encoding: gzip", f"http://127.0.0.1:{self.port}/"])

    def pids(self):
        return [self.server.pid, *children_of(self.server.pid)[:1]]


class MariaDB(Server):
    name = "mariadb"
    programs = ("mariadbd", "mariadb-install-db", ("mariadb-slap", "mysqlslap"), "mariadb")

    def start(self):
        user = self.as_user("mysql")
        data, path = f"{self.folder}/db", f"{self.folder}/socket"
        subprocess.run([*user, self.find("mariadb-install-db"), "--no-defaults", f"--datadir={data}",
                        "--auth-root-authentication-method=normal", "--skip-test-db"], check=True,
                       capture_output=True, cwd=self.folder)
        self.server = self.spawn([*user, self.find("mariadbd"), "--no-defaults", f"--datadir={data}",
                                  f"--socket={path}", "--skip-networking",
                                  "--innodb-flush-log-at-trx-commit=0",  # the disk is not what is tested
                                  f"--pid-file={self.folder}/pid"])
        ping = [self.find("mariadb"), "--no-defaults", f"--socket={path}", "-uroot", "-e", "SELECT 1"]
        wait_until(lambda: subprocess.run(ping, check=False, capture_output=True).returncode == 0,
                   self.name)
        self.load = self.spawn([self.find(self.programs[2]), "--no-defaults", f"--socket={path}",
                                "-uroot", "--auto-generate-sql", "--concurrency=4",
                                "--iterations=1000000", "--number-of-queries=4000"])


class Script(Server):
    """An interpreter that allocates and frees all the time, and prints a dot when it has begun."""

    arguments = ()

    def start(self):
        log = open(f"{self.folder}/log", "ab")
        self.server = subprocess.Popen([self.find(self.programs[0]), *self.arguments],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                       cwd=self.folder)
        if self.server.stdout.read(1) != b".":
            raise RuntimeError(f"{self.name} did not start: {self.log_tail()}")

    def stop(self):
        end(self.server, signal.SIGKILL)
        self.server.stdin.close()
        self.server.stdout.close()


class Python(Script):
    name = "python3"
    programs = (("/usr/bin/python3", "python3"),)
    arguments = ("-c", """
import json, random, sys, threading
def work():
    kept = {}
    while True:
        kept[random.randrange(20000)] = json.dumps(list(range(random.randrange(400))))
for _ in range(3): threading.Thread(target=work, daemon=True).start()
blocks = [bytearray(200000 + i) for i in range(100)]
sys.stdout.write("."); sys.stdout.flush(); sys.stdin.read()""")


class Ruby(Script):
    name = "ruby"
    programs = ("ruby",)
    arguments = ("-e", """
3.times { Thread.new { kept = {}
  loop { kept[rand(20000)] = ('a'..'z').to_a.shuffle.join * rand(60) } } }
$stdout.write('.'); $stdout.flush; $stdin.read""")


class Gdb(Script):
    """gdb itself, with the symbols of a large program read."""

    name = "gdb"
    programs = ("/usr/bin/gdb",)
    def start(self):
        self.server = self.spawn([self.find(self.programs[0]), "-q", "-nx", "-batch", "-ex",
                                  "file /usr/bin/gdb", "-ex", "info functions ^main$", "-ex",
                                  "python open('ready', 'w').close()", "-ex",
                                  "python import sys; sys.stdin.buffer.raw.read()"],
                                 stdin=subprocess.PIPE)
        wait_until(lambda: os.path.exists(f"{self.folder}/ready"), self.name)

    def stop(self):
        end(self.server, signal.SIGKILL)
        self.server.stdin.close()


class Web(Server):
    """A web server of an interpreter; it gets the port to listen on as its argument."""

    program = ()

    def start(self):
        self.port = free_port()
        self.server = self.spawn([self.find(self.programs[0]), *self.program, str(self.port)])
        wait_until(lambda: answers(self.port), self.name)


class PythonWeb(Web):
    name = "python3-web"
    programs = (("/usr/bin/python3", "python3"), "wrk")
    program = ("-c", """
import http.server, json, sys
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    def do_GET(self):
        body = json.dumps([{"id": i, "text": "x" * (i * 50)} for i in range(40)]).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *ignored): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()""")


class RubyWeb(Web):
    name = "ruby-web"
    programs = ("ruby", "wrk")
    program = ("-rwebrick", "-e", """
server = WEBrick::HTTPServer.new(BindAddress: '127.0.0.1', Port: ARGV[0].to_i, AccessLog: [],
                                 Logger: WEBrick::Log.new(File::NULL))
server.listeners.each { |socket| socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) }
server.mount_proc('/') { |_, answer| answer.body = (1..200).map { |i| 'x' * i }.join(',') }
server.start""")


class NodeWeb(Web):
    name = "node-web"
    programs = ("node", "wrk")
    program = ("-e", """
require('http').createServer((request, answer) => {
  const rows = []; for (let i = 0; i < 100; i++) rows.push({id: i, text: 'x'.repeat(i)});
  answer.end(Buffer.from(JSON.stringify(rows)));
}).listen(Number(process.argv[1]), '127.0.0.1');""")


ALL = (PostgreSQL, Nginx, MariaDB, Python, Ruby, Gdb, PythonWeb, RubyWeb, NodeWeb)


def by_name(name):
    for server in ALL:
        if server.name == name:
            return server
    sys.exit(f"no server {name}: {', '.join(server.name for server in ALL)}")


def runnable(name):
    """The server of that name; exits 77, with the reason, where this machine cannot run it."""
    server = by_name(name)
    reason = server.missing()
    if not reason and os.getuid() != 0:
        reason = "servers are started as their own users, which needs root"
    if reason:
        print("skipped:", reason)
        sys.exit(77)
    return server
