"""How processes of odd kinds are started: most as they are, some by other programs, limits or files."""

import ctypes
import os
import resource
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Callable


@dataclass
class Start:
    command: list
    environment: dict = field(default_factory=lambda: dict(os.environ))
    before: Callable = None
    after: Callable = lambda: None


def needs(tool):
    if not shutil.which(tool):
        raise LookupError(f"{tool} is not installed")


def by_setarch(option):
    def start(words, _):
        needs("setarch")
        return Start(["setarch", "x86_64", option, *words])
    return start


def with_limit(kind, soft):
    def start(words, _):
        hard = resource.getrlimit(kind)[1]
        return Start(words, before=lambda: resource.setrlimit(kind, (soft, hard)))
    return start


def with_environment(**more):
    def start(words, _):
        return Start(words, environment=dict(os.environ, **more))
    return start


def deleted_executable(words, folder):
    copy = shutil.copy(words[0], f"{folder}/odd_process")
    return Start([copy, *words[1:]], after=lambda: os.unlink(copy))


def odd_path(words, folder):
    copy = shutil.copy(words[0], f"{folder}/odd\nff-ff r-xp 0 (deleted)")
    return Start([copy, *words[1:]])


def deleted_mount(words, folder):
    mount = f"{folder}/mount"
    os.mkdir(mount)
    if subprocess.run(["mount", "-t", "tmpfs", "none", mount], capture_output=True, check=False).returncode != 0:
        raise LookupError("mount is refused")
    copy = shutil.copy(words[0], f"{mount}/odd_process")
    return Start([copy, *words[1:]],
                 after=lambda: subprocess.run(["umount", "-l", mount], check=True))


def with_malloc_debug(words, folder):
    library = "/usr/lib/x86_64-linux-gnu/libc_malloc_debug.so.0"
    if not os.path.exists(library):
        raise LookupError("libc_malloc_debug.so is not installed")
    return Start(words, environment=dict(os.environ, LD_PRELOAD=library, MALLOC_CHECK_="3"))


def without_signals(words, _):
    def block():
        ctypes.CDLL(None).nice(10)
    return Start(words, before=block)


def compiled(*options, compiler="gcc"):
    """With all of its sources, in another way."""
    def start(words, folder):
        needs(compiler)
        sources = os.path.join(os.path.dirname(__file__), "../targets/odd_process")
        program = f"{folder}/odd_process"
        built = subprocess.run([compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", *options, "-o", program,
                                *(f"{sources}/{name}" for name in sorted(os.listdir(sources)) if name.endswith(".c")),
                                "-lpthread", "-ldl", "-lm"], capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise LookupError(f"{compiler} {options}: {built.stderr[:200]}")
        return Start([program, *words[1:]])
    return start


# Name: the kind of tests/targets/odd_process, and how it is started.
STARTS = {
    "used_up_descriptors": ("used_up_descriptors", with_limit(resource.RLIMIT_NOFILE, 48)),
    "unlimited_stack": ("plain_threads", with_limit(resource.RLIMIT_STACK, resource.RLIM_INFINITY)),
    "no_core": ("plain_threads", with_limit(resource.RLIMIT_CORE, 0)),
    "no_randomization": ("plain_threads", by_setarch("-R")),
    "all_executable": ("plain_threads", by_setarch("-X")),
    "old_layout": ("plain_threads", by_setarch("-L")),
    "deleted_executable": ("plain_threads", deleted_executable),
    "deleted_mount": ("plain_threads", deleted_mount),
    "odd_path": ("plain_threads", odd_path),
    "checked_malloc": ("plain_threads", with_malloc_debug),
    "one_arena": ("few_arenas", with_environment(MALLOC_ARENA_MAX="1", GLIBC_TUNABLES="glibc.malloc.tcache_count=0")),
    "static": ("plain_threads", compiled("-static")),
    "static_pie": ("plain_threads", compiled("-static-pie", "-fPIE")),
    "no_pie": ("plain_threads", compiled("-no-pie")),
    "executable_stack": ("plain_threads", compiled("-z", "execstack")),
}


def kinds_of(target):
    listed = subprocess.run([target, "--list"], capture_output=True, text=True, check=True).stdout.split()
    return listed + [name for name in STARTS if name not in listed]


def start_of(kind, target, folder, truth):
    name, start = STARTS.get(kind, (kind, lambda words, _: Start(words)))
    return start([target, name, truth], folder)
