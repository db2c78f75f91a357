#!/usr/bin/env python3
"""The Debian packages of a build tree.

    packaging.py CASE BUILD PACKAGES

build makes those of BUILD in the folder PACKAGES; all other cases take them from there. Exits 77, with the
reason, where the machine lacks what a case needs."""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from command_output import output_of
from completions import options_of
from overlaid_root import OverlaidRoot, reenter, skip

PROGRAM = "/usr/bin/heapsnap"
# "systemd-analyze security" calls more than this exposed.
MOST_EXPOSED = 2.0
TARGET = ("import sys\nkept = [bytes(i % 900 + 1) for i in range(20000)]\nprint('ready', flush=True)\n"
          "sys.stdin.read()\n")


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            skip(f"there is no {program} here")


def names_of(packages):
    """The files, by the name of the package."""
    return {path.name.split("_")[0]: path for path in pathlib.Path(packages).glob("*.deb")}


def version_of(build):
    cache = (pathlib.Path(build) / "CMakeCache.txt").read_text(encoding="utf-8")
    return re.search(r"CMAKE_PROJECT_VERSION:STATIC=(\S+)", cache).group(1)


def build_packages(build, packages, components="program;library;development;postgresql;library_dbgsym"):
    """With gzip, which is quicker than xz, and without the largest: the debug symbols of the program."""
    need("cpack", "dpkg-shlibdeps")
    configured = re.search(r'CPACK_COMPONENTS_ALL "(.*)"',
                           (build / "CPackConfig.cmake").read_text(encoding="utf-8")).group(1).split(";")
    chosen = [name for name in configured if name in components.split(";")] if components else configured
    shutil.rmtree(packages, ignore_errors=True)
    output_of("cpack", "-G", "DEB", "-B", packages, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip",
              "-D", "CPACK_COMPONENTS_ALL=" + ";".join(chosen), cwd=build)
    shutil.rmtree(packages / "_CPack_Packages", ignore_errors=True)
    found = names_of(packages)
    assert len(found) == len(chosen), (found, chosen)
    assert {"heapsnap", "libheapsnap0", "libheapsnap0-dbgsym", "libheapsnap-dev"} <= set(found), found
    for name, path in found.items():
        fields = output_of("dpkg-deb", "--field", path)
        assert f"\nVersion: {version_of(build)}\n" in "\n" + fields, (name, fields)
        if name.endswith("-dbgsym"):
            check_debug_files(found[name.removesuffix("-dbgsym")], path)
    # Libraries that it is linked with, and one that it loads.
    depends = output_of("dpkg-deb", "--field", found["heapsnap"], "Depends")
    assert re.search(r"\blibdw1\b", depends) and re.search(r"\blibcapstone\d+(,|$)", depends, re.MULTILINE), depends


def build_all_packages(build, packages):
    build_packages(build, packages, None)


def check_debug_files(package, debug_package):
    """One for each ELF file, by its build-id."""
    def unpacked(path, folder):
        output_of("dpkg-deb", "--extract", path, folder)
        return [file for file in pathlib.Path(folder).rglob("*") if file.is_file() and not file.is_symlink()]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        wanted = set()
        for file in unpacked(package, one):
            with open(file, "rb") as opened:
                if opened.read(4) == b"\x7fELF":
                    wanted |= set(re.findall("Build ID: ([0-9a-f]+)", output_of("readelf", "--notes", file)))
        found = {file.parent.name + file.stem for file in unpacked(debug_package, other) if file.suffix == ".debug"}
        assert wanted == found and wanted, (wanted, found)


def check_lintian(_build, packages):
    need("lintian")
    print(output_of("lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0",
                    *sorted(map(str, names_of(packages).values()))))


def install(root, packages, *names):
    found = names_of(packages)
    folder = root.root / "tmp"
    for name in names:
        shutil.copy(found[name], folder)
    root.run("dpkg", "--force-unsafe-io", "--no-triggers", "-i", *(f"/tmp/{found[name].name}" for name in names))


