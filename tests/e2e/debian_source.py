"""Source packages of Debian, fetched by apt with lists of its own in a folder: nothing of the system changes."""

import pathlib
import shutil
import subprocess

from distribution_root import system_mirror
from overlaid_root import skip

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def suite_of_system():
    for line in pathlib.Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME" and value:
            return value.strip('"')
    skip("this system's release has no name")


def unpacked(folder, package):
    """FOLDER/sources/PACKAGE, with Debian's patches; kept, so that it is fetched once."""
    folder = folder / "sources"
    source = folder / package
    if source.is_dir():
        return source
    if shutil.which("apt-get") is None or shutil.which("dpkg-source") is None or not pathlib.Path(KEYRING).exists():
        skip("there is no apt-get, no dpkg-source (dpkg-dev), or no debian-archive-keyring here")
    lists = folder / "apt"
    for name in ("state/lists/partial", "cache/archives/partial"):
        (lists / name).mkdir(parents=True, exist_ok=True)
    sources = lists / "sources.list"
    sources.write_text(f"deb-src [signed-by={KEYRING}] {system_mirror()} {suite_of_system()} main\n", encoding="utf-8")
    how = ["-q", "-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null",
           "-o", f"Dir::State={lists / 'state'}", "-o", f"Dir::Cache={lists / 'cache'}",
           "-o", "Dir::State::status=/var/lib/dpkg/status", "-o", "APT::Sandbox::User="]
    fetched = folder / f"{package}.fetched"
    shutil.rmtree(fetched, ignore_errors=True)
    fetched.mkdir()
    for command in (["update"], ["source", "--download-only", package]):
        done = subprocess.run(["apt-get", *how, *command], cwd=fetched, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            skip(f"apt-get {command[0]} gets no {package}: {done.stdout.splitlines()[-1] if done.stdout else 'no words'}")
    new = folder / f"{package}.new"
    shutil.rmtree(new, ignore_errors=True)
    subprocess.run(["dpkg-source", "--no-check", "--no-copy", "--extract", *fetched.glob("*.dsc"), new], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    new.rename(source)
    return source
