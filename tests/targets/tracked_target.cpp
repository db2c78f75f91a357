// A program that knows who allocated each of its blocks, for tests of the tracker.
//
//   tracked_target [--fork] [--segv] [--many] [--late LIBRARY]
//
// It allocates by every entry point of the allocator, each from a function of its own, and prints
//
//   L <address> <size> <function>   a live block: the bytes asked for, and who asked last
//   F <address>                     a block that was freed and not handed out again
//   P <pid>                         whose blocks these are
//   ready                           from here on the heap holds still
//
// With --late it first allocates some blocks, prints
//
//   B <address>                     a live block of before
//   waiting
//
// and goes on when it is sent a line: with some of these blocks, by a thread and by pointers to the
// allocator that were there before, and by LIBRARY (unloaded_library.c), which it loads now.
//
// With --many it begins with 400 blocks far apart, each in a page of the tracker's slots of its
// own.
//
// With --fork a child goes on with the blocks: frees some of the parent's, allocates its own, and
// prints what it has. At the end of standard input it ends with exit code 0, or, with --segv, by a
// segmentation fault.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

namespace {

struct Block {
  void* address;
  size_t size;
  const char* function;
};

Block live_blocks[4096];  // outside of the heap
int live_count = 0;
void* freed_blocks[4096];
int freed_count = 0;

// Keeps the compiler from ending the caller with a jump, which would take it off the stack.
void* keep(void* address, size_t size, const char* function) {
  if (address == nullptr) std::_Exit(70);
  std::memset(address, 0x5a, size);
  live_blocks[live_count++] = {address, size, function};
  return address;
}

void forget(void* address) {
  for (int i = 0; i < live_count; ++i) {
    if (live_blocks[i].address != address) continue;
    live_blocks[i] = live_blocks[--live_count];
    return;
  }
}

[[gnu::noinline]] void* by_malloc(size_t size) {
  return keep(std::malloc(size), size, __func__);
}
[[gnu::noinline]] void* by_calloc(size_t size) {
  return keep(std::calloc(1, size), size, __func__);
}
[[gnu::noinline]] void* by_realloc(void* old, size_t size) {
  forget(old);
  return keep(std::realloc(old, size), size, __func__);
}
[[gnu::noinline]] void* by_reallocarray(void* old, size_t size) {
  forget(old);
  return keep(reallocarray(old, 1, size), size, __func__);
}
[[gnu::noinline]] void* by_memalign(size_t size) {
  return keep(memalign(256, size), size, __func__);
}
[[gnu::noinline]] void* by_aligned_alloc(size_t size) {
  return keep(std::aligned_alloc(64, size), size, __func__);
}
[[gnu::noinline]] void* by_posix_memalign(size_t size) {
  void* address = nullptr;
  if (posix_memalign(&address, 1024, size) != 0) std::_Exit(70);
  return keep(address, size, __func__);
}
[[gnu::noinline]] void* by_valloc(size_t size) {
  return keep(valloc(size), size, __func__);
}
[[gnu::noinline]] void* by_pvalloc(size_t size) {
  return keep(pvalloc(size), size, __func__);
}
[[gnu::noinline]] void* by_new(size_t size) {
  return keep(::operator new(size), size, __func__);
}
[[gnu::noinline]] void* by_aligned_new(size_t size) {
  // libstdc++ asks for a multiple of the alignment.
  return keep(::operator new(size, std::align_val_t(128)), (size + 127) / 128 * 128, __func__);
}
[[gnu::noinline]] void* by_strdup(size_t size) {
  const std::string text(size - 1, 'x');
  return keep(strdup(text.c_str()), size, __func__);
}
[[gnu::noinline]] void* by_pointer(size_t size) {
  static void* (*volatile const taken_early)(size_t) = std::malloc;
  return keep(taken_early(size), size, __func__);
}

constexpr int kEarly = 40;
constexpr int kEarlyKept = 20;  // the others are resized or freed later
constexpr int kEarlyFreed = 30;
void* early_blocks[kEarly];
void* (*found_early)(size_t) = nullptr;
pthread_t early_thread;
pthread_barrier_t tracked_now;

[[gnu::noinline]] void* by_found_pointer(size_t size) {
  return keep(found_early(size), size, __func__);
}
[[gnu::noinline]] void* by_early_thread(size_t size) {
  return keep(std::malloc(size), size, __func__);
}

void* in_early_thread(void*) {
  pthread_barrier_wait(&tracked_now);
  for (size_t i = 0; i < 5; ++i) by_early_thread(900 + i);
  return nullptr;
}

void release(void* address) {
  forget(address);
  freed_blocks[freed_count++] = address;
  std::free(address);
}

void* in_thread(void*) {
  for (int i = 0; i < 5; ++i) by_malloc(3000 + static_cast<size_t>(i));
  return nullptr;
}

void allocate_by_all() {
  for (size_t i = 0; i < 20; ++i) {
    by_malloc(10 + i * 37);
    by_calloc(11 + i * 41);
    by_memalign(12 + i * 43);
    by_aligned_alloc(64 + i * 64);
    by_posix_memalign(13 + i * 47);
    by_valloc(14 + i * 3);
    by_pvalloc(15 + i * 3);
    by_new(16 + i * 53);
    by_aligned_new(17 + i * 59);
    by_strdup(18 + i * 61);
    by_pointer(19 + i * 67);
    by_realloc(by_malloc(500), 5000 + i * 100);  // grows
    by_realloc(by_malloc(5000), 200 + i);        // shrinks
    by_realloc(nullptr, 100 + i);                // allocates
    by_reallocarray(by_calloc(50), 700 + i * 10);
  }
  by_malloc(1 << 20);  // a mapping of its own
  by_realloc(by_malloc(1 << 20), 3 << 20);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, in_thread, nullptr) != 0) std::_Exit(70);
  pthread_join(thread, nullptr);
}

