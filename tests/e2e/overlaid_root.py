"""This system's root folder under a layer that takes every change, and is gone with the process: packages can be
installed in it, services run, and everything looked at afterwards.

A test calls reenter() first, which runs it again in namespaces of its own; there it makes one OverlaidRoot."""

import os
import pathlib
import subprocess
import sys
import tempfile

SKIP = 77
MARK = "HEAPSNAP_TEST_IN_NAMESPACE"


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIP)


def reenter():
    """Returns in the run that has mounts and processes of its own."""
    if os.environ.get(MARK):
        return
    if os.geteuid() != 0:
        skip("it takes root to install packages")
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    if subprocess.run(namespaces + ["true"], check=False).returncode != 0:
        skip("no namespaces can be made here")
    done = subprocess.run(namespaces + [sys.executable, "-B"] + sys.argv, check=False, env=os.environ | {MARK: "1"})
    sys.exit(done.returncode)


class OverlaidRoot:
    def __init__(self, lower="/"):
        self.lower = pathlib.Path(lower)
        self.memory = pathlib.Path(tempfile.mkdtemp(prefix="heapsnap-root-"))
        self.mount("-t", "tmpfs", "tmpfs", self.memory)
        self.upper, self.root = self.memory / "upper", self.memory / "root"
        for folder in (self.upper, self.memory / "work", self.root):
            folder.mkdir()
        if self.mount("-t", "overlay", "overlay", self.root, "-o",
                      f"lowerdir={lower},upperdir={self.upper},workdir={self.memory}/work") != 0:
            skip("no overlay can be mounted here")
        for folder in ("proc", "dev", "run", "tmp"):
            (self.root / folder).mkdir(exist_ok=True)
        self.mount("-t", "proc", "proc", self.root / "proc")
        self.mount("--rbind", "/dev", self.root / "dev")
        for folder in ("run", "tmp"):
            self.mount("-t", "tmpfs", "tmpfs", self.root / folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "--recursive", "--lazy", self.root], check=False)
        subprocess.run(["umount", "--lazy", self.memory], check=False)
        self.memory.rmdir()

    @staticmethod
    def mount(*arguments):
        return subprocess.run(["mount", *arguments], check=False).returncode

    def start(self, *command, **how):
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8",
                       "DEBIAN_FRONTEND": "noninteractive", "TERM": "dumb"} | how.pop("environment", {})
        return subprocess.Popen(["chroot", self.root, *command], env=environment, text=True, **how)

    def run(self, *command, expected=0, **how):
        """What the command printed, with its errors; its exit code is as `expected`."""
        done = self.start(*command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **how)
        output = done.communicate()[0]
        assert done.returncode == expected, f"{command}: {done.returncode}\n{output}"
        return output

    def write(self, path, text):
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def added(self):
        """Paths that the root below does not have, the topmost ones only."""
        found = []
        for folder, names, files in os.walk(self.upper):
            inside = pathlib.Path("/") / os.path.relpath(folder, self.upper)
            for name in list(names):
                if not os.path.lexists(self.lower / (inside / name).relative_to("/")):
                    found.append(str(inside / name))
                    names.remove(name)
            for name in files:
                status = os.lstat(os.path.join(folder, name))
                is_removal = status.st_rdev == 0 and (status.st_mode & 0o170000) == 0o020000
                if not is_removal and not os.path.lexists(self.lower / (inside / name).relative_to("/")):
                    found.append(str(inside / name))
        return sorted(found)
