#!/usr/bin/env python3
"""container:ID and pod:UID in the place of a PID: found by real control groups, whatever namespaces the processes are
in, and what is said where they name no process or several.

    container_targets.py CASE HEAPSNAP
"""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from collect_store import Store
from container_groups import SHAPES, can_unshare, group, hierarchies, namespaces, new_id, new_uid, only_child, \
    put_into, shaped
from kernel_rules import NOBODY, Echo, as_nobody

SKIP = 77
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIP)


def run(heapsnap, *words, code=0, prefix=(), **how):
    done = subprocess.run([*prefix, heapsnap, *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=120, **how)
    assert done.returncode == code, (words, done)
    return done.stderr if code else done.stdout


def pid_of(heapsnap, name):
    """Whom heapsnap takes the name for."""
    return json.loads(run(heapsnap, "doctor", "-j", name))["pid"]


@contextlib.contextmanager
def container(shape, hierarchy, uid=None, more=(), argv=("cat",), first=(), prefix=""):
    """A process that is 1 of its pid namespace and sees its control group as the root; its id, itself and its pid."""
    name = prefix + new_id()[len(prefix):]
    with group(shaped(shape, name, uid or new_uid()), hierarchy) as folder:
        with Echo([*first, *namespaces(*more), *argv], prepare=lambda: put_into(folder, os.getpid())) as target:
            put_into(hierarchy, target.pid)  # unshare(1) stays outside, as a runtime's monitor does
            yield name, target, only_child(target.pid), folder


def by_id(heapsnap):
    """As each runtime names the group: every verb, by the whole id and by 12 digits."""
    found = hierarchies()
    for turn, shape in enumerate(SHAPES):
        with container(shape, found[turn % len(found)]) as (name, target, pid, _):
            for word in (name, name[:12], f"containerd://{name}"):
                assert pid_of(heapsnap, f"container:{word}") == pid, (shape, word)
            target.check_alive()
    hierarchy = found[0]
    with container("docker", hierarchy) as (name, target, pid, folder), tempfile.TemporaryDirectory() as place:
        word = f"container:{name[:12]}"
        run(heapsnap, "attach", word, "-q", "-o", f"{place}/a.hsnap")
        assert json.loads(run(heapsnap, "history", "-j", f"{place}/a.hsnap"))["runs"][0]["pid"] == pid
        assert f"process {pid}: tracker loaded" in run(heapsnap, "inject", word)
        for _ in range(50):
            target.check_alive()
        assert "recorded" in run(heapsnap, "stacks", word)
        run(heapsnap, "watch", word, "--count", "1", "--interval", "10ms")
        assert f"process {pid}: anonymous memory" in run(heapsnap, "trim", word)
        assert f"process {pid}: tracker disabled" in run(heapsnap, "eject", word)
        # What docker exec brings in is not the main process, nor is what that one starts.
        enter = ["nsenter", "--target", str(pid), "--pid", "--mount", "cat"]
        with Echo(enter, prepare=lambda: put_into(folder, os.getpid())) as entered:
            put_into(hierarchy, entered.pid)  # nsenter(1), which stays in the outer pid namespace
            assert pid_of(heapsnap, word) == pid
        with Store(heapsnap) as store:
            store.configure({"web": f'container = "{name[:12]}"'})
            rows, code = store.lines()
            assert code == 0 and rows["web"]["pid"] == pid, rows
        target.check_alive()


def pods(heapsnap):
    """The only process of a pod; of several containers each one is listed with its id."""
    uid = new_uid()
    hierarchy = hierarchies()[0]
    for shape in ("containerd", "cri-o"):
        with container(shape, hierarchy, uid) as (_, _, pid, _):
            for word in (uid, uid[:13], uid.replace("-", "")):
                assert pid_of(heapsnap, f"pod:{word}") == pid, (shape, word)
    with container("containerd", hierarchy, uid) as (first, _, one, _):
        with container("containerd", hierarchy, uid) as (_, _, other, _):
            said = run(heapsnap, "attach", f"pod:{uid}", code=2)
            assert "2 processes are in it, and none started all others" in said, said
            assert re.search(rf"\b{one} cat \([\d.]+ [KM]iB in container:{first[:12]}\)", said), said
            assert f"{other} cat (" in said and "give one of the PIDs, or one of the containers" in said, said
            assert pid_of(heapsnap, f"container:{first[:12]}") == one
    with Store(heapsnap) as store, container("cri-o", hierarchy, uid) as (_, _, pid, _):
        store.configure({"web": f'pod = "{uid}"'})
        rows, code = store.lines()
        assert code == 0 and rows["web"]["pid"] == pid, rows


def refused(heapsnap):
    """What is no id, what nothing runs in, and several processes of which none is the main one."""
    for word, why in (("container:web", "docker inspect -f '{{.Id}}' web"), ("container:", "12 to 64"),
                      ("container:0123456789a", "12 to 64"), ("container:" + "0" * 65, "12 to 64"),
                      ("pod:web-7f9c", "kubectl get pod web-7f9c -o jsonpath='{.metadata.uid}'"),
                      ("container:$(x)", "docker inspect -f '{{.Id}}' NAME")):
        said = run(heapsnap, "attach", word, code=2)
        assert why in said and "do:" in said, said
    hierarchy = hierarchies()[0]
    # The first id is the one that is suggested: one of another test's containers may end before it is tried.
    with container("docker", hierarchy, prefix="0000") as (name, target, pid, folder):
        said = run(heapsnap, "attach", "container:0123456789ab", code=3)
        assert "no process is in it; there are processes in " in said and name[:24] in said, said
        suggested = re.search(r"give one of these: (container:[0-9a-f]+)$", said, re.MULTILINE)[1]
        assert suggested == f"container:{name[:12]}", said
        run(heapsnap, "doctor", suggested)
        # Beside it one that is in no pid namespace: neither is the other's.
        with Echo(prepare=lambda: put_into(folder, os.getpid())) as other:
            said = run(heapsnap, "attach", f"container:{name}", code=2)
            listed = set(map(int, re.findall(r"(\d+) cat \(", said)))
            assert listed == {pid, other.pid} and "give one of the PIDs" in said, said
            run(heapsnap, "doctor", other.pid)
        target.check_alive()
    with tempfile.TemporaryDirectory() as place:
        prefix = new_id()[:14]
        with group(f"docker/{prefix}{new_id()[14:]}", hierarchy) as one, \
                group(f"docker/{prefix}{new_id()[14:]}", hierarchy) as two:
            with Echo(prepare=lambda: put_into(one, os.getpid())) as first, \
                    Echo(prepare=lambda: put_into(two, os.getpid())):
                said = run(heapsnap, "attach", f"container:{prefix}", "-o", f"{place}/a.hsnap", code=2)
                assert one.name[:24] in said and two.name[:24] in said and "give more of the digits" in said, said
                assert pid_of(heapsnap, f"container:{one.name}") == first.pid


def user_namespace(heapsnap):
    """Of another user, who is root in a user namespace (rootless Podman): nothing has to be changed inside."""
    more = ["--user", "--map-root-user"]
    nobody = as_nobody([])
    if subprocess.run([*nobody, *namespaces(*more), "true"], capture_output=True, check=False).returncode != 0:
        skip("no user namespace can be made here")
    with container("docker_systemd", hierarchies()[0], more=more, first=nobody) as (name, target, pid, _), \
            tempfile.TemporaryDirectory() as place:
        outer, inner = (os.readlink(f"/proc/{each}/ns/user") for each in ("self", pid))
        assert outer != inner and os.stat(f"/proc/{pid}").st_uid == NOBODY
        word = f"container:{name[:12]}"
        run(heapsnap, "attach", word, "-q", "-o", f"{place}/a.hsnap")
        assert "tracker loaded" in run(heapsnap, "inject", word)
        target.check_alive()
        assert "recorded" in run(heapsnap, "stacks", word)
        assert "tracker disabled" in run(heapsnap, "eject", word)
        target.check_alive()


SERVER = """#include <stdio.h>
#include <stdlib.h>
void* keep[100];
__attribute__((noinline)) void* {function}(unsigned long size) {{ return malloc(size); }}
int main(void) {{
  char line[99];
  while (fgets(line, 99, stdin)) {{
    for (int i = 0; i < 100; ++i) keep[i] = {function}(1000);
    fputs(line, stdout);
    fflush(stdout);
  }}
  return 0;
}}
"""


def build_server(place, function):
    if shutil.which("cc") is None:
        skip("there is no compiler here")
    source = place.with_suffix(".c")
    source.write_text(SERVER.format(function=function), encoding="ascii")
    subprocess.run(["cc", "-O1", "-fno-optimize-sibling-calls", "-o", place, source], check=True)
    notes = subprocess.run(["readelf", "--notes", place], capture_output=True, text=True, check=True).stdout
    return re.search("Build ID: ([0-9a-f]+)", notes)[1]


def fill_root(root, program):
    """The program and what it needs."""
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"(/\S+) \(0x", needed):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    (root / "proc").mkdir()


