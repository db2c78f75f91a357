#!/usr/bin/env python3
"""The tarball with the static program, on other systems than this one.

    static_program.py SOURCE BUILD ROOTS

configures and builds the preset `static` of SOURCE below BUILD, packs it, and runs it in a root folder of
musl's kind (busybox, and no C library) and in ones of other suites (ROOTS, see glibc_roots.sh). Exits 77,
with the reason, where the machine lacks what that takes."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from command_output import output_of
from overlaid_root import reenter, skip

SUITES = ("bullseye", "trixie")
TARGET = ("import sys, os\nkept = [bytes(i % 900 + 1) for i in range(20000)]\nprint('ready', flush=True)\n"
          "sys.stdin.read()\n")


def build(source, folder):
    launcher = []
    if shutil.which("ccache"):
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    output_of("cmake", "--preset", "static", "-B", folder, *launcher, cwd=source)
    output_of("cmake", "--build", folder, "-j", str(os.cpu_count()))
    output_of("cpack", "-G", "TGZ", "-B", folder / "packages", cwd=folder)
    (tarball,) = (folder / "packages").glob("*.tar.gz")
    return tarball


def check_file(program):
    """Needs no loader and no library."""
    headers = output_of("readelf", "--wide", "--program-headers", "--dynamic", program)
    assert "INTERP" not in headers and "NEEDED" not in headers, headers


def unpack(tarball, root):
    (root / "usr/local").mkdir(parents=True, exist_ok=True)
    output_of("tar", "-C", root / "usr/local", "--strip-components=1", "-xf", tarball)
    for folder in ("proc", "tmp", "etc", "var/lib", "run"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n", encoding="ascii")
    output_of("mount", "-t", "proc", "proc", root / "proc")


def check_use(root):
    """Of a process that it sees, and that is another root's: attach, stacks after inject, collect."""
    inside = ["chroot", root, "/usr/local/bin/heapsnap"]
    assert output_of(*inside, "--version").startswith("heapsnap ")
    assert "Nothing prevents attaching" in output_of(*inside, "doctor")
    with subprocess.Popen([sys.executable, "-c", TARGET], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as target:
        target.stdout.readline()
        pid = str(target.pid)
        screen = output_of(*inside, "attach", pid, "-o", "/tmp/a.hsnap")
        assert "used by the program (malloc)" in screen, screen
        assert "malloc     glibc" in screen, screen
        assert "Arenas" in output_of(*inside, "report", "/tmp/a.hsnap")
        assert "tracker loaded" in output_of(*inside, "inject", pid)
        assert "allocation recorded" in output_of(*inside, "stacks", pid)
        assert "tracker disabled" in output_of(*inside, "eject", pid)
        config = root / "usr/local/share/doc/heapsnap/examples/collect.toml"
        text = config.read_text(encoding="utf-8").replace("#[[target]]", "[[target]]")
        for key, value in (("name", '"web"'), ("process", '"python3"')):
            text = re.sub(rf"^#{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
        (root / "etc/heapsnap").mkdir(exist_ok=True)
        (root / "etc/heapsnap/collect.toml").write_text(
            text + '\n[skip]\nmemory_pressure_over = "100%"\nio_pressure_over = "100%"\n', encoding="utf-8")
        assert "web: collected" in output_of(*inside, "collect", "--at-once")
        target.communicate("")


def check_run(program, folder):
    """A program of this system with the tracker that the static one carries."""
    output_of("mount", "-t", "tmpfs", "tmpfs", "/var/cache")  # where the tracker's file goes
    output_of("mount", "-t", "proc", "proc", "/proc")
    snapshot = folder / "run.hsnap"
    output_of(program, "run", "--at-exit", snapshot, "--", sys.executable, "-c", "kept = bytes(100000)")
    assert "every allocation recorded" in output_of(program, "stacks", snapshot)


def main():
    source, folder, roots = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    reenter()
    tarball = build(source, folder)
    listing = output_of("tar", "-tf", tarball).splitlines()
    executables = [name for name in listing if "/bin/" in name and not name.endswith("/")]
    assert [pathlib.Path(name).name for name in executables] == ["heapsnap"], listing
    print(tarball.name, tarball.stat().st_size)
    scripts = pathlib.Path(__file__).parent
    fetched = subprocess.run([scripts / "glibc_roots.sh", roots, *SUITES], check=False).returncode == 0
    with tempfile.TemporaryDirectory() as memory:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", memory], check=True)
        try:
            alone = pathlib.Path(memory) / "alone"
            unpack(tarball, alone)
            check_file(alone / "usr/local/bin/heapsnap")
            check_use(alone)
            check_run(alone / "usr/local/bin/heapsnap", pathlib.Path(memory))
            print("in a root folder without a C library: passed")
            for suite in SUITES if fetched else ():
                root = pathlib.Path(memory) / suite
                shutil.copytree(roots / suite, root, symlinks=True)
                unpack(tarball, root)
                check_use(root)
                print(f"in a root folder of {suite}: passed")
        finally:
            output_of("umount", "--recursive", "--lazy", memory)
    if not fetched:
        skip("the root folders of other suites cannot be fetched")
    return 0


if __name__ == "__main__":
    sys.exit(main())
