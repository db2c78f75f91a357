// A program that knows what it has leaked, and what it still holds in unusual places.
//
//   known_leaks MODULE      MODULE: libleak_holder.so
//
// Says, and then waits for the end of its standard input:
//
//   leaked direct one 0x55...      a block that nothing holds
//   leaked cycle ring 0x55...      part of a ring that nothing holds
//   leaked indirect list 0x55...   held by a leaked block only
//   kept register 0x55...          held, by what the word says
//   ready
//
// Addresses are kept as their complement, so that nothing here holds what it says to be leaked.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Line {
  const char* text;
  uintptr_t hidden;
};
std::vector<Line> g_lines;
std::mutex g_lines_mutex;

uintptr_t hide(const void* pointer) {
  return ~reinterpret_cast<uintptr_t>(pointer);
}
void say(const char* text, void* pointer) {
  const std::lock_guard lock(g_lines_mutex);
  g_lines.push_back({text, hide(pointer)});
}

struct Node {
  Node* left = nullptr;
  Node* right = nullptr;
  uint64_t number = 0;
};

[[gnu::noinline]] void leak_one() {
  say("leaked direct one", std::malloc(40));
}

[[gnu::noinline]] void leak_list() {
  Node* first = nullptr;
  for (uint64_t i = 0; i < 5; ++i) {
    auto* const node = new Node{first, nullptr, i};
    if (first != nullptr) say("leaked indirect list", first);
    first = node;
  }
  say("leaked direct list", first);
}

[[gnu::noinline]] void leak_ring() {
  auto* const first = new Node;
  Node* last = first;
  say("leaked cycle ring", first);
  for (uint64_t i = 0; i < 3; ++i) {
    last->left = new Node{nullptr, nullptr, i};
    last = last->left;
    say("leaked cycle ring", last);
  }
  last->left = first;
  // What hangs on a ring is held by it.
  first->right = new Node;
  say("leaked indirect ring", first->right);
}

[[gnu::noinline]] Node* make_tree(int depth, bool is_root) {
  auto* const node = new Node;
  say(is_root ? "leaked direct tree" : "leaked indirect tree", node);
  if (depth > 0) {
    node->left = make_tree(depth - 1, false);
    node->right = make_tree(depth - 1, false);
  }
  return node;
}

void* volatile g_interior;
[[gnu::noinline]] void keep_by_interior() {
  auto* const block = static_cast<char*>(std::malloc(200));
  g_interior = block + 100;
  say("kept interior", block);
}

// Its last owner is a chunk that was freed: the word is still there, but nobody's. It is not among
// the first of the chunk, which malloc overwrites.
[[gnu::noinline]] void leak_in_freed() {
  auto** const owner = static_cast<void**>(std::malloc(400));
  owner[20] = std::malloc(48);
  say("leaked direct freed", owner[20]);
  std::free(owner);
}

[[gnu::noinline]] void leave_below_stack_pointer() {
  constexpr size_t kDeep = 256 << 10;
  auto* const far = static_cast<void* volatile*>(__builtin_alloca(kDeep));
  far[10] = std::malloc(56);
  say("leaked direct stack", far[10]);
}