# Makes a folder the root folder, as runtimes do, and executes a program in it.
PIVOT = """import ctypes, os, sys
root, program = sys.argv[1:]
libc = ctypes.CDLL(None)
assert libc.mount(root.encode(), root.encode(), None, 4096, None) == 0  # MS_BIND
os.chdir(root)
assert libc.syscall(155, b".", b".") == 0  # pivot_root(2)
assert libc.umount2(b".", 2) == 0  # MNT_DETACH
os.chdir("/")
assert libc.mount(b"proc", b"/proc", b"proc", 0, None) == 0
os.execv(program, [program])
"""


def sidecar(heapsnap):
    """From a container that shares only the pid namespace, with two capabilities: names and build-ids are those of the
    target's root, though this one has another program at the same path."""
    for is_pivoted in (True, False):
        look_from_beside(heapsnap, is_pivoted)


def look_from_beside(heapsnap, is_pivoted):
    hierarchy = hierarchies()[0]
    with tempfile.TemporaryDirectory(prefix="heapsnap-sidecar-") as name:
        place = pathlib.Path(name)
        place.chmod(0o755)
        root = place / "root"
        (root / name[1:]).mkdir(parents=True)
        theirs = build_server(root / name[1:] / "server", "allocate_in_their_root")
        ours = build_server(place / "server", "allocate_in_our_root")
        assert theirs != ours
        fill_root(root, place / "server")
        more, argv = (), (sys.executable, "-c", PIVOT, root, place / "server")
        if not is_pivoted:
            more, argv = (f"--root={root}", "--mount-proc=/proc"), (place / "server",)
        with container("containerd", hierarchy, more=more, argv=argv) as (_, target, pid, _):
            # In its pid namespace, where it is process 1, but with a root and a cgroup namespace of this system.
            capabilities = "-all,+sys_ptrace,+dac_read_search"
            beside = ["nsenter", f"--pid=/proc/{pid}/ns/pid", "unshare", "--mount", "--cgroup", "--fork",
                      "--mount-proc", "setpriv", "--bounding-set", capabilities, "--inh-caps", capabilities]
            run(heapsnap, "attach", "1", "-q", "-o", place / "a.hsnap", prefix=beside)
            row = json.loads(run(heapsnap, "history", "-j", place / "a.hsnap"))
            assert row["runs"][0]["build_id"] == theirs and row["runs"][0]["pid"] == 1, row["runs"]
            assert "tracker loaded" in run(heapsnap, "inject", "server", prefix=beside)
            for _ in range(3):
                target.check_alive()
            said = run(heapsnap, "stacks", "1", "--by", "function", prefix=beside)
            assert "allocate_in_their_root" in said and "allocate_in_our_root" not in said, said
            assert "tracker disabled" in run(heapsnap, "eject", "1", prefix=beside)
            # The same from outside.
            run(heapsnap, "inject", pid)
            target.check_alive()
            said = run(heapsnap, "stacks", pid, "--by", "function")
            assert "allocate_in_their_root" in said and "allocate_in_our_root" not in said, said
            target.check_alive()


