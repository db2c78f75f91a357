#!/usr/bin/env python3
"""The RPM of a build tree: the files of the Debian package, installed and removed by rpm itself in a root folder.

    rpm_package.py BUILD DEBS RPMS

makes it of BUILD in the folder RPMS; DEBS has the Debian packages. Exits 77, with the reason, where the machine lacks
what it takes."""

import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

from command_output import output_of
from overlaid_root import OverlaidRoot, reenter, skip
from packaging import names_of, need, version_of



def make_rpm(build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    output_of("cpack", "-G", "RPM", "-B", folder, "-D", "CPACK_RPM_COMPRESSION_TYPE=gzip", cwd=build)
    (found,) = folder.glob("*.rpm")
    return found


def files_below(folder):
    """Of each file its mode and its bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            mode = stat.S_IMODE(path.stat().st_mode)
            found[str(path.relative_to(folder))] = (oct(mode), path.read_bytes())
    return found


def check_files(rpm, deb):
    """Those of the Debian package, with their modes; the configuration is known as such."""
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = pathlib.Path(name) / "rpm", pathlib.Path(name) / "deb"
        ours.mkdir()
        with open(rpm, "rb") as file:
            archive = subprocess.run(["rpm2archive", "-"], stdin=file, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-C", ours, "-xz"], input=archive, check=True)
        output_of("dpkg-deb", "--extract", deb, theirs)
        one, other = files_below(ours), files_below(theirs)
        assert set(one) == set(other) and one, set(one) ^ set(other)
        differ = {path for path in one if one[path] != other[path]}
        assert not differ, {path: (one[path][0], other[path][0]) for path in differ}
    listed = output_of("rpm", "-qlp", rpm).split()
    assert "/usr/bin/heapsnap" in listed and not {"/etc", "/usr/bin", "/usr/share/man"} & set(listed), listed
    assert output_of("rpm", "-qcp", rpm).split() == ["/etc/cron.d/heapsnap", "/etc/heapsnap/collect.toml"]


def check_words(rpm, build):
    said = output_of("rpm", "-qip", rpm)
    for name, value in (("Name", "heapsnap"), ("Version", version_of(build)), ("License", "Apache-2.0"),
                        ("Architecture", "x86_64")):
        assert re.search(rf"^{name} *: {value}$", said, re.MULTILINE), said
    needed = output_of("rpm", "-qRp", rpm).split("\n")
    assert "Relocations" not in said and "shadow-utils" in needed, (said, needed)
    # Libraries that it is linked with, and one that it loads.
    for library in (r"libdw\.so\.1", r"libcapstone\.so\.\d+\(\)\(64bit\)$"):
        assert any(re.match(library, line) for line in needed), (library, needed)


def check_use(rpm):
    """By rpm's own database, which nothing of this system is in: its scripts run, an upgrade keeps what was changed,
    and what remains in the end is data."""
    with OverlaidRoot() as root:
        shutil.copy(rpm, root.root / "tmp")
        before = set(root.added())
        # rpm would look for the libraries among the packages of its database.
        install = ["rpm", "--nodeps", "--nosignature", "--dbpath", "/tmp/rpmdb"]
        root.run(*install, "-i", f"/tmp/{rpm.name}")
        assert "Nothing prevents attaching" in root.run("heapsnap", "doctor")
        assert (root.root / "var/lib/heapsnap").stat().st_mode & 0o7777 == 0o750
        assert root.run("getent", "group", "heapsnap").startswith("heapsnap:")
        root.write("/etc/heapsnap/collect.toml", '[[target]]\nname = "web"\nprocess = "no-such-process"\n')
        root.run(*install, "-U", "--force", f"/tmp/{rpm.name}")
        assert "no process no-such-process runs" in root.run("heapsnap", "collect", expected=3)
        root.write("/var/lib/heapsnap/kept", "data")
        root.run(*install, "-e", "heapsnap")
        left = set(root.added()) - before
        assert left == {"/etc/heapsnap", "/var/lib/heapsnap"}, left
        assert [path.name for path in (root.root / "etc/heapsnap").iterdir()] == ["collect.toml.rpmsave"]


def main():
    build, debs, folder = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    reenter()
    need("cpack", "rpmbuild", "rpm", "rpm2archive", "dpkg-deb")
    rpm = make_rpm(build, folder)
    check_words(rpm, build)
    check_files(rpm, names_of(debs)["heapsnap"])
    check_use(rpm)
    return 0


if __name__ == "__main__":
    sys.exit(main())
