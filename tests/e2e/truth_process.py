"""Starting the truth target on the C library that a test names, and making cores of it."""

import contextlib
import fcntl
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time

from truth_heap import Truth
from owned_process import OwnedProcess

SKIPPED = 77  # what ctest takes for "could not be run here"
ROOTS_SCRIPT = pathlib.Path(__file__).with_name("glibc_roots.sh")
CORE_PATTERN = pathlib.Path("/proc/sys/kernel/core_pattern")
HUGE_PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")
RETRY_SECONDS = 3600  # how long a suite that could not be had is not asked for again


class Skip(Exception):
    """The test cannot be run on this machine; says why."""


def suite_root(roots, suite):
    """Folder with the C library of `suite`, fetched on first use."""
    roots.mkdir(parents=True, exist_ok=True)
    missing = roots / f"{suite}.missing"
    with open(roots / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if missing.exists() and time.time() - missing.stat().st_mtime < RETRY_SECONDS:
            raise Skip(missing.read_text().strip())
        done = subprocess.run([ROOTS_SCRIPT, roots, suite], stdout=subprocess.PIPE, text=True)
        if done.returncode == SKIPPED:
            missing.write_text(done.stdout)
            raise Skip(done.stdout.strip())
        done.check_returncode()
    return roots / suite


def one_path(folder, pattern):
    found = sorted(folder.glob(pattern))
    if not found:
        raise FileNotFoundError(f"no {pattern} below {folder}")
    return str(found[0])


def link_for_suite(compiler, target_object, root, output):
    """Links the object against an older C library, with nothing of this system's."""
    dev = root.with_name(root.name + "-dev") / "usr/lib"
    lib = root / "lib"
    parts = [one_path(dev, "*/Scrt1.o"), one_path(dev, "*/crti.o"), target_object]
    parts += [one_path(lib, "*/" + name) for name in ("libpthread.so.0", "libc.so.6", "ld-[0-9l]*.so*")]
    parts += [one_path(dev, "*/libc_nonshared.a"), one_path(dev, "*/crtn.o")]
    subprocess.run([compiler, "-nostdlib", "-pie", "-o", output] + parts, check=True)


class TargetChoice:
    """Which binary on which C library: "native", "static[-pie][-stripped]" or a suite."""

    def __init__(self, libc, targets, roots, compiler, work, by_loader=False):
        self.root = None
        self.inside = None
        self.argv = None
        if libc == "native":
            self.argv = [str(targets / "truth_target")]
        elif libc.startswith("static"):
            name = "truth_target_" + libc.removesuffix("-stripped").replace("-", "_")
            binary = targets / name
            if libc.endswith("-stripped"):
                subprocess.run(["strip", "-o", work / name, binary], check=True)
                binary = work / name
            self.argv = [str(binary)]
        else:
            self.choose_suite(libc, targets, roots, compiler, work, by_loader)

    def choose_suite(self, suite, targets, roots, compiler, work, by_loader):
        self.root = suite_root(roots, suite)
        binary = work / "truth_target"
        if self.root.with_name(suite + "-dev").exists():
            target_object = one_path(targets, "CMakeFiles/truth_target_object.dir/*.o")
            link_for_suite(compiler, target_object, self.root, binary)
        else:
            shutil.copy(targets / "truth_target", binary)
        if os.geteuid() == 0 and not by_loader:
            # A folder of this test inside of the root: the target's working folder and its binary.
            inside = pathlib.Path(tempfile.mkdtemp(dir=self.root / "tmp"))
            shutil.copy(binary, inside / "truth_target")
            self.inside = inside
            self.argv = ["./truth_target"]
        else:
            loader = one_path(self.root, "lib64/../lib/*/ld-linux-*.so.*")
            library_path = pathlib.Path(one_path(self.root, "lib/*/libc.so.6")).parent
            self.argv = [loader, "--library-path", str(library_path), str(binary)]

    def working_folder(self, work):
        return self.inside or work

    def sysroot(self):
        return str(self.root) if self.inside else None

    def clean_up(self):
        if self.inside:
            shutil.rmtree(self.inside)


class RunningTarget(OwnedProcess):
    """The target, ready: its truth is complete, and its heap stands still (or churns, if asked to)."""

    def __init__(self, choice, work, mode, seed, environment, churn=False, abort=False, lone=False):
        folder = choice.working_folder(work)
        root = choice.sysroot()

        def prepare():
            if abort:
                unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                resource.setrlimit(resource.RLIMIT_CORE, unlimited)
            if churn:
                # It takes what processor time others leave; in the long form as much as anybody.
                os.nice(0 if os.environ.get("HEAPSNAP_LONG") == "1" else 10)
            if root:
                os.chroot(root)
                os.chdir("/tmp/" + folder.name)

        arguments = ["--mode", mode, "--seed", str(seed)]
        arguments += ["--churn"] * churn + ["--abort"] * abort + ["--lone"] * lone
        self.process = subprocess.Popen(
            choice.argv + arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=None if root else folder, env=environment, preexec_fn=prepare)
        self.pid = self.process.pid
        try:
            self.truth = Truth(self.process.stdout)
        except ValueError:
            self.process.kill()
            self.process.wait()
            raise

    def end(self):
        """Lets it check its blocks and end; its exit code (negative: a signal)."""
        self.process.stdin.close()
        return self.process.wait(timeout=120)

    def maps(self):
        return pathlib.Path(f"/proc/{self.pid}/maps").read_text()


def make_gcore(pid, path):
    gdb = shutil.which("gdb")
    if not gdb:
        raise Skip("no gdb to make a core with")
    done = subprocess.run(
        [gdb, "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-solib-add off",
         "-p", str(pid), "-ex", f"gcore {path}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if not path.exists():
        raise RuntimeError(f"gdb made no core:\n{done.stdout}")


def core_pattern_is_plain(pattern):
    return not pattern.startswith(("|", "@")) and "/" not in pattern


@contextlib.contextmanager
def kernel_core_file():
    """While open, the kernel writes cores into the working folder of who dies."""
    before = CORE_PATTERN.read_text().strip()
    if core_pattern_is_plain(before):
        yield before.split("%")[0]
        return
    try:
        CORE_PATTERN.write_text("core.%p\n")
    except OSError as error:
        raise Skip(f"the kernel gives cores to '{before}', and that cannot be changed: {error.strerror}") from None
    try:
        yield "core."
    finally:
        CORE_PATTERN.write_text(before + "\n")


def make_kernel_core(target, folder, prefix):
    code = target.end()
    if code != -signal.SIGABRT:
        raise RuntimeError(f"the target did not die of SIGABRT: {code}")
    cores = list(folder.glob(prefix + "*"))
    if len(cores) != 1:
        raise Skip(f"the kernel wrote no core into the target's folder ({CORE_PATTERN.read_text().strip()})")
    return cores[0]


@contextlib.contextmanager
def huge_pages(count):
    """While open, the kernel has `count` huge pages in store (or the test is skipped)."""
    try:
        before = int(HUGE_PAGES.read_text())
        HUGE_PAGES.write_text(f"{max(before, count)}\n")
    except OSError as error:
        raise Skip(f"huge pages cannot be reserved: {error.strerror}") from None
    try:
        if int(HUGE_PAGES.read_text()) < count:
            raise Skip(f"the kernel has no {count} huge pages")
        yield
    finally:
        HUGE_PAGES.write_text(f"{before}\n")