def wait_for_adopted():
    """Until no process is left of those that podman has let run on: a conmon ends as `podman container cleanup`,
    which writes into the storage."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def podman(heapsnap):
    """A container that Podman runs, where it can."""
    if shutil.which("podman") is None or not os.path.exists("/bin/busybox"):
        skip("there is no podman with a busybox here")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        (place / "base/bin").mkdir(parents=True)
        shutil.copy("/bin/busybox", place / "base/bin/busybox")
        subprocess.run(["tar", "-C", place / "base", "-cf", place / "base.tar", "."], check=True)
        command = ["podman", "--root", place / "storage", "--runroot", place / "run", "--storage-driver", "vfs",
                   "--cgroup-manager", "cgroupfs", "--events-backend", "file"]
        subprocess.run([*command, "import", place / "base.tar", "heapsnap-test"], check=True, capture_output=True)
        # crun knows no mixture of control groups 1 and 2, and Podman asks for limits that only some may raise to.
        here = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
        refusals = []
        try:
            for runtime, limits in ((None, []), (None, here), ("runc", here)):
                if runtime and not shutil.which(runtime):
                    continue
                if runtime:
                    command[1:1] = ["--runtime", shutil.which(runtime)]
                done = subprocess.run([*command, "run", "--detach", "--replace", "--network", "none", *limits, "--name",
                                       "heapsnap-test", "localhost/heapsnap-test", "/bin/busybox", "sleep", "600"],
                                      capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    break
                refusals.append(done.stderr.strip())
            else:
                skip("podman runs no container here: " + "; ".join(refusals))
            inspected = json.loads(subprocess.run([*command, "inspect", "heapsnap-test"], capture_output=True,
                                                  check=True).stdout)[0]
            word = f"container:{inspected['Id'][:12]}"
            assert pid_of(heapsnap, word) == inspected["State"]["Pid"]
            run(heapsnap, "attach", word, "-q", "-o", place / "a.hsnap")
            report = json.loads(run(heapsnap, "report", "-j", place / "a.hsnap"))
            assert (report["pid"], report["comm"]) == (inspected["State"]["Pid"], "busybox"), (report["pid"], report["comm"])
        finally:
            subprocess.run([*command, "rm", "--force", "--time", "0", "heapsnap-test"], capture_output=True, check=False)
            wait_for_adopted()


CASES = {case.__name__: case for case in (by_id, pods, refused, user_namespace, sidecar, podman)}


def main():
    case, heapsnap = sys.argv[1:]
    if os.geteuid() != 0 or not hierarchies():
        skip("no control groups can be made here")
    if not can_unshare():
        skip("no namespaces can be made here")
    CASES[case](heapsnap)
    return 0


if __name__ == "__main__":
    sys.exit(main())