[[gnu::noinline]] void keep_by_mapping() {
  auto** const mapping = static_cast<void**>(
      mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mapping[5000] = std::malloc(72);
  say("kept mapping", mapping[5000]);
}

// What may not be read now is still there when it may again.
[[gnu::noinline]] void keep_inaccessibly() {
  constexpr size_t kSize = 64 << 20;  // mostly never touched
  for (const int access : {PROT_WRITE, PROT_NONE}) {
    auto** const mapping =
        static_cast<void**>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    mapping[5000] = std::malloc(72);
    say("kept inaccessible", mapping[5000]);
    mprotect(mapping, kSize, access);
  }
}

void** volatile g_large;
[[gnu::noinline]] void keep_by_mmapped_chunk() {
  g_large = static_cast<void**>(std::calloc(1, 4 << 20));
  g_large[300'000] = std::malloc(88);
  say("kept mmapped", g_large[300'000]);
}

// What a FILE has not set, and what lies behind the characters in its buffer, is left over.
FILE* volatile g_file;
[[gnu::noinline]] void leak_in_file() {
  g_file = std::fopen("/dev/null", "w");
  constexpr size_t kOldOffset = 120;
  constexpr size_t kPadding = 184;
  constexpr size_t kWideStates = 240 + 96;
  for (const size_t at : {kOldOffset, kPadding, kWideStates}) {
    void* const block = std::malloc(1000 + at);
    std::memcpy(reinterpret_cast<char*>(g_file) + at, &block, sizeof block);
    say("leaked direct file", block);
  }
}
[[gnu::noinline]] void leak_behind_text() {
  std::fputs("a line\n", g_file);
  void* const block = std::malloc(1000);
  std::memcpy(g_file->_IO_buf_base + 512, &block, sizeof block);
  say("leaked direct file_buffer", block);
}

// Addresses that a FILE has read ahead, and those that it has not written yet.
FILE* volatile g_reader;
FILE* volatile g_writer;
[[gnu::noinline]] void keep_in_buffers() {
  int ends[2] = {};
  if (pipe(ends) != 0) std::exit(1);
  void* words[2] = {nullptr, std::malloc(1001)};
  say("kept unread", words[1]);
  if (write(ends[1], words, sizeof words) != sizeof words) std::exit(1);
  words[1] = nullptr;
  g_reader = fdopen(ends[0], "r");
  if (std::fread(words, sizeof words[0], 1, g_reader) != 1) std::exit(1);
  words[0] = std::malloc(1002);
  say("kept unwritten", words[0]);
  g_writer = fdopen(ends[1], "w");
  std::fwrite(words, sizeof words[0], 1, g_writer);
  words[0] = nullptr;
}

volatile uintptr_t g_hidden;
[[gnu::noinline]] void leak_hidden() {
  void* const block = std::malloc(104);
  g_hidden = reinterpret_cast<uintptr_t>(block) ^ 0x5555555555555555;
  say("leaked direct hidden", block);
}

[[gnu::noinline]] void leak_large() {
  say("leaked direct large", std::malloc(3 << 20));
}

pthread_barrier_t g_started;
thread_local void* volatile t_block = nullptr;

[[gnu::noinline]] void keep_by_thread_local() {
  t_block = std::malloc(120);
  say("kept thread_local", t_block);
}
void* sleep_with_thread_local(void*) {
  keep_by_thread_local();
  pthread_barrier_wait(&g_started);
  pause();
  return nullptr;
}

// Holds it in a register alone while it waits in the kernel.
[[gnu::noinline]] uintptr_t make_for_register() {
  void* const block = std::malloc(136);
  say("kept register", block);
  return hide(block);
}
void* sleep_with_register(void*) {
  const uintptr_t hidden = make_for_register();
  pthread_barrier_wait(&g_started);
#if defined(__x86_64__)
  uintptr_t result = SYS_pause;
  __asm__ volatile(
      "mov %[hidden], %%rbx\n\t"
      "not %%rbx\n\t"
      "syscall\n\t"
      "not %%rbx"
      : "+a"(result)
      : [hidden] "r"(hidden)
      : "rbx", "rcx", "r11", "memory");
#endif
  return nullptr;
}

// Its stack lies in a mapping of its own, and nobody runs on it.
ucontext_t g_main;
ucontext_t g_parked;
void park() {
  void* volatile block = std::malloc(152);
  say("kept coroutine", block);
  swapcontext(&g_parked, &g_main);
  std::free(block);
}
void keep_by_coroutine() {
  constexpr size_t kStack = 256 << 10;
  void* const stack =
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  getcontext(&g_parked);
  g_parked.uc_stack.ss_sp = stack;
  g_parked.uc_stack.ss_size = kStack;
  g_parked.uc_link = &g_main;
  makecontext(&g_parked, park, 0);
  swapcontext(&g_main, &g_parked);
}

void keep_by_module(const char* path) {
  void* const module = dlopen(path, RTLD_NOW);
  if (module == nullptr) std::exit(1);
  using Hold = void* (*)(size_t);
  for (const char* name : {"hold_in_data", "hold_in_bss", "hold_in_thread_local"}) {
    const auto hold = reinterpret_cast<Hold>(dlsym(module, name));
    if (hold == nullptr) std::exit(1);
    say("kept module", hold(168));
  }
}

// What a thread held that has ended: its stack is kept for the next one.
[[gnu::noinline]] void leave_on_own_stack() {
  void* volatile block = std::malloc(184);
  say("leaked direct ended_thread", block);
}
void* end_at_once(void*) {
  leave_on_own_stack();
  return nullptr;
}

// Overwrites what calls left on the stack and in registers.
[[gnu::noinline]] void wipe_stack() {
  constexpr size_t kWiped = 128 << 10;
  void* const rest = __builtin_alloca(kWiped);
  std::memset(rest, 0, kWiped);
  __asm__ volatile("" ::"r"(rest) : "memory");
}

void print_lines() {
  for (const Line& line : g_lines) std::printf("%s 0x%" PRIxPTR "\n", line.text, ~line.hidden);
  std::puts("ready");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  g_lines.reserve(1000);
  leak_one();
  leak_list();
  leak_ring();
  make_tree(3, true);
  keep_by_interior();
  leak_in_freed();
  leave_below_stack_pointer();
  keep_by_mapping();
  keep_inaccessibly();
  keep_by_mmapped_chunk();
  leak_in_file();
  leak_behind_text();
  keep_in_buffers();
  leak_hidden();
  leak_large();
  keep_by_coroutine();
  keep_by_module(argv[1]);

  pthread_t thread;
  pthread_barrier_init(&g_started, nullptr, 3);
  pthread_create(&thread, nullptr, sleep_with_thread_local, nullptr);
  pthread_create(&thread, nullptr, sleep_with_register, nullptr);
  pthread_barrier_wait(&g_started);
  // Last, so that no other thread is given its stack.
  pthread_create(&thread, nullptr, end_at_once, nullptr);
  pthread_join(thread, nullptr);
  wipe_stack();
  print_lines();
  wipe_stack();
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
