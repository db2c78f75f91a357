#!/usr/bin/env python3
"""heapsnap push, byte by byte, against servers on loopback that this test is itself.

    push.py CASE HEAPSNAP
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from pprof_profile import Profile
from tracked_cat import TrackedCat

SKIP = 77
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def answer(status, *headers, body=b""):
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Server:
    """Takes connections one after the other; `answers[i]` is sent to the i-th after its whole request, or called with
    the connection. `requests` is what came: (first line, headers, body)."""

    def __init__(self, *answers, context=None):
        self.answers, self.context, self.requests = answers, context, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(30)

    def serve(self):
        for each in self.answers:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection:
                if self.context:
                    connection = self.context.wrap_socket(connection, server_side=True)
                self.requests.append(self.read(connection))
                if callable(each):
                    each(connection)
                else:
                    connection.sendall(each)

    @staticmethod
    def read(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536) or sys.exit("a request was cut off")
        head, body = data.split(b"\r\n\r\n", 1)
        first, *headers = head.decode().split("\r\n")
        length = int(dict(line.split(": ", 1) for line in headers)["Content-Length"])
        while len(body) < length:
            body += connection.recv(65536) or sys.exit("a body was cut off")
        return first, headers, body


class Work:
    def __init__(self, heapsnap, folder):
        self.heapsnap, self.folder = heapsnap, pathlib.Path(folder)
        self.snapshot = self.folder / "tracked.hsnap"

    def track(self):
        """A snapshot of a program that was tracked from its start."""
        subprocess.run([self.heapsnap, "run", "--at-exit", self.snapshot, "--", sys.executable, "-c",
                        "kept = [bytes(i) for i in range(600, 3000)]"], check=True)
        return self.snapshot

    def push(self, *options, code=0, **environment):
        clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        begin = time.monotonic()
        done = subprocess.run([self.heapsnap, "push", *map(str, options)], capture_output=True, text=True,
                              env={**clean, **environment}, timeout=120)
        self.took = time.monotonic() - begin
        assert done.returncode == code, done
        return done

    def exported(self):
        file = self.folder / "exported.pb.gz"
        subprocess.run([self.heapsnap, "export", self.snapshot, "--format", "pprof", "-f", "-o", file], check=True)
        return Profile(file.read_bytes())

    def facts(self):
        lines = subprocess.run([self.heapsnap, "export", self.snapshot, "--format", "ndjson", "--rows", "sums"],
                               capture_output=True, text=True, check=True).stdout.splitlines()
        return json.loads(lines[-1])


def request(work):
    """Method, path, headers and body are exactly these, and the body has the samples of the export."""
    work.track()
    with Server(OK) as server:
        done = work.push("--to", server.url + "/base/", "--label", "zone=a,b", work.snapshot)
    (first, headers, body), = server.requests
    facts = work.facts()
    second = facts["taken_at_ms"] // 1000
    name = f"python3{{host={facts['host']},pid={facts['pid']},build_id={facts['build_id']},zone=a_b}}"
    assert first == (f"POST /base/ingest?name={urllib.parse.quote(name, safe='')}&from={second}&until={second + 1}"
                     "&format=pprof&spyName=heapsnap HTTP/1.1"), first
    version = subprocess.run([work.heapsnap, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    assert headers == [f"Host: {server.url[7:]}", "Accept: */*", "Content-Type: application/octet-stream",
                       f"User-Agent: heapsnap/{version}", f"Content-Length: {len(body)}"], headers
    pushed, exported = Profile(body), work.exported()
    assert pushed.types == ["inuse_objects", "inuse_space"], pushed.types
    assert pushed.time // 1_000_000 == facts["taken_at_ms"], pushed.time
    in_use = exported.only("inuse_objects", "inuse_space")
    assert pushed.only("inuse_objects", "inuse_space") == in_use and len(in_use) == len(pushed.samples) > 5, (len(in_use), len(pushed.samples))
    assert sum(values[1] for _, values in in_use) > 100_000, len(in_use)
    assert done.stdout.startswith("pushed ") and f" as {name} (" in done.stdout and not done.stderr, done


def process(work):
    """A process by its pid; one that is not tracked is refused before anything is sent."""
    with TrackedCat(work.heapsnap) as tracked, Server(OK) as server:
        pid = tracked.pid
        work.push("--to", server.url, "--name", "copier", "-q", pid)
        untracked = work.push("--to", server.url, os.getpid(), code=5)
    (first, _, body), = server.requests
    assert "name=copier%7Bhost%3D" in first and f"pid%3D{pid}%2C" in first, first
    assert Profile(body).samples
    assert "it is not tracked" in untracked.stderr and "heapsnap inject" in untracked.stderr, untracked


def later(work):
    """503, 429 and connections that end are tried again; Retry-After is waited for."""
    work.track()
    with Server(answer(503, body=b"busy"), lambda connection: None, answer(429, "Retry-After: 2"), OK) as server:
        done = work.push("--to", server.url, work.snapshot)
    assert len(server.requests) == 4 and len({body for _, _, body in server.requests}) == 1, server.requests
    assert work.took >= 2.5, work.took
    assert "the server answered 503: busy; again in " in done.stderr and "answered 429; again in 2.0 s" in done.stderr, done
    with Server(answer(503), answer(500), answer(502), OK) as server:
        done = work.push("--to", server.url, "--retries", "2", work.snapshot, code=7)
    assert len(server.requests) == 3 and "answered 502 (3 attempts)" in done.stderr, done
    with Server(answer(503, "Retry-After: 9999"), OK) as server:
        done = work.push("--to", server.url, work.snapshot, code=7)
    assert len(server.requests) == 1 and "asks to wait 9999 s" in done.stderr and work.took < 10, done


def refused(work):
    """Other answers are final: what the server said, and what to do. A redirect is not followed."""
    work.track()
    for status, words in ((400, "the server's log says more"), (401, "--header-file FILE"), (404, "before /ingest"),
                          (413, "raise the server's limit"), (301, "redirects to"), (501, "the server's log says more")):
        with Server(answer(status, "Location: http://127.0.0.1:1/", body=b"no\x1b[2J\n"), OK) as server:
            done = work.push("--to", server.url, work.snapshot, code=7)
        assert len(server.requests) == 1, (status, server.requests)
        assert f"the server answered {status}: no" in done.stderr and words in done.stderr, done
        assert "\x1b" not in done.stderr, done


def missing(work):
    """A snapshot that is not there is called that, and is not looked for among the processes."""
    for word in ("missing.hsnap", "snaps/missing"):
        for command in (["push", "--to", "http://127.0.0.1:1", word], ["stacks", word]):
            done = subprocess.run([work.heapsnap, *command], capture_output=True, text=True, check=False, cwd=work.folder)
            assert done.returncode == 6 and f"cannot open {word}" in done.stderr and "ENOENT" in done.stderr, done
    for word in ("missing", "container:containerd://" + "0" * 64):
        done = subprocess.run([work.heapsnap, "push", "--to", "http://127.0.0.1:1", word], capture_output=True, text=True,
                              check=False, cwd=work.folder)
        assert done.returncode == 3 and "process" in done.stderr, done


def connection(work):
    """A port where nobody listens, a name that does not exist, and a server that never answers."""
    work.track()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    done = work.push("--to", f"http://127.0.0.1:{port}", "--retries", "1", work.snapshot, code=7)
    assert "refused" in done.stderr.lower() or "connect" in done.stderr.lower(), done
    assert "(2 attempts)" in done.stderr and "that the server runs" in done.stderr, done
    done = work.push("--to", "http://nowhere.invalid", "--retries", "0", work.snapshot, code=7)
    assert "nowhere.invalid" in done.stderr, done
    ended = threading.Event()
    with Server(lambda connection: ended.wait(60)) as server:
        done = work.push("--to", server.url, "--retries", "0", "--timeout", "1s", work.snapshot, code=7)
        ended.set()
    assert 1 <= work.took < 15 and "timed out" in done.stderr.lower(), (work.took, done)


def hostile(work):
    """Answers without an end: of headers, of a body, and byte by byte."""
    work.track()

    def endless(first, piece, pause=0.0):
        def send(connection):
            connection.sendall(first)
            with contextlib.suppress(OSError):
                for _ in range(100_000):
                    connection.sendall(piece)
                    time.sleep(pause)
        return send

    def push(action, code):
        with Server(action) as server:
            done = work.push("--to", server.url, "--retries", "0", "--timeout", "5s", work.snapshot, code=code)
        assert work.took < 30, work.took
        return done

    push(endless(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 65536), 0)
    done = push(endless(b"HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"8000\r\n" + b"y" * 0x8000 + b"\r\n"), 7)
    assert "answered 400: yyyy" in done.stderr and len(done.stderr) < 1000, done
    push(endless(b"HTTP/1.1 400 No\r\n", b"X-Long: " + b"z" * 4096 + b"\r\n"), 7)
    done = push(endless(b"HTTP/1.1 200 OK\r\n", b"X", 0.1), 7)
    assert "timed out" in done.stderr.lower(), done
    done = push(b"not HTTP at all\r\n\r\n" * 100, 7)
    assert "a server of HTTP" in done.stderr and "certificate" not in done.stderr, done


def credentials(work):
    """From a file or the environment; never on the command line, and never in a message."""
    work.track()
    headers = work.folder / "headers"
    headers.write_text("# of the test\nAuthorization: Bearer secret\n\nX-Scope-OrgID: tenant\n", encoding="ascii")
    with Server(OK, OK) as server:
        work.push("--to", server.url, "--header-file", headers, "-q", work.snapshot)
        work.push("--to", server.url, "-q", work.snapshot, HEAPSNAP_PUSH_HEADERS="Authorization: Basic c2VjcmV0")
    assert {"Authorization: Bearer secret", "X-Scope-OrgID: tenant"} <= set(server.requests[0][1]), server.requests
    assert "Authorization: Basic c2VjcmV0" in server.requests[1][1], server.requests
    headers.write_text("Authorization Bearer secret\n", encoding="ascii")
    done = work.push("--to", server.url, "--header-file", headers, work.snapshot, code=2)
    assert "line 1 of " in done.stderr and "secret" not in done.stderr, done
    done = work.push("--to", "http://user:secret@127.0.0.1:1", work.snapshot, code=2)
    assert "--header-file" in done.stderr and "secret" not in done.stderr, done
    for options in ((), ("--to", server.url), ("--to", "127.0.0.1:4040", work.snapshot),
                    ("--to", server.url, "--label", "x", work.snapshot)):
        work.push(*options, code=2)
    damaged = work.folder / "damaged.hsnap"
    damaged.write_bytes(work.snapshot.read_bytes()[:5000])
    work.push("--to", server.url, damaged, code=6)


def certificates(work):
    """A server that the system does not trust gets nothing; with --ca-file it does, under its own name only."""
    if shutil.which("openssl") is None:
        print("skipped: there is no openssl here")
        sys.exit(SKIP)
    work.track()

    def context(name):
        files = ["-keyout", work.folder / f"{name}.key", "-out", work.folder / f"{name}.pem"]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                        "-addext", f"subjectAltName={name}", *files], check=True, capture_output=True)
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(work.folder / f"{name}.pem", work.folder / f"{name}.key")
        return made

    right, wrong = "IP:127.0.0.1", "IP:127.0.0.9"
    with Server(OK, context=context(right)) as server:
        done = work.push("--to", server.url, work.snapshot, code=7)
    assert not server.requests and "certificate" in done.stderr and "--ca-file" in done.stderr, done
    with Server(OK, context=context(right)) as server:
        work.push("--to", server.url, "--ca-file", work.folder / f"{right}.pem", work.snapshot)
    assert len(server.requests) == 1
    with Server(OK, context=context(wrong)) as server:
        work.push("--to", server.url, "--ca-file", work.folder / f"{wrong}.pem", work.snapshot, code=7)
    assert not server.requests


def pprof(work):
    """`go tool pprof` reads the export: its sum is that of `heapsnap stacks`, of its types and functions too."""
    if shutil.which("go") is None:
        print("skipped: there is no go here (golang-go)")
        sys.exit(SKIP)
    work.track()
    work.exported()
    file = work.folder / "exported.pb.gz"
    stacks = json.loads(subprocess.run([work.heapsnap, "stacks", work.snapshot, "-j", "--all"], capture_output=True,
                                       text=True, check=True).stdout)
    raw = subprocess.run(["go", "tool", "pprof", "-raw", file], capture_output=True, text=True, check=True).stdout
    assert "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes[dflt]" in raw, raw[:500]
    values = [list(map(int, re.findall(r"\d+", line)[:4])) for line in raw.splitlines() if re.match(r"\s+\d+\s+\d+\s+\d+\s+\d+: ", line)]
    assert sum(row[2] for row in values) == stacks["live_blocks"], (len(values), stacks["live_blocks"])
    assert sum(row[3] for row in values) == stacks["live_bytes"], stacks["live_bytes"]
    top = subprocess.run(["go", "tool", "pprof", "-top", "-unit", "B", file], capture_output=True, text=True, check=True).stdout
    assert "Type: inuse_space" in top and re.search(r"_Py|Py[A-Z]|python", top), top
    untracked = work.folder / "untracked.hsnap"
    subprocess.run([work.heapsnap, "attach", str(os.getpid()), "-q", "-o", untracked], check=True)
    done = subprocess.run([work.heapsnap, "export", untracked, "--format", "pprof", "--by", "stacks", "-o",
                           work.folder / "none"], capture_output=True, text=True)
    assert done.returncode == 5 and "was not tracked" in done.stderr and not (work.folder / "none").exists(), done


def document(work):
    """The commands of docs/fleet.md that push, as they stand there."""
    work.track()
    text = (pathlib.Path(__file__).parents[2] / "docs/fleet.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- run: push -->\n```sh\n(.*?)```", text, re.DOTALL)
    commands = [line.split("#")[0].strip() for line in block.splitlines()]
    (work.folder / "push").write_text("X-Scope-OrgID: tenant\n", encoding="ascii")
    with TrackedCat(work.heapsnap) as tracked, Server(*[OK] * len(commands)) as server:
        for command in commands:
            for here, there in (("http://localhost:4040", server.url), ("a.hsnap", str(work.snapshot)), ("4242", tracked.pid),
                                ("/etc/heapsnap/push", str(work.folder / "push"))):
                command = command.replace(here, there)
            work.push(*command.removeprefix("heapsnap push ").split())
    assert len(server.requests) == len(commands) > 1, server.requests
    assert all(Profile(body).samples for _, _, body in server.requests)


def main():
    case, heapsnap = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="heapsnap-push-") as folder:
        globals()[case](Work(heapsnap, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