void free_some() {
  void* some[200];
  int count = 0;
  for (int i = 0; i < live_count && count < 200; i += 4) some[count++] = live_blocks[i].address;
  for (int i = 0; i < count; ++i) release(some[i]);
}

// Standard output's own buffer must not move anything.
void print_state() {
  static char text[1 << 20];
  int at = std::snprintf(text, sizeof text, "P %d\n", static_cast<int>(getpid()));
  for (int i = 0; i < live_count; ++i) {
    at += std::snprintf(text + at, sizeof text - static_cast<size_t>(at), "L %p %zu %s\n",
                        live_blocks[i].address, live_blocks[i].size, live_blocks[i].function);
  }
  for (int i = 0; i < freed_count; ++i) {
    at +=
        std::snprintf(text + at, sizeof text - static_cast<size_t>(at), "F %p\n", freed_blocks[i]);
  }
  at += std::snprintf(text + at, sizeof text - static_cast<size_t>(at), "ready\n");
  for (int done = 0; done < at;) {
    const ssize_t written = write(1, text + done, static_cast<size_t>(at - done));
    if (written <= 0) std::_Exit(70);
    done += static_cast<int>(written);
  }
}

void wait_for_line() {
  char byte = 0;
  while (byte != '\n') {
    if (read(0, &byte, 1) <= 0 && errno != EINTR) std::_Exit(70);
  }
}

void allocate_early() {
  for (size_t i = 0; i < kEarly; ++i) early_blocks[i] = std::malloc(100 + i * 50);
  found_early = reinterpret_cast<void* (*)(size_t)>(dlsym(RTLD_DEFAULT, "malloc"));
  pthread_barrier_init(&tracked_now, nullptr, 2);
  if (found_early == nullptr ||
      pthread_create(&early_thread, nullptr, in_early_thread, nullptr) != 0) {
    std::_Exit(70);
  }
  for (int i = 0; i < kEarlyKept; ++i) dprintf(1, "B %p\n", early_blocks[i]);
  dprintf(1, "waiting\n");
  wait_for_line();
}

void allocate_late(const char* library) {
  pthread_barrier_wait(&tracked_now);
  pthread_join(early_thread, nullptr);
  for (int i = kEarlyKept; i < kEarlyFreed; ++i) {
    by_realloc(early_blocks[i], 3000 + static_cast<size_t>(i));
  }
  for (int i = kEarlyFreed; i < kEarly; ++i) release(early_blocks[i]);
  void* const handle = dlopen(library, RTLD_NOW);
  if (handle == nullptr) std::_Exit(70);
  auto* const by_library = reinterpret_cast<void* (*)(size_t)>(dlsym(handle, "unloaded_alloc"));
  for (size_t i = 0; i < 10; ++i) {
    keep(by_library(70 + i * 30), 70 + i * 30, "unloaded_alloc");
    by_found_pointer(40 + i * 300);
  }
}

void wait_for_end_of_input() {
  char byte;
  while (read(0, &byte, 1) > 0 || errno == EINTR) errno = 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool fork_first = false;
  bool die = false;
  bool many = false;
  const char* late = nullptr;
  for (int i = 1; i < argc; ++i) {
    fork_first |= std::strcmp(argv[i], "--fork") == 0;
    many |= std::strcmp(argv[i], "--many") == 0;
    die |= std::strcmp(argv[i], "--segv") == 0;
    if (std::strcmp(argv[i], "--late") == 0 && i + 1 < argc) late = argv[++i];
  }
  if (late != nullptr) {
    allocate_early();
    allocate_late(late);
  }
  for (int i = 0; many && i < 400; ++i) by_malloc(40000);
  allocate_by_all();
  if (fork_first) {
    const pid_t child = fork();
    if (child < 0) return 70;
    if (child != 0) {
      int status = 0;
      waitpid(child, &status, 0);
      return WIFEXITED(status) ? WEXITSTATUS(status) : 71;
    }
    allocate_by_all();
  }
  free_some();
  print_state();
  wait_for_end_of_input();
  if (die) *static_cast<volatile int*>(nullptr) = 1;
  return 0;
}
