#!/usr/bin/env python3
"""A file of the target that takes its time to be closed: to close one on FUSE means to ask its server, which may
be the target itself. The copy of the target closes its files, and the target must not stand still for that.
slow_close.py HEAPSNAP"""

import contextlib
import errno
import json
import os
import pathlib
import stat
import struct
import subprocess
import sys
import tempfile
import threading

from kernel_rules import LIBC, Echo, check

SKIPPED = 77
PATIENCE = 30  # seconds, after which nothing is held up any more

# linux/sched.h, linux/mount.h
CLONE_NEWNS = 0x00020000
MS_NOSUID_NODEV = 2 | 4
MS_PRIVATE_RECURSIVE = (1 << 18) | (1 << 14)
MNT_DETACH = 2

# linux/fuse.h
FORGET, GETATTR, OPEN, RELEASE, FLUSH, INIT = 2, 3, 14, 18, 25, 26
IN_HEADER = struct.Struct("<IIQQIIIHH")  # len, opcode, unique, nodeid, uid, gid, pid, extensions, padding
OUT_HEADER = struct.Struct("<IiQ")
ATTRIBUTES = struct.pack("<QII 6Q10I", 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, stat.S_IFREG | 0o644, 1, 0, 0, 0, 4096, 0)
ANSWERS = {
    INIT: struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 0, 0, 4096, 1, 0, 0, 0),
    GETATTR: ATTRIBUTES,
    OPEN: struct.pack("<QII", 1, 0, 0),
    RELEASE: b"",
    FLUSH: b"",
}


class SlowFile:
    """A file system that consists of one empty file. Once it is slow, a close(2) does not end before it may."""

    def __init__(self, place):
        self.place = place
        self.is_slow = False
        self.closing = threading.Event()
        self.may_close = threading.Event()
        self.was_held_to_the_end = True
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=100644,user_id=0,group_id=0"
        check(LIBC.mount(b"slow", os.fsencode(place), b"fuse", MS_NOSUID_NODEV, options.encode()))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                request = os.read(self.device, 1 << 17)
            except OSError:
                return  # unmounted
            operation, unique = IN_HEADER.unpack_from(request)[1:3]
            if operation == FORGET:
                continue
            if operation == FLUSH and self.is_slow:
                self.closing.set()
                self.was_held_to_the_end &= self.may_close.wait(PATIENCE)
            answer = ANSWERS.get(operation)
            error = -errno.ENOSYS if answer is None else 0
            answer = answer or b""
            with contextlib.suppress(FileNotFoundError):  # who asked was killed
                os.write(self.device, OUT_HEADER.pack(OUT_HEADER.size + len(answer), error, unique) + answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.may_close.set()
        LIBC.umount2(os.fsencode(self.place), MNT_DETACH)


def attach(heapsnap, folder):
    place = folder / "slow"
    place.touch()
    with SlowFile(place) as file, Echo(("sh", "-c", 'exec 3<"$0"; exec cat', str(place))) as target:
        file.is_slow = True
        snapshot = folder / "snapshot.hsnap"
        with subprocess.Popen([heapsnap, "attach", str(target.pid), "--freeze", "fork", "-j", "-o", str(snapshot)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as attached:
            assert file.closing.wait(PATIENCE), "the copy does not close the target's files"
            target.check_alive()
            file.may_close.set()
            out, err = attached.communicate()
        assert attached.returncode == 0, (out, err)
        assert json.loads(out)["freeze"]["method"] == "fork", out
        assert file.was_held_to_the_end, "the target stood still until the file was closed"
        target.check_alive()


def main():
    heapsnap = sys.argv[1]
    try:
        check(LIBC.unshare(CLONE_NEWNS))
        check(LIBC.mount(b"none", b"/", None, MS_PRIVATE_RECURSIVE, None))
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        print(f"skipped: no file system in user space can be had here: {error}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        attach(heapsnap, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
