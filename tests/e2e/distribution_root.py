"""Root folders of whole distributions by debootstrap: made once in a folder, kept there, used below an overlay."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from command_output import output_of
from overlaid_root import skip

UBUNTU = "http://archive.ubuntu.com/ubuntu"
UBUNTU_KEYRING = "pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb"
# Of "Ubuntu Archive Automatic Signing Key (2018)".
UBUNTU_KEY = "F6ECB3762474EDA9D21B7022871920D1991BC93C"
UBUNTU_SUITES = ("jammy", "noble")
SCRIPTS = pathlib.Path("/usr/share/debootstrap/scripts")
LEAST = ("python3-minimal",)
# Of the suite with the newest Python, its library as well.
MORE = {"forky": ("python3",)}
# What the collected servers take.
SERVERS = ("cron", "nginx-light", "postgresql", "procps", "python3-minimal")


def system_mirror():
    """The archive that this system's own suite comes from, by apt."""
    codename = re.search("^VERSION_CODENAME=(.*)$", pathlib.Path("/etc/os-release").read_text(encoding="utf-8"),
                         re.MULTILINE)
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)"], capture_output=True,
                            text=True, check=False).stdout.splitlines()
    for line in listed:
        name, _, uri = line.partition(" ")
        if codename and name == codename[1] and uri.startswith("http"):
            return uri.rstrip("/")
    skip("apt's sources name no mirror of this system's suite")


def ubuntu_keyring(folder):
    """Fetched from the archive that it is to vouch for, so only the key that this file names is taken."""
    keyring = folder / "ubuntu-archive-keyring.gpg"
    if keyring.exists():
        return keyring
    if shutil.which("gpg") is None or shutil.which("curl") is None:
        skip("there is no gpg or no curl here")
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        if subprocess.run(["curl", "-sfL", "--max-time", "60", "-o", place / "keyring.deb",
                           f"{UBUNTU}/{UBUNTU_KEYRING}"], check=False).returncode != 0:
            skip(f"{UBUNTU} cannot be reached")
        output_of("dpkg-deb", "--extract", place / "keyring.deb", place)
        gpg = ["gpg", "--homedir", place, "--batch", "--quiet", "--no-default-keyring", "--keyring",
               place / "usr/share/keyrings/ubuntu-archive-keyring.gpg"]
        key = subprocess.run([*gpg, "--export", UBUNTU_KEY], capture_output=True, check=True).stdout
        if not key:
            skip("Ubuntu's keyring lacks the key of its archive")
        keyring.write_bytes(key)
    return keyring


def make(folder, suite, packages=()):
    """FOLDER/SUITE, a root folder with `packages` of the suite, or else with the least of it and the servers of
    bookworm."""
    root = folder / suite
    if root.is_dir():
        return root
    if shutil.which("debootstrap") is None:
        skip("there is no debootstrap here")
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"{suite}.new"
    shutil.rmtree(new, ignore_errors=True)
    packages = packages or (SERVERS if suite == "bookworm" else MORE.get(suite, LEAST))
    words = ["--variant=minbase", f"--include={','.join(packages)}"]
    if suite in UBUNTU_SUITES:
        words += ["--components=main,universe", f"--keyring={ubuntu_keyring(folder)}", suite, new, UBUNTU]
    else:
        words += [suite, new, system_mirror()]
    # One that is newer than debootstrap: all since sarge, and Ubuntu's since gutsy, are made in the same way.
    if not (SCRIPTS / suite).exists():
        words.append(SCRIPTS / ("gutsy" if suite in UBUNTU_SUITES else "sid"))
    done = subprocess.run(["debootstrap", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        skip(f"debootstrap makes no {suite}: {done.stdout.splitlines()[-1] if done.stdout else 'no words'}")
    subprocess.run(["chroot", new, "apt-get", "clean"], check=False)
    new.rename(root)
    return root


def install(root, package):
    """Whether apt of the root installs the .deb with what it depends on, from the archives of its suite."""
    shutil.copy(package, root.root / "tmp")
    for name in ("etc/resolv.conf", "etc/hosts"):
        if os.path.exists(f"/{name}"):
            shutil.copyfile(f"/{name}", root.root / name)
    how = ["-q", "-y", "--no-install-recommends", "-o", "APT::Sandbox::User=", "-o", "Dpkg::Use-Pty=0"]
    file = f"/tmp/{package.name}"
    update = root.start("apt-get", "-q", "update", "-o", "APT::Sandbox::User=", stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)
    if update.wait() != 0:
        return "its archive cannot be reached"
    tried = root.start("apt-get", *how, "--simulate", "install", file, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = tried.communicate()[0]
    if tried.returncode != 0:
        unmet = re.findall(r"Depends: (\S+)", said)
        return f"it lacks {', '.join(unmet)}" if unmet else said.splitlines()[-1]
    root.run("apt-get", *how, "install", file)
    return ""
