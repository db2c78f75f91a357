#!/usr/bin/env python3
"""The container image, and what the Kubernetes manifests do with it.

    container_image.py SOURCE PACKAGES

builds the image of packaging/container from the tarball in PACKAGES with podman, on a base that is busybox and
nothing else, and runs the sidecar's and the debug container's commands in its root folder, as the manifests say:
read-only, with their capabilities alone, beside processes of other users and roots. (Namespaces and control groups
are those of the test: podman itself need not be able to run containers here.) Exits 77, with the reason, where
the machine lacks what that takes."""

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from command_output import output_of
from overlaid_root import reenter, skip

PR_CAPBSET_DROP = 24
CAPABILITIES = {"DAC_READ_SEARCH": 2, "SYS_PTRACE": 19}
LAST_CAPABILITY = 40
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SERVER = "kept = [bytes(i % 900 + 1) for i in range(20000)]; print('ready', flush=True); input()"


def documents_of(path):
    """Of a file of YAML, which Debian's python knows how to read."""
    script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
    done = subprocess.run(["/usr/bin/python3", "-c", script, path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        skip("there is no yaml for /usr/bin/python3")
    return json.loads(done.stdout)


def build_image(source, packages, memory):
    """The root folder of the image."""
    podman = ["podman", "--root", memory / "storage", "--runroot", memory / "run", "--storage-driver", "vfs",
              "--cgroup-manager", "cgroupfs", "--events-backend", "file"]
    base = memory / "base"
    (base / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", base / "bin/busybox")
    for name in ("sh", "tar", "gzip", "mkdir", "mv", "sleep"):
        (base / "bin" / name).symlink_to("busybox")
    output_of("tar", "-C", base, "-cf", memory / "base.tar", ".")
    output_of(*podman, "import", memory / "base.tar", "heapsnap-test-base")
    output_of(*podman, "build", "--isolation", "chroot", "--build-arg", "BASE=localhost/heapsnap-test-base",
              "-t", "heapsnap", "-f", source / "packaging/container/Containerfile", packages)
    root = memory / "image"
    shutil.copytree(output_of(*podman, "image", "mount", "localhost/heapsnap").strip(), root, symlinks=True)
    output_of(*podman, "image", "umount", "--all")
    return root


def confined(root, context):
    """For subprocess: what is run is in the root folder, with the capabilities of a securityContext."""
    assert context["capabilities"]["drop"] == ["ALL"] and context["runAsUser"] == 0, context
    kept = {CAPABILITIES[name] for name in context["capabilities"]["add"]}
    libc = ctypes.CDLL(None)

    def enter():
        os.chroot(root)
        os.chdir("/")
        for capability in range(LAST_CAPABILITY + 1):
            if capability not in kept:
                libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    return {"preexec_fn": enter, "env": {"PATH": PATH}}


def check_debug_container(root, context, pid, folder):
    """Into the root folder of the process itself, as the example has it."""
    how = confined(root, context)
    screen = output_of("/usr/local/bin/heapsnap", "attach", str(pid), "-o", f"/proc/{pid}/root{folder}/a.hsnap", **how)
    assert "used by the program (malloc)" in screen, screen
    assert (folder / "a.hsnap").stat().st_size > 1000


def check_sidecar(root, documents):
    """Its loop, without its patience, until there is a snapshot."""
    config, pod = documents
    (container,) = (each for each in pod["spec"]["containers"] if each["name"] == "heapsnap")
    text = config["data"]["collect.toml"].replace('"nginx"', '"python3"')
    (root / "etc/heapsnap").mkdir(parents=True)
    (root / "etc/heapsnap/collect.toml").write_text(
        text + '[skip]\nmemory_pressure_over = "100%"\nio_pressure_over = "100%"\n', encoding="utf-8")
    store = root / "var/lib/heapsnap"
    store.mkdir(parents=True)
    output_of("mount", "--bind", root, root)
    output_of("mount", "-o", "remount,bind,ro", root)
    output_of("mount", "-t", "tmpfs", "tmpfs", store)
    output_of("mount", "-t", "proc", "proc", root / "proc")
    words = container["command"] + [container["args"][0].replace("sleep 60", "sleep 0.2")]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **confined(root, container["securityContext"])) as sidecar:
        said = []
        for line in sidecar.stdout:
            said.append(line)
            if line.startswith("server: 1 snapshot") or len(said) == 20:
                break
        sidecar.kill()
    assert any(line.startswith("server: collected: ") for line in said), said
    assert said[-1].startswith("server: 1 snapshot"), said
    assert len(list(store.rglob("*.hsnap"))) == 1


def check_image(source, packages, memory, profile):
    root = build_image(source, packages, memory)
    (root / "proc").mkdir(exist_ok=True)
    output_of("mount", "-t", "proc", "proc", root / "proc")
    shared = memory / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with subprocess.Popen(["setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3", "-c", SERVER],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        server.stdout.readline()
        check_debug_container(root, profile["securityContext"], server.pid, shared)
        output_of("umount", root / "proc")
        check_sidecar(root, documents_of(source / "packaging/kubernetes/sidecar.yaml"))
        server.communicate("\n")


def main():
    source, packages = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    reenter()
    for program in ("podman", "busybox", "file"):
        if shutil.which(program) is None:
            skip(f"there is no {program} here")
    if b"dynamically" in subprocess.run(["file", "-bL", "/bin/busybox"], capture_output=True, check=False).stdout:
        skip("busybox is not the static one")
    (profile,) = documents_of(source / "packaging/kubernetes/debug-profile.yaml")
    with tempfile.TemporaryDirectory() as name:
        memory = pathlib.Path(name)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", memory], check=True)
        try:
            check_image(source, packages, memory, profile)
        finally:
            output_of("umount", "--recursive", "--lazy", memory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
