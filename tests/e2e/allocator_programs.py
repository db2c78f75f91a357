"""Programs with each kind of allocator (tests/targets/allocator_user.c, pool_user.cpp), built here, since what they
are linked with is not needed to build heapsnap."""

import os
import pathlib
import shutil
import subprocess

from owned_process import OwnedProcess

LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
SOURCES = pathlib.Path(__file__).resolve().parent.parent / "targets"
PROGRAM = SOURCES / "allocator_user.c"

# Linked after everything else, so that the allocator's own operator new comes with it.
STATIC_TCMALLOC = ["-Wl,--whole-archive", str(LIBRARIES / "libtcmalloc_minimal.a"), "-Wl,--no-whole-archive",
                   "-lstdc++", "-lm", "-lpthread"]

# A browser's: it answers malloc in the program itself, and its names are texts only.
PARTITION_ALLOC = r'''
#include <stddef.h>
#include <string.h>
#include <stdint.h>
static _Alignas(4096) unsigned char pool[64 << 20];
static size_t used;
__attribute__((used)) static const char name[] = "partition_alloc/address_space";
__attribute__((used)) static const char file[] = "../../base/allocator/partition_allocator/src/partition_alloc/partition_root.cc";
static size_t* size_of(void* block) { return (size_t*)block - 2; }
static void* take(size_t alignment, size_t size) {
  static volatile int lock;
  while (__sync_lock_test_and_set(&lock, 1)) {}
  used = (used + 16 + alignment - 1) / alignment * alignment;
  void* block = used + size <= sizeof pool ? pool + used : NULL;
  if (block != NULL) { used += size; *size_of(block) = size; }
  __sync_lock_release(&lock);
  return block;
}
void* malloc(size_t size) { return take(16, size); }
void free(void* block) { (void)block; }
void* calloc(size_t count, size_t size) { return take(16, count * size); }
void* realloc(void* block, size_t size) {
  void* moved = take(16, size);
  if (block != NULL && moved != NULL) memcpy(moved, block, *size_of(block) < size ? *size_of(block) : size);
  return moved;
}
void* memalign(size_t alignment, size_t size) { return take(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return take(alignment, size); }
void* valloc(size_t size) { return take(4096, size); }
int posix_memalign(void** out, size_t alignment, size_t size) { *out = take(alignment, size); return *out == NULL ? 12 : 0; }
size_t malloc_usable_size(void* block) { return block == NULL ? 0 : *size_of(block); }
int main(void) {
  extern int printf(const char*, ...); extern int getchar(void); extern int fflush(void*);
  for (int i = 0; i < 10000; ++i) free(malloc(100));
  printf("glibc 0\nready\n"); fflush(0);
  while (getchar() != -1) {}
  return 0;
}
'''


class Missing(Exception):
    """What the program is made of is not installed."""


class Program:
    """How to build it, and what is true of it."""

    def __init__(self, answers, link=(), preload=(), compiler="cc", source=PROGRAM, flags=(), environment=None,
                 is_dynamic=True):
        self.answers = answers  # whose malloc its calls reach
        self.link, self.preload, self.compiler, self.flags = list(link), list(preload), compiler, list(flags)
        self.source, self.environment, self.is_dynamic = source, environment or {}, is_dynamic

    def build(self, folder, name):
        for path in [*self.preload, *(word for word in self.link if word.startswith("/"))]:
            if not os.path.exists(path):
                raise Missing(path)
        if shutil.which(self.compiler) is None:
            raise Missing(self.compiler)
        path = pathlib.Path(folder) / name
        command = [self.compiler, "-O1", "-fno-builtin", "-w", *self.flags, "-o", path, self.source, *self.link]
        if self.source == PARTITION_ALLOC:
            file = pathlib.Path(folder) / "partition_alloc.c"
            file.write_text(PARTITION_ALLOC)
            command[command.index(self.source)] = file
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            raise RuntimeError(f"{name} cannot be built: {done.stderr}")
        return path

    def variables(self):
        preload = {"LD_PRELOAD": ":".join(self.preload)} if self.preload else {}
        return os.environ | preload | self.environment


def library(name):
    return str(LIBRARIES / name)


THREADS = ["-lpthread"]
PROGRAMS = {
    "glibc": Program("glibc", THREADS),
    "own_operator_new": Program("glibc", compiler="c++", source=SOURCES / "pool_user.cpp"),
    "jemalloc_linked": Program("jemalloc", ["-Wl,--no-as-needed", library("libjemalloc.so.2"), *THREADS]),
    "jemalloc_preloaded": Program("jemalloc", THREADS, [library("libjemalloc.so.2")]),
    "jemalloc_static": Program("jemalloc", [library("libjemalloc.a"), "-lm", "-lstdc++", *THREADS]),
    "tcmalloc_linked": Program("tcmalloc", ["-Wl,--no-as-needed", library("libtcmalloc_minimal.so.4"), *THREADS]),
    "tcmalloc_preloaded": Program("tcmalloc", THREADS, [library("libtcmalloc_minimal.so.4")]),
    "tcmalloc_static": Program("tcmalloc", STATIC_TCMALLOC),
    "mimalloc_linked": Program("mimalloc", ["-Wl,--no-as-needed", library("libmimalloc.so.2"), *THREADS]),
    "mimalloc_preloaded": Program("mimalloc", THREADS, [library("libmimalloc.so.2")]),
    "partition_alloc": Program("PartitionAlloc", source=PARTITION_ALLOC),
    "address_sanitizer": Program("AddressSanitizer", THREADS, flags=["-fsanitize=address"],
                                 environment={"ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=1"}),
    "address_sanitizer_static": Program("AddressSanitizer", THREADS, compiler="clang",
                                        flags=["-fsanitize=address"],
                                        environment={"ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=1"}),
    "musl": Program("musl", compiler="musl-gcc", flags=["-DOWN_ENTRY_POINTS_ONLY"]),
    "musl_static": Program("musl", compiler="musl-gcc", flags=["-DOWN_ENTRY_POINTS_ONLY", "-static"], is_dynamic=False),
    "glibc_static": Program("glibc", THREADS, flags=["-static"], is_dynamic=False),
    "glibc_static_pie": Program("glibc", THREADS, flags=["-static-pie", "-fPIE"], is_dynamic=False),
}


class Running(OwnedProcess):
    """A program that has allocated all it will, and waits for the end of its standard input."""

    def __init__(self, command, program):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=program.variables())
        self.in_glibc = None  # bytes in use in glibc's own heap, as it says
        for line in self.process.stdout:
            if line.startswith("glibc "):
                self.in_glibc = int(line.split()[1])
            if line == "ready\n":
                return
        raise RuntimeError(f"{command}: ended with {self.process.wait()}: {self.process.stderr.read()}")

    def end(self):
        """Exit code, and what it wrote to standard error."""
        self.process.stdin.close()
        errors = self.process.stderr.read()
        return self.process.wait(timeout=120), errors

    def child(self):
        """Of `heapsnap run`: the program."""
        pid = self.process.pid
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
