"""Control groups named as container runtimes name them, with processes in them that have namespaces of their own."""

import contextlib
import os
import pathlib
import secrets
import subprocess

ROOT = pathlib.Path("/sys/fs/cgroup")
# As each runtime has them; {0}: the id, {1}: a pod's UID, {2}: the same as systemd has it, with '_'.
SHAPES = {
    "docker": "docker/{0}",
    "docker_systemd": "system.slice/docker-{0}.scope",
    "podman": "machine.slice/libpod-{0}.scope/container",
    "containerd": "kubepods/burstable/pod{1}/{0}",
    "cri-o": "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{2}.slice/crio-{0}.scope",
}


def new_id():
    return secrets.token_hex(32)


def new_uid():
    digits = secrets.token_hex(16)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def hierarchies():
    """One of version 1 and the one of version 2, whichever can be written to."""
    found = []
    for folder in (ROOT / "pids", ROOT / "unified", ROOT):
        if (folder / "cgroup.procs").exists() and os.access(folder, os.W_OK):
            found.append(folder)
    return found


@contextlib.contextmanager
def group(path, hierarchy):
    """A folder of groups, made with the ones above it; all that was made goes."""
    folder = hierarchy / path
    made = []
    for each in [*reversed(folder.relative_to(hierarchy).parents), folder.relative_to(hierarchy)]:
        if not (hierarchy / each).is_dir():
            (hierarchy / each).mkdir()
            made.append(hierarchy / each)
    try:
        yield folder
    finally:
        for each in reversed(made):
            while each.exists():
                try:
                    each.rmdir()
                except OSError:  # until the kernel has taken the process out of it
                    pass


def shaped(shape, container, pod=None):
    return SHAPES[shape].format(container, pod, (pod or "").replace("-", "_"))


def put_into(folder, pid):
    (folder / "cgroup.procs").write_text(f"{pid}\n", encoding="ascii")


def namespaces(*more):
    """The beginning of a command in namespaces of its own, as a container's process 1."""
    return ["unshare", "--pid", "--mount", "--cgroup", "--fork", "--kill-child", "--mount-proc", *more]


def can_unshare(*more):
    return subprocess.run(namespaces(*more) + ["true"], capture_output=True, check=False).returncode == 0


def only_child(pid):
    (child,) = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(child)