def check_install(build, packages):
    """Installed, used, upgraded, removed and purged: nothing is left but the snapshots."""
    reenter()
    need("dpkg")
    names = [name for name in names_of(packages) if not name.endswith("-dbgsym")]
    with OverlaidRoot() as root:
        install(root, packages, *names)
        assert root.run("heapsnap", "--version").strip() == f"heapsnap {version_of(build)}"
        assert "Nothing prevents attaching" in root.run("heapsnap", "doctor")
        assert (root.root / "var/lib/heapsnap").stat().st_mode & 0o7777 == 0o750
        assert root.run("getent", "group", "heapsnap").startswith("heapsnap:")
        assert "it names no target" in root.run("heapsnap", "collect", expected=2)
        check_installed_pages(root)
        check_installed_completions(root)
        check_development_files(root)

        target = root.start("python3", "-c", TARGET, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        target.stdout.readline()
        root.write("/etc/heapsnap/collect.toml", '[[target]]\nname = "web"\npid_file = "/run/web.pid"\n'
                   'when = { every = "1h" }\n[skip]\nmemory_pressure_over = "100%"\nio_pressure_over = "100%"\n')
        root.write("/run/web.pid", str(target.pid))
        assert "web: collected" in root.run("heapsnap", "collect")
        run_cron_lines(root)

        # The administrator's choices outlive an upgrade.
        root.run("systemctl", "--root=/", "enable", "heapsnap-collect.timer")
        root.run("dpkg-statoverride", "--update", "--add", "root", "heapsnap", "0750", PROGRAM)
        install(root, packages, "heapsnap")
        assert "cap_dac_read_search,cap_sys_ptrace=ep" in root.run("getcap", PROGRAM)
        assert (root.root / "etc/systemd/system/timers.target.wants/heapsnap-collect.timer").is_symlink()
        assert "[[target]]" in root.run("cat", "/etc/heapsnap/collect.toml")
        check_members(root, target.pid)
        target.communicate("")

        root.run("dpkg", "--remove", *names)
        assert not {path for path in root.added()
                    if not re.match(r"/etc/(heapsnap|cron\.d|systemd)|/var/lib/(heapsnap|dpkg|systemd)", path)}, \
            root.added()
        root.run("dpkg", "--purge", *names)
        assert root.added() == ["/var/lib/heapsnap"], root.added()
        assert root.run("find", "/var/lib/heapsnap", "-type", "f").count(".hsnap\n") == 1


def check_members(root, pid):
    """Of the group heapsnap, and nobody else, may attach to root's process."""
    nobody = ["setpriv", "--reuid=65534", "--regid=65534"]
    # setpriv itself still has root's capabilities when it executes a program; env has not.
    attach = ["env", "heapsnap", "attach", str(pid), "-o", "/tmp/member.hsnap"]
    said = root.run(*nobody, "--groups=heapsnap", *attach)
    assert "used by the program (malloc)" in said, said
    assert "Permission denied" in root.run(*nobody, "--clear-groups", *attach, expected=126)


def run_cron_lines(root):
    """As cron has a shell run them: the first finds nothing due, the second has nothing to remove."""
    lines = [line for line in (root.root / "etc/cron.d/heapsnap").read_text(encoding="utf-8").splitlines()
             if "heapsnap collect" in line or "heapsnap prune" in line]
    assert len(lines) == 2, lines
    commands = [line.split(" root ", 1)[1].split(" 2>&1 | logger")[0] for line in lines]
    assert "web: not due" in root.run("sh", "-c", commands[0])
    # However the configuration writes its targets; while it has none, nothing happens.
    config = (root.root / "etc/heapsnap/collect.toml").read_text(encoding="utf-8")
    for begin in ("\t[[ target ]]", '[["target"]]'):
        root.write("/etc/heapsnap/collect.toml", config.replace("[[target]]", begin))
        assert "web: not due" in root.run("sh", "-c", commands[0]), begin
    root.write("/etc/heapsnap/collect.toml", ' target = [{name = "web", pid_file = "/run/web.pid", when = {every = "1h"}}]\n')
    assert root.run("sh", "-c", commands[0] + "; true").startswith("web: ")
    root.write("/etc/heapsnap/collect.toml", "#[[target]]\n#target = 1\ntargets = 2\n")
    assert root.run("sh", "-c", commands[0]) == ""
    root.write("/etc/heapsnap/collect.toml", config)
    assert "it has no keep" in root.run("sh", "-c", commands[1])
    # Where systemd runs, the timer does it.
    (root.root / "run/systemd/system").mkdir(parents=True)
    assert all(root.run("sh", "-c", command) == "" for command in commands)
    (root.root / "run/systemd/system").rmdir()


def check_installed_pages(root):
    heapsnap = ["chroot", str(root.root), PROGRAM]
    listed = re.findall(r"^  (\S.*)$", output_of(*heapsnap, "--help").split("Commands:\n")[1].split("\n\n")[0], re.M)
    pages = {path.name: path for path in (root.root / "usr/share/man/man1").glob("heapsnap*.1.gz")}
    expected = {"heapsnap.1.gz"} | {f"heapsnap-{line.split()[0]}.1.gz" for line in listed}
    assert set(pages) == expected, set(pages) ^ expected
    for line in listed:
        command = line.split()[0]
        text = gzip.decompress(pages[f"heapsnap-{command}.1.gz"].read_bytes()).decode()
        if shutil.which("mandoc"):
            assert output_of("mandoc", "-T", "lint", "-W", "style", input=text) == ""
        page = text.replace("\\-", "-")
        section = page.split(".SH OPTIONS\n")[1].split("\n.SH ")[0]
        described = set(re.findall(r"^\\fB.*?(--[\w-]+)", section, re.MULTILINE))
        assert described == options_of(output_of(*heapsnap, command, "--help")), (command, described)


def check_installed_completions(root):
    """As a user's shell loads them, which has not been told of heapsnap."""
    commands = commands_of_help(root)
    if (root.root / "usr/share/bash-completion/bash_completion").exists():
        found = root.run("bash", "--norc", "-c", "source /usr/share/bash-completion/bash_completion\n"
                         "_completion_loader heapsnap\nCOMP_WORDS=(heapsnap '') COMP_CWORD=1\ncompopt() { :; }\n"
                         "$(complete -p heapsnap | sed 's/.*-F \\([^ ]*\\).*/\\1/')\nprintf '%s\\n' \"${COMPREPLY[@]}\"")
        assert commands <= set(found.split()), found
    if shutil.which("zsh"):
        found = root.run("zsh", "-f", "-c", "autoload -Uz compinit; compinit -u -D; print $_comps[heapsnap]; "
                         "autoload +X _heapsnap; functions _heapsnap")
        assert found.startswith("_heapsnap\n"), found
        assert all(f"'{command}:" in found or f"{command})" in found for command in commands), found
    if shutil.which("fish"):
        found = root.run("fish", "-c", "complete -C 'heapsnap '")
        assert commands <= {line.split("\t")[0] for line in found.splitlines()}, found


def commands_of_help(root):
    lines = root.run("heapsnap", "--help").split("Commands:\n")[1].split("\n\n")[0].splitlines()
    return {line.split()[0] for line in lines}


DEVELOPMENT = {
    "main.c": '#include <heapsnap.h>\n#include <stdio.h>\nint main(int count, char** words) {\n'
              '  int result = heapsnap_dump_self(words[count - 1]);\n'
              '  fprintf(stderr, "%s", heapsnap_last_error());\n  return result;\n}\n',
    "CMakeLists.txt": 'cmake_minimum_required(VERSION 3.16)\nproject(example C)\nfind_package(heapsnap 0.1 REQUIRED)\n'
                      'add_executable(by_cmake main.c)\ntarget_link_libraries(by_cmake heapsnap::heapsnap)\n',
}


def check_development_files(root):
    """A program by pkg-config, and one by CMake: each dumps itself, by the installed heapsnap."""
    for name, text in DEVELOPMENT.items():
        root.write(f"/tmp/example/{name}", text)
    folder = ["env", "-C", "/tmp/example"]
    root.run(*folder, "sh", "-c", "cc main.c -o by_pkg_config $(pkg-config --cflags --libs heapsnap)")
    root.run(*folder, "cmake", "-S", ".", "-B", ".")
    root.run(*folder, "cmake", "--build", ".")
    for program in ("by_pkg_config", "by_cmake"):
        root.run(*folder, f"./{program}", f"/tmp/example/{program}.hsnap")
        assert program in root.run("heapsnap", "report", f"/tmp/example/{program}.hsnap")


UNITS = [f"heapsnap-{verb}.{kind}" for verb in ("collect", "prune") for kind in ("service", "timer")]


def check_units(root):
    """What systemd says of the units as they are installed."""
    paths = [f"/usr/lib/systemd/system/{unit}" for unit in UNITS]
    assert root.run("systemd-analyze", "verify", "--recursive-errors=no", "--man=yes", *paths) == ""
    for path in paths[::2]:
        text = root.run("systemd-analyze", "security", "--offline=true", "--no-pager", path)
        level = float(re.search(r"Overall exposure level for \S+ (\d+\.\d)", text).group(1))
        print(path, level)
        assert level <= MOST_EXPOSED, text


class BootedSystem:
    """systemd as process 1 of an OverlaidRoot, with nothing to do but what it is asked."""

    GROUPS = pathlib.Path("/sys/fs/cgroup")
    # It has the root folder for its own: paths of files are those that a booted system sees.
    BOOT = ("echo $$ >\"$1\"/cgroup.procs && exec unshare --mount --cgroup --pid --fork --kill-child sh -c '"
            "cd \"$0\" && mount -t proc proc proc && mount -t sysfs -o ro sysfs sys && "
            "mount -t cgroup2 cgroup2 sys/fs/cgroup && mkdir -p run/old && pivot_root . run/old && "
            "umount --lazy /run/old && "
            "exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=test "
            "/lib/systemd/systemd --unit=idle.target' \"$0\"")

    def __init__(self, root):
        self.root = root
        unified = self.GROUPS / "unified"
        self.group = (unified if unified.is_dir() else self.GROUPS) / f"heapsnap-packaging-{os.getppid()}"
        self.proc = root.memory / "proc"
        self.proc.mkdir()
        root.mount("-t", "proc", "proc", self.proc)
        root.write("/etc/systemd/system/idle.target", "[Unit]\nDescription=Nothing\n")
        self.group.mkdir(exist_ok=True)
        self.process = subprocess.Popen(["sh", "-c", self.BOOT, root.root, self.group], stdin=subprocess.DEVNULL)

    def command(self, *words):
        """`words` run as a service's process would see the system: it is a child of process 1."""
        first = (self.proc / f"{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0]
        return ["nsenter", *(f"--{kind}={self.proc}/{first}/ns/{name}" for kind, name in
                             (("mount", "mnt"), ("pid", "pid"), ("cgroup", "cgroup"))), *words]

    def run(self, *words, expected=0):
        return output_of(*self.command(*words), expected=expected)

    def is_running(self):
        try:
            said = subprocess.run(self.command("systemctl", "is-system-running"), check=False, capture_output=True)
            return said.stdout.strip() in (b"running", b"degraded")
        except (FileNotFoundError, IndexError):
            return False

    def __enter__(self):
        # systemd says to nobody but its own kind when it is ready.
        for _ in range(100):
            if self.is_running():
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.__exit__()
        skip("systemd cannot be started here")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        while (self.group / "cgroup.events").read_text().split()[1] == "1":
            time.sleep(0.05)  # the kernel ends what process 1 leaves
        for folder, _, _ in os.walk(self.group, topdown=False):
            os.rmdir(folder)
        subprocess.run(["umount", self.proc], check=False)


# A process with a heap of some size.
SERVER = """[Service]
ExecStart={program} -c 'import time; kept = [bytes(i %% 900 + 1) for i in range(20000)]; time.sleep(600)'
User={user}
"""
# Their programs are where the service does not see them, but for one.
SERVERS = {"shared": ("nobody", "/usr/bin/python3"), "at_home": ("nobody", "/home/server/python"),
           "roots": ("root", "/tmp/python")}


def check_services(_build, packages):
    """Under systemd itself, hardened as they are: snapshots of processes of several users."""
    reenter()
    need("nsenter", "systemd-analyze")
    with OverlaidRoot() as root:
        install(root, packages, "heapsnap")
        check_units(root)
        config = 'keep = { last = 1 }\n[skip]\nmemory_pressure_over = "100%"\nio_pressure_over = "100%"\n'
        for name, (user, program) in SERVERS.items():
            root.write(f"/etc/systemd/system/{name}.service", SERVER.format(user=user, program=program))
            config += f'[[target]]\nname = "{name}"\nunit = "{name}"\n'
        root.write("/etc/heapsnap/collect.toml", config)
        with BootedSystem(root) as system:
            system.run("systemctl", "start", "sysinit.target")  # which clears /tmp
            for _, program in SERVERS.values():
                if not program.startswith("/usr"):
                    system.run("install", "-D", "/usr/bin/python3", program)
            system.run("systemctl", "start", *SERVERS)
            system.run("systemctl", "start", "heapsnap-collect.service")
            system.run("sh", "-c", "until heapsnap collect --at-once; do :; done")
            said = system.run("journalctl", "-u", "heapsnap-collect", "-o", "cat")
            print(said)
            store = pathlib.Path("/var/lib/heapsnap")
            for name, (_, program) in SERVERS.items():
                assert f"{name}: collected" in said, said
                (first,) = re.findall(rf"{store}/\S+/{name}/\S+\.hsnap", said)
                report = system.run("heapsnap", "report", first)
                assert "while it was read" not in report and "found by" in report, report
                assert os.path.basename(program) in report.split("snapshot")[0], report
            # The folder of the lock stays, and what is not kept goes.
            system.run("test", "-e", "/run/heapsnap/collect.lock")
            system.run("systemctl", "start", "heapsnap-prune.service")
            assert system.run("sh", "-c", "ls /var/lib/heapsnap/*/* | grep -c hsnap") == "3\n"
            system.run("systemctl", "enable", "--now", "heapsnap-collect.timer")
            timers = system.run("systemctl", "list-timers")
            assert "heapsnap-collect.timer" in timers and "heapsnap-prune.timer" in timers, timers


CASES = {"build": build_packages, "build_all": build_all_packages, "lintian": check_lintian,
         "install": check_install, "services": check_services}


def main():
    case, build, packages = sys.argv[1:]
    CASES[case](pathlib.Path(build).resolve(), pathlib.Path(packages).resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
