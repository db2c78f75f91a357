#!/usr/bin/env python3
"""The page of `heapsnap view`: what is in it, what a browser shows of it, and whether its program is the one of its sources.

    view.py page|refusals|browser|postgresql|mariadb HEAPSNAP GROWING_HOLDER KNOWN_LEAKS LEAK_HOLDER LEAKY_SERVER NPM_FOLDER
    view.py bundle SOURCE_FOLDER NPM_FOLDER

Exits 77 where there is no browser, no node or no npm."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import reference_sources
import servers
from fleet import install_package, skip

HERE = pathlib.Path(__file__).parent
MOST_LOOKS = 40
MOST_OWNERS = 1000
HOSTILE_COMM = "</script><b>\u202e"  # at most 15 bytes; what follows is written from right to left
HOSTILE_SHOWN = "</script><b>\\u202e process "


class Work:
    """Snapshots, pages of them, and what heapsnap's other commands say."""

    def __init__(self, heapsnap, growing_holder, known_leaks, leak_holder, leaky_server, folder):
        self.heapsnap, self.growing_holder = heapsnap, growing_holder
        self.known_leaks, self.leak_holder, self.leaky_server = known_leaks, leak_holder, leaky_server
        self.folder = pathlib.Path(folder)

    def attach(self, pid, name, references="yes"):
        path = self.folder / name
        subprocess.run([self.heapsnap, "attach", str(pid), "-q", "-f", "--references", references, "-o", path], check=True)
        return path

    def grown(self):
        """Three snapshots of a tracked program that grows."""
        with subprocess.Popen([self.heapsnap, "run", "--", self.growing_holder, "0"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            paths = []
            for step in range(3):
                if step > 0:
                    process.stdin.write(f"{step}\n")
                    process.stdin.flush()
                while process.stdout.readline() != "ready\n":
                    pass
                children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
                paths.append(self.attach(children.split()[0], f"grown{step}.hsnap"))
            process.stdin.close()
        return paths

    def large(self):
        """Of a tracked program with a heap of tens of megabytes, in several arenas."""
        with subprocess.Popen([self.heapsnap, "run", "--", self.leaky_server, "30"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            path = self.attach(process.stdout.readline().split()[-1], "large.hsnap", "no")
            process.stdin.close()
        return path

    def leaking(self, references="yes"):
        with subprocess.Popen([self.known_leaks, self.leak_holder], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            reference_sources.said_blocks(process.stdout)
            path = self.attach(process.pid, f"{process.pid}.hsnap", references)
            process.stdin.close()
        return path

    def served(self, name):
        """What the pages of a server under load are to show: as it came, and tracked."""
        kind = servers.runnable(name)
        os.chmod(self.folder, 0o755)
        server = kind(self.folder)
        shown = []
        try:
            server.start()
            pid = server.pids()[-1]
            plain = self.attach(pid, f"{name}.hsnap")
            subprocess.run([self.heapsnap, "inject", str(pid)], check=True, stdout=subprocess.DEVNULL)
            tracked = self.attach(pid, f"{name}-tracked.hsnap")
            for _ in range(MOST_LOOKS):  # until it has allocated something that it keeps for a moment
                if self.json("stacks", tracked, "--all")["live_blocks"] > 0:
                    break
                tracked = self.attach(pid, f"{name}-tracked.hsnap")
            assert server.healthy() is None, server.healthy()
        finally:
            server.stop()
        for what, path in ((name, plain), (f"{name}, tracked", tracked)):
            said = {each: self.json(each, path) for each in ("report", "owners", "leaks")}
            stacks = {"stacks": self.json("stacks", path, "--all")} if path == tracked else {}
            shown.append({"name": what, "file": str(self.view(path)), **said, **stacks})
        return shown

    def hostile(self):
        """Of a process whose names are markup."""
        rename = "import ctypes, sys; ctypes.CDLL(None).prctl(15, sys.argv[1].encode()); print('ready', flush=True); sys.stdin.read()"
        folder = self.folder / "<img src=x onerror=alert(1)>" / "<"
        folder.mkdir(parents=True)
        program = shutil.copy(os.path.realpath(sys.executable), folder / "script>")
        with subprocess.Popen([program, "-S", "-c", rename, HOSTILE_COMM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONHOME": sys.base_prefix}) as process:
            assert process.stdout.readline() == "ready\n"
            path = self.attach(process.pid, "hostile.hsnap")
            process.stdin.close()
        return path

    def view(self, *snapshots):
        page = self.folder / f"{len(list(self.folder.iterdir()))}.html"
        done = subprocess.run([self.heapsnap, "view", *snapshots, "-o", page], capture_output=True, text=True, check=True)
        assert done.stdout == f"{page}: open it in a browser\n" and done.stderr == "", done
        return page

    def json(self, *words):
        done = subprocess.run([self.heapsnap, *words, "-j"], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done
        return json.loads(done.stdout)


def parts(page):
    """The documents of a page, and the page without them."""
    text = page.read_text(encoding="utf-8")
    scripts = re.compile(r'<script type="([^"]*)" id="(\w+)">([^<]*)</script>\n')
    documents = {name: json.loads(inner) if kind == "application/json" else inner for kind, name, inner in scripts.findall(text)}
    return documents, scripts.sub("", text)


def without(document, *names):
    return {name: value for name, value in document.items() if name not in names}


def same_holds(page, said, where):
    """What the command lists below an owner is in the page; the page lists more."""
    for i, blocks in enumerate(said):
        assert without(page[i], "holds") == without(blocks, "holds"), where
        same_holds(page[i].get("holds", []), blocks.get("holds", []), where)


def page(work, _):
    """The documents are what the commands print, names are no markup, and the policy lets nothing out."""
    snapshots = work.grown()
    leaking = work.leaking()
    hostile = work.hostile()
    for paths in (snapshots, [leaking], [hostile]):
        documents, rest = parts(work.view(*paths))
        newest = paths[-1]
        report = work.json("report", newest)
        assert documents["report"] == report, newest
        owners = work.json("owners", newest)
        assert without(documents["owners"], "owners") == without(owners, "owners")
        assert len(documents["owners"]["owners"]) == min(len(owners["owners"]), MOST_OWNERS)
        for ours, said in zip(documents["owners"]["owners"], owners["owners"]):
            assert without(ours, "holds") == without(said, "holds")
            same_holds(ours.get("holds", []), said.get("holds", []), said["root"])
        assert documents["leaks"] == work.json("leaks", newest)
        flame = documents["flame"]
        tracked = work.json("stacks", newest, "--all") if "tracking" in report else None
        total = tracked["live_bytes"] if tracked else owners["bytes_in_use"]
        assert flame["bytes"] == sum(node[2] for node in flame["nodes"]) == total, (flame["bytes"], total)
        assert all(node[0] < i for i, node in enumerate(flame["nodes"]) if i > 0)
        assert ("diff" in documents) == ("history" in documents) == (len(paths) > 1)
        assert documents["view"]["owners_left_out"] == max(len(owners["owners"]) - MOST_OWNERS, 0)
        assert rest.count("<script") == 1 and "heapsnap-data" not in rest
        assert "default-src 'none'" in rest and "connect-src" not in rest and "unsafe-inline'; script" not in rest
        assert not re.search(r'(?:src|href)=["\']?(?:https?:)?//', rest), "it loads something"
    documents, _ = parts(work.view(*snapshots))
    assert documents["diff"] == work.json("diff", *snapshots)
    assert documents["history"] == work.json("history", *snapshots)
    assert [len(node) for node in documents["flame"]["nodes"]] == [6] * len(documents["flame"]["nodes"])
    # The same snapshots give the same page.
    assert work.view(*snapshots).read_bytes() == work.view(*snapshots).read_bytes()
    assert parts(work.view(hostile))[0]["report"]["comm"] == HOSTILE_COMM


def refusals(work, _):
    """What cannot be is said, with what to do; what a snapshot lacks is left out."""
    plain = work.leaking(references="no")
    documents, _ = parts(work.view(plain))
    assert not {"owners", "leaks", "flame"} & set(documents) and "why_no_references" in documents["report"], sorted(documents)
    target = work.folder / "none.html"

    def refused(code, said, *words):
        done = subprocess.run([work.heapsnap, "view", *words], capture_output=True, text=True, check=False)
        assert done.returncode == code and said in done.stderr and not target.exists(), done

    refused(2, "-o FILE", plain)
    refused(2, "-o FILE", "-o", target)
    refused(2, "at most 100", *[plain] * 101, "-o", target)
    refused(2, "heapsnap attach --references yes", str(os.getpid()), "-o", target)
    damaged = work.folder / "damaged.hsnap"
    damaged.write_bytes(plain.read_bytes()[:-100])
    refused(6, "damaged.hsnap", damaged, "-o", target)
    target.write_text("mine", encoding="utf-8")
    done = subprocess.run([work.heapsnap, "view", plain, "-o", target], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and target.read_text(encoding="utf-8") == "mine", done
    subprocess.run([work.heapsnap, "view", plain, "-f", "-o", target], check=True, stdout=subprocess.DEVNULL)
    assert target.stat().st_mode & 0o777 == 0o600


def in_browser(work, npm_folder, expected):
    """What view.cjs does with these pages."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        skip("there is no chromium here: apt-get install chromium")
    for name in ("playwright-core", "axe-core"):
        install_package(name, npm_folder)
    file = work.folder / "expected.json"
    file.write_text(json.dumps(expected), encoding="utf-8")
    done = subprocess.run(["node", HERE / "view.cjs", program, file], capture_output=True, text=True, check=False, timeout=400)
    print(done.stdout, done.stderr, sep="", end="")
    assert done.returncode == 0


def browser(work, npm_folder):
    """A person's clicks and keys, and what the page says then: of programs made for it, and of nginx."""
    snapshots, leaking, large, hostile = work.grown(), work.leaking(), work.large(), work.hostile()
    newest = snapshots[-1]
    expected = {
        "grown": {"file": str(work.view(*snapshots)), "report": work.json("report", newest), "owners": work.json("owners", newest),
                  "stacks": work.json("stacks", newest, "--all"), "diff": work.json("diff", *snapshots)},
        "leaking": {"file": str(work.view(leaking)), "leaks": work.json("leaks", leaking)},
        "large": {"file": str(work.view(large)), "report": work.json("report", large)},
        "hostile": {"file": str(work.view(hostile)), "title": HOSTILE_SHOWN},
        "servers": work.served("nginx") if servers.Nginx.missing() is None and os.getuid() == 0 else [],
    }
    assert expected["leaking"]["leaks"]["groups"], "nothing is leaked"
    in_browser(work, npm_folder, expected)


def postgresql(work, npm_folder):
    """A backend of PostgreSQL under load."""
    in_browser(work, npm_folder, {"servers": work.served("postgresql")})


def mariadb(work, npm_folder):
    """MariaDB under load."""
    in_browser(work, npm_folder, {"servers": work.served("mariadb")})


def bundle(source, npm_folder):
    """dist/page.html is what build.mjs makes of src/ with the packages of the lock file."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        skip("there is no npm here")
    viewer = pathlib.Path(source, "tools/viewer")
    lock = (viewer / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in re.sub(r'"(?:url|funding)": "[^"]*"', "", lock), "the lock file names a host"
    folder = pathlib.Path(npm_folder, "viewer")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", ".npmrc", "build.mjs", "tsconfig.json"):
        shutil.copy(viewer / name, folder / name)
    shutil.rmtree(folder / "src", ignore_errors=True)
    shutil.copytree(viewer / "src", folder / "src")
    done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        skip(f"npm cannot install the viewer's packages: {done.stderr[-300:]}")
    subprocess.run(["npx", "tsc", "--noEmit"], cwd=folder, check=True)
    made = folder / "page.html"
    subprocess.run(["node", "build.mjs", made], cwd=folder, check=True)
    assert made.read_bytes() == (viewer / "dist/page.html").read_bytes(), \
        "tools/viewer/dist/page.html is not what its sources give: cd tools/viewer && npm ci && node build.mjs"
    check_labels(folder)
    check_growth_words(source)


def check_growth_words(source):
    """Growth has a title for all that a diff adds up by, and words for each reason why it may not: those of docs/json.md."""
    [row] = re.findall(r"^\| `sections\[\]` \|.*$", pathlib.Path(source, "docs/json.md").read_text(encoding="utf-8"), re.MULTILINE)
    kinds = re.findall(r"`(\w+)`", re.search(r"`by` \(([^)]*)\)", row)[1])
    reasons = re.findall(r"`([\w-]+)`", re.search(r"`lacks\[\]` \(([^)]*)\)", row)[1])
    growth = pathlib.Path(source, "tools/viewer/src/growth.ts").read_text(encoding="utf-8")
    assert len(kinds) >= 9 and len(reasons) >= 5, row
    assert [word for word in kinds if f" {word}: " not in growth] == []
    assert [word for word in reasons if f'"{word}": ' not in growth] == []


# What heapsnap's text calls such owners (lib/report/owner_labels.h has examples).
LABELS = {
    "g_cache in server": {"root": "g_cache", "kind": "variable", "module": "/opt/server", "module_offset": 64},
    "server+0x40": {"root": "", "kind": "variable", "module": "/opt/server", "module_offset": 64},
    "Cache::STORE": {"root": "Cache::STORE", "kind": "global", "module": "/usr/lib/libruby.so"},
    "orders in handle() at app.py:42, thread 7":
        {"root": "orders in handle() at app.py:42", "kind": "local", "module": "/usr/bin/python3.11", "tid": 7},
    "orders in handle() at app.py, 64 threads (worker-*)":
        {"root": "orders in handle() at app.py", "kind": "local", "module": "/usr/bin/python3.11", "threads": 64,
         "thread_family": "worker-*"},
    "t_buffer in server, thread-local of 12 threads (worker)":
        {"root": "t_buffer", "kind": "thread-local", "module": "/opt/server", "threads": 12, "thread_family": "worker"},
    "t_buffer in server, thread-local of thread 7": {"root": "t_buffer", "kind": "thread-local", "module": "/opt/server", "tid": 7},
    "64 threads (worker-*), in handle(Request&) in server":
        {"root": "handle(Request&)", "kind": "stack", "module": "/opt/server", "threads": 64, "thread_family": "worker-*"},
    "thread 7, on its stack": {"root": "", "kind": "stack", "tid": 7, "addr": "0x7f00"},
    "thread 7, in register rbx": {"root": "rbx", "kind": "register", "tid": 7},
    "anonymous memory at 0x7f00": {"root": "", "kind": "mapping", "addr": "0x7f00"},
    "[heap]": {"root": "[heap]", "kind": "mapping", "addr": "0x7f00"},
    "g_0 and g_1 together": {"root": "", "kind": "several", "root_count": 2,
                             "roots": [{"root": f"g_{i}", "kind": "variable", "module": "/opt/server"} for i in range(2)]},
    "g_0, g_1, g_2 and 2 more variables, together":
        {"root": "", "kind": "several", "root_count": 5, "roots": [{"root": f"g_{i}", "kind": "variable"} for i in range(5)]},
    "g_0 and 1,851 more roots, together":
        {"root": "", "kind": "several", "root_count": 1852,
         "roots": [{"root": f"g_{i}", "kind": "variable", "module": "m"} for i in range(16)]},
    "g_0, g_1, g_2 and 1 more root, together":
        {"root": "", "kind": "several", "root_count": 4,
         "roots": [{"root": f"g_{i}", "kind": "variable"} for i in range(3)] + [{"root": "main", "kind": "stack", "tid": 1}]},
}


def check_labels(folder):
    """The page calls owners what the text calls them."""
    made = folder / "labels.cjs"
    subprocess.run(["npx", "esbuild", "src/labels.ts", "--bundle", "--format=cjs", "--log-level=error", f"--outfile={made}"], cwd=folder, check=True)
    program = "const {ownerLabel} = require(process.argv[1]); console.log(JSON.stringify(JSON.parse(process.argv[2]).map(ownerLabel)));"
    said = subprocess.run(["node", "-e", program, made, json.dumps(list(LABELS.values()))], capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == list(LABELS), said


def main():
    case, *arguments = sys.argv[1:]
    if case == "bundle":
        bundle(*arguments)
        return 0
    with tempfile.TemporaryDirectory(prefix="heapsnap-view-") as folder:
        work = Work(*arguments[:5], folder)
        globals()[case](work, pathlib.Path(arguments[5]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
