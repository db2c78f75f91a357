#!/usr/bin/env python3
"""The static program on the oldest kernel that is promised, Linux 4.14, beside no C library of its own.

    HEAPSNAP_OLD_KERNEL=/path/to/vmlinuz old_kernel.py TARBALLS LEAKY_SERVER

boots that kernel, a 4.14 with a serial console and devtmpfs, as distributions built them, in qemu, by emulation, with a
root folder of busybox, the program of the tarball in TARBALLS, and a server with this system's glibc. What heapsnap says
there of the server is checked. Exits 77, with the reason, where the machine lacks what that takes; Debian 12 has no
such kernel."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from command_output import output_of
from overlaid_root import skip

BOOT_DEADLINE = 3000  # seconds: emulated, on a busy machine
# Each prints its exit code; the server leaks on while it is looked at.
COMMANDS = ("doctor PID", "attach PID -o 1.hsnap --references yes", "inject PID", "watch PID --count 2 --interval 200ms",
            "stacks PID --limit 1", "eject PID", "owners 1.hsnap --limit 2", "attach PID --freeze fork -o 2.hsnap", "report 2.hsnap",
            "collect --config collect.toml --at-once", "history leak --config collect.toml")
CONFIG = """
store = "/tmp/store"
[skip]
memory_below = "0%"
disk_below = "0%"
[[target]]
name = "leak"
process = "leaky_server"
"""


def make_root(root, tarball, server):
    """What there is on the machine: no C library but the one that the server brings along."""
    for folder in ("bin", "proc", "tmp", "etc", "run", "dev", "usr/local", "var/cache"):
        (root / folder).mkdir(parents=True)
    output_of("tar", "-C", root / "usr/local", "--strip-components=1", "-xf", tarball)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    shutil.copy(server, root / "bin/leaky_server")
    for path in re.findall(r"/\S+", output_of("ldd", server)):
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n", encoding="ascii")
    (root / "collect.toml").write_text(CONFIG, encoding="utf-8")
    runs = "\n".join(f'echo "<{line}>"; heapsnap {line.replace("PID", "$pid")} 2>&1; echo "<exit code $?>"'
                     for line in COMMANDS)
    init = root / "init"
    init.write_text(f"""#!/bin/busybox sh
export PATH=/bin:/usr/local/bin COLUMNS=80 TERM=dumb
busybox mount -t proc proc /proc
busybox --install -s /bin
mount -t devtmpfs dev /dev
for each in tmp run var/cache; do mount -t tmpfs tmpfs /$each; done
cp /collect.toml /tmp; cd /tmp
uname -r
tail -f /dev/null | leaky_server 20 > said &
until grep -q ready said; do sleep 1; done
pid=$(pidof leaky_server)
{runs}
echo "<server>"; kill -0 $pid; echo "<exit code $?>"
echo "<end>"
poweroff -f
""", encoding="ascii")
    init.chmod(0o755)


def boot(kernel, root, folder):
    archive = folder / "initrd"
    files = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with open(archive, "wb") as file:
        subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], input=files.encode(), stdout=file,
                       stderr=subprocess.DEVNULL, cwd=root, check=True)
    console = folder / "console"
    words = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-smp", "2", "-display", "none", "-nodefaults",
             "-no-reboot", "-serial", f"file:{console}", "-kernel", kernel, "-initrd", archive,
             "-append", "console=ttyS0 quiet panic=-1 rdinit=/init"]
    try:
        subprocess.run(words, stdin=subprocess.DEVNULL, check=True, timeout=BOOT_DEADLINE)
    finally:
        print(console.read_text(encoding="utf-8", errors="replace") if console.exists() else "it said nothing")
    return console.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")


def check(said):
    assert said.lstrip().startswith("4.14."), said[:200]
    assert "<end>" in said, "it did not come to its end"
    outputs = {command: (int(code), text) for command, text, code in
               re.findall(r"^<([a-z][^>]*)>\n(.*?)<exit code (\d+)>$", said, re.MULTILINE | re.DOTALL)}
    assert set(outputs) == {*COMMANDS, "server"}, set(outputs) ^ {*COMMANDS, "server"}
    expected = {
        "doctor PID": "No copy is made on a kernel before Linux 5.9",
        "attach PID -o 1.hsnap --references yes": "used by the program (malloc)",
        "inject PID": "tracker loaded",
        "watch PID --count 2 --interval 200ms": "live/s",
        "stacks PID --limit 1": "every allocation recorded",
        "eject PID": "tracker disabled",
        "report 2.hsnap": "close_range(2)",
        "owners 1.hsnap --limit 2": " (leaky_server), in main",
        "collect --config collect.toml --at-once": "leak: collected: ",
        "history leak --config collect.toml": "leak: leaky_server on ",
    }
    for command, words in expected.items():
        assert words in outputs[command][1], (command, outputs[command])
    for command, (code, text) in outputs.items():
        assert code == 0, (command, code, text)
    assert "(5 threads) while it was read" in outputs["attach PID --freeze fork -o 2.hsnap"][1], outputs
    assert "Nothing prevents attaching" in outputs["doctor PID"][1], outputs["doctor PID"]


def main():
    tarballs, server = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    kernel = os.environ.get("HEAPSNAP_OLD_KERNEL")
    if not kernel:
        skip("HEAPSNAP_OLD_KERNEL names no kernel to boot")
    for program in ("qemu-system-x86_64", "busybox"):
        if shutil.which(program) is None:
            skip(f"there is no {program} here")
    if b"dynamically" in subprocess.run(["file", "-bL", "/bin/busybox"], capture_output=True, check=False).stdout:
        skip("busybox is not the static one")
    tarball = next(tarballs.glob("*.tar.gz"), None)
    if tarball is None:
        skip(f"there is no tarball in {tarballs}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_root(folder / "root", tarball, server)
        check(boot(kernel, folder / "root", folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
