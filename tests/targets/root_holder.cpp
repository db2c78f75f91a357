// Holds words in every place that keeps a block alive, and in some that do not, and says which
// place each word is in; objects of all kinds of classes, and which class each is of.
//
//   root_holder LIBRARY      the library: root_holder_loaded
//
// Says "ready", then a line for each word, "KIND NAME ADDRESS [MORE]", then "end", and then waits
// for the end of its standard input.
#include "root_holder.h"

#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

void* global_word = nullptr;
void* global_table[8] = {};
extern const void* const constant_table[2];
const void* const constant_table[2] = {&global_word, &global_table};

namespace {

void* hidden_data = &global_word;

struct Single {
  virtual ~Single() = default;
  long one = 1;
};
struct Other {
  virtual ~Other() = default;
  long other = 2;
};
struct Child : Single {
  long child = 3;
};
struct Both : Single, Other {
  long both = 4;
};
struct Diamond : virtual Single, virtual Other {
  long diamond = 5;
};

}  // namespace

namespace shop {

template <typename Key, typename Value>
struct Cache {
  virtual ~Cache() = default;
  virtual void put(Key, Value) {}
  Key key{};
  Value value{};
};

}  // namespace shop

namespace root_holder {

namespace {

std::vector<std::string> lines;
pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;
thread_local void* own_word = nullptr;
std::atomic<int> waiting{0};
std::atomic<bool> ending{false};
std::atomic<int> ended_tid{0};

void wait_for_end() {
  ++waiting;
  waiting.notify_one();
  ending.wait(false);
}

__attribute__((noinline)) void hold_on_stack() {
  void* volatile slots[4] = {&global_word, &global_word, &global_word, &global_word};
  say("stack", "root_holder::(anonymous namespace)::hold_on_stack()", const_cast<void**>(&slots[1]),
      std::to_string(gettid()).c_str());
  wait_for_end();
  slots[0] = nullptr;
}

__attribute__((noinline)) void hold_in_recursion(int depth) {
  void* volatile slot = &global_word;
  say("stack", "root_holder::(anonymous namespace)::hold_in_recursion(int)",
      const_cast<void**>(&slot), std::to_string(gettid()).c_str());
  if (depth > 0) {
    hold_in_recursion(depth - 1);
  } else {
    hold_on_stack();
  }
  slot = nullptr;
}

// Leaves a word far below the stack pointer of who calls it.
__attribute__((noinline)) void leave_below() {
  constexpr size_t kSize = 64 << 10;
  void** volatile room = static_cast<void**>(alloca(kSize));
  std::memset(room, 1, kSize);
  say("nowhere", "below-the-stack-pointer", room);
}

void* hold_in_thread(void*) {
  own_word = &global_word;
  say("thread-local", "root_holder::(anonymous namespace)::own_word", &own_word,
      std::to_string(gettid()).c_str());
  say_linked();
  say("somewhere", "control-block", reinterpret_cast<void*>(pthread_self()));
  leave_below();
  hold_in_recursion(3);
  return nullptr;
}

void* end_at_once(void* kind) {
  ended_tid = gettid();
  void* volatile slot = &global_word;
  say("nowhere", static_cast<const char*>(kind), const_cast<void**>(&slot));
  say("nowhere", "thread-local of an ended thread", &own_word);
  return &global_word;
}

void start_and_end() {
  // Joined when all are started, so that none gets the stack of another.
  pthread_t threads[3];
  for (pthread_t& thread : threads) {
    pthread_create(&thread, nullptr, end_at_once, const_cast<char*>("stack of an ended thread"));
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
}

pthread_t start_unjoined() {
  pthread_t thread;
  ended_tid = 0;
  pthread_create(&thread, nullptr, end_at_once, const_cast<char*>("stack of an unjoined thread"));
  while (ended_tid == 0 || syscall(SYS_tgkill, getpid(), ended_tid.load(), 0) == 0) sched_yield();
  return thread;
}

ucontext_t thread_context;
ucontext_t fiber_context;

void hold_in_fiber() {
  void* volatile slots[2] = {&global_word, &global_word};
  say("stack", "root_holder::(anonymous namespace)::hold_in_fiber()", const_cast<void**>(&slots[0]),
      std::to_string(gettid()).c_str());
  wait_for_end();
  slots[0] = nullptr;
}

void* switch_to_fiber(void*) {
  constexpr size_t kStack = 256 << 10;
  void* volatile slot = &global_word;
  say("somewhere", "stack of a thread on another stack", const_cast<void**>(&slot));
  void* const stack =
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  getcontext(&fiber_context);
  fiber_context.uc_stack.ss_sp = stack;
  fiber_context.uc_stack.ss_size = kStack;
  fiber_context.uc_link = &thread_context;
  makecontext(&fiber_context, hold_in_fiber, 0);
  swapcontext(&thread_context, &fiber_context);
  slot = nullptr;
  return nullptr;
}

void* map(int protection, int flags) {
  void** const place =
      static_cast<void**>(mmap(nullptr, 8 * 4096, PROT_READ | PROT_WRITE, flags, -1, 0));
  place[16] = &global_word;
  if (protection != (PROT_READ | PROT_WRITE)) mprotect(place, 8 * 4096, protection);
  return place + 16;
}

void** function_static() {
  static void* held_by_function[2] = {&global_word, nullptr};
  return held_by_function;
}

void say_variables() {
  say("variable", "global_word", &global_word);
  say("variable", "global_table", &global_table[5]);
  say("variable", "constant_table", const_cast<const void**>(&constant_table[1]));
  say("variable", "(anonymous namespace)::hidden_data", &hidden_data);
  say("variable", "root_holder::(anonymous namespace)::function_static()::held_by_function",
      function_static());
}

void say_mappings() {
  constexpr int kBoth = PROT_READ | PROT_WRITE;
  say("mapping", "private", map(kBoth, MAP_PRIVATE | MAP_ANONYMOUS));
  say("mapping", "sealed", map(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS));
  say("mapping", "shared", map(kBoth, MAP_SHARED | MAP_ANONYMOUS));
  say("mapping", "protected", map(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS));
  say("nowhere", "block", static_cast<char*>(std::malloc(100)) + 16);
  say("nowhere", "mmapped block", static_cast<char*>(std::malloc(1 << 20)) + 64);
}

void say_objects() {
  say("object", "(anonymous namespace)::Single", new Single);
  say("object", "(anonymous namespace)::Child", new Child);
  say("object", "(anonymous namespace)::Both", new Both);
  say("object", "(anonymous namespace)::Diamond", new Diamond);
  say("object",
      "shop::Cache<int, std::map<long, (anonymous namespace)::Single*, std::less<long>, "
      "std::allocator<std::pair<long const, (anonymous namespace)::Single*> > > >",
      new shop::Cache<int, std::map<long, Single*>>);
  struct Local {
    virtual ~Local() = default;
  };
  say("object", "root_holder::(anonymous namespace)::say_objects()::Local", new Local);
  make_plain_objects();
  say("structure", "FILE", fopen("/dev/null", "r"));
  // What begins like an object and is none: with the address of a function, of data, of the second
  // vtable of a class, of a vtable but not where one begins, or of nothing at all.
  const auto say_word = [](const void* word) {
    const void** const block = static_cast<const void**>(std::malloc(32));
    *block = word;
    say("no-object", "-", block);
  };
  const auto words_of = [](void* object) { return *static_cast<const uintptr_t**>(object); };
  say_word(reinterpret_cast<const void*>(&say_mappings));
  say_word(&global_table);
  say_word(&constant_table);
  Both* const both = new Both;
  say_word(words_of(static_cast<Other*>(both)));
  say_word(words_of(both) + 1);
  say_word(words_of(both) - 1);
  say_word(reinterpret_cast<const char*>(words_of(both)) + 1);
  say_word("some text that is a constant");
}

void say_loaded(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  const auto call = [library](const char* name) {
    return reinterpret_cast<void* (*)()>(dlsym(library, name))();
  };
  say("dynamic-tls", "root_holder_loaded", call("loaded_thread_local"));
  say("variable", "(anonymous namespace)::loaded_table", call("loaded_data"));
  say("object", "(anonymous namespace)::Hidden", call("loaded_hidden"));
  say("object", "loaded::Derived", call("loaded_derived"));
}

}  // namespace

void say(const char* kind, const char* name, const void* address, const char* more) {
  char text[64];
  std::snprintf(text, sizeof text, "%lx", reinterpret_cast<unsigned long>(address));
  pthread_mutex_lock(&lines_lock);
  lines.push_back(std::string(kind) + "\t" + name + "\t" + text + "\t" + more);
  pthread_mutex_unlock(&lines_lock);
}

}  // namespace root_holder

int main(int argc, char** argv) {
  using namespace root_holder;
  if (argc < 2) return 2;
  say_variables();
  say_mappings();
  say_objects();
  say_loaded(argv[1]);
  own_word = &global_word;
  say("thread-local", "root_holder::(anonymous namespace)::own_word", &own_word,
      std::to_string(gettid()).c_str());
  say_linked();
  pthread_t threads[3];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], nullptr, hold_in_thread, nullptr);
  pthread_create(&threads[2], nullptr, switch_to_fiber, nullptr);
  for (int now = waiting; now < 3; now = waiting) waiting.wait(now);
  const pthread_t unjoined = start_unjoined();
  start_and_end();
  leave_below();
  std::puts("ready");
  for (const std::string& line : lines) std::puts(line.c_str());
  std::puts("end");
  std::fflush(stdout);
  char byte;
  while (read(0, &byte, 1) != 0) {
  }
  ending = true;
  ending.notify_all();
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  pthread_join(unjoined, nullptr);
  std::puts("errors=0");
  return 0;
}
