// A program of all kinds of stacks, each of which allocates: stack_zoo CAGE COUNT [LIBRARY...]. The
// checking build of the tracker compares each stack. Built with and without frame pointers, and at
// -O0.
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

namespace {

volatile uintptr_t sink;

uint64_t random_state = 88172645463325252ULL;
unsigned random_below(unsigned bound) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return static_cast<unsigned>(random_state >> 33) % bound;
}

NOINLINE void allocate(unsigned size) {
  void* block = malloc(size);
  sink = reinterpret_cast<uintptr_t>(block);
  free(block);
}

// Paths that part and meet again, with frames of different sizes.
template <int N>
NOINLINE void path(unsigned depth) {
  volatile char room[16 + N * 24];
  room[N] = 1;
  if (random_below(4) == 0) allocate(16 + N);
  if (depth != 0) {
    switch (random_below(3)) {
      case 0: path<(N * 3 + 1) % 11>(depth - 1); break;
      case 1: path<(N * 5 + 2) % 11>(depth - 1); break;
      default: path<(N * 7 + 3) % 11>(depth - 1); path<(N + 5) % 11>(depth / 2);
    }
  }
  allocate(64 + static_cast<unsigned>(room[N]));
}
void paths(unsigned count) {
  for (unsigned i = 0; i < count; ++i) path<0>(random_below(9));
}

NOINLINE unsigned recurse(unsigned depth, unsigned every) {
  if (depth % every == 0) allocate(depth + 1);
  const unsigned below = depth == 0 ? 0 : recurse(depth - 1, every);
  if (depth % every == 1 || every == 1) allocate(depth + 2);
  return below + 1;
}
void deep(unsigned count) {
  for (unsigned i = 0; i < count; ++i) sink = recurse(random_below(400), 1 + random_below(7));
  sink = recurse(50000, 1000);
}

NOINLINE void with_alloca(unsigned depth) {
  const unsigned size = 1 + random_below(2000);
  char* room = static_cast<char*>(alloca(size));
  memset(room, 1, size);
  allocate(size);
  if (depth != 0) with_alloca(depth - 1);
  sink = static_cast<uintptr_t>(room[size - 1]);
}
void allocas(unsigned count) {
  for (unsigned i = 0; i < count; ++i) with_alloca(random_below(12));
}

using Inner = void (*)(unsigned);

// From one and the same call, either one large frame by alloca, or a fixed one and a small one
// below it: with the right size all stack pointers and return addresses are equal, those of the
// frames that are gone too, and nothing but the saved rbp tells the two apart.
template <Inner Below>
NOINLINE void stretch(unsigned size) {
  char* room = static_cast<char*>(alloca(size + 1));
  room[0] = 1;
  sink = reinterpret_cast<uintptr_t>(room);
  Below(21);
  sink = static_cast<uintptr_t>(room[0]);
}
template <Inner Below>
NOINLINE void stretch_below(unsigned) {
  volatile char room[304];
  room[0] = 1;
  stretch<Below>(0);
  sink = static_cast<uintptr_t>(room[0]);
}
// Saves all registers, rbp not first.
NOINLINE void hold_all(unsigned n) {
  volatile unsigned number = n;
  const unsigned a = number, b = number, c = number, d = number, e = number, f = number;
  allocate(n);
  asm volatile("" : : "r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f));
}
template <Inner Below>
void alternate(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    const Inner volatile function = i % 2 == 0 ? stretch_below<Below> : stretch<Below>;
    function(random_below(40) * 16);
  }
}
void impostors(unsigned count) {
  alternate<allocate>(count);
  alternate<hold_all>(count);
}

// A wide frame and a narrow one, either of them outside: what is inside of both lies where it did,
// and in the wide one the return address of before is still to be seen.
template <int Room>
NOINLINE void inside(unsigned size) {
  volatile char room[Room];
  room[0] = 1;
  allocate(size);
  sink = static_cast<uintptr_t>(room[0]);
}
template <int Room, Inner Below>
NOINLINE void outside(unsigned size) {
  volatile char room[Room];
  room[0] = 1;
  Below(size);
  sink = static_cast<uintptr_t>(room[0]);
}
void doubles(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    const Inner volatile function =
        random_below(2) == 0 ? outside<48, inside<304>> : outside<304, inside<48>>;
    function(24);
  }
}

// At -O2 each of these jumps to the next.
NOINLINE void tail_c(unsigned n) {
  allocate(n);
}
NOINLINE void tail_b(unsigned n) {
  if (n % 3 == 0) return allocate(n);
  return tail_c(n + 1);
}
NOINLINE void tail_a(unsigned n) {
  if (n % 2 == 0) return tail_b(n + 5);
  return tail_c(n + 2);
}
void tails(unsigned count) {
  for (unsigned i = 0; i < count; ++i) tail_a(random_below(100));
}

struct AllocatesWhenDestroyed {
  ~AllocatesWhenDestroyed() { allocate(33); }
};
NOINLINE void thrower(unsigned depth) {
  const AllocatesWhenDestroyed guard;
  const std::string text(40 + depth, 'x');
  if (depth == 0) throw std::runtime_error(text);
  try {
    thrower(depth - 1);
  } catch (const std::logic_error&) {
    allocate(1);
  } catch (const std::runtime_error& error) {
    if (depth % 3 == 0) throw std::logic_error(std::string("again: ") + error.what());
    throw;
  }
}
void exceptions(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    try {
      thrower(random_below(12));
    } catch (const std::exception& error) {
      sink = strlen(error.what());
    }
    allocate(7);
  }
}

// Frames that need more than the usual alignment find their caller through rbp.
template <int N>
NOINLINE void realigned(unsigned depth) {
  alignas(64) volatile char room[64 * N];
  char* extra = static_cast<char*>(alloca(16 + random_below(64)));
  room[0] = extra[0] = 1;
  sink = reinterpret_cast<uintptr_t>(&room[0]) + static_cast<uintptr_t>(extra[0]);
  allocate(N);
  if (depth != 0) {
    if (random_below(2) == 0) {
      realigned<N % 3 + 1>(depth - 1);
    } else {
      path<N>(2);
    }
  }
  allocate(N + 1U);
}
void alignments(unsigned count) {
  for (unsigned i = 0; i < count; ++i) realigned<1>(random_below(8));
}

void on_signal(int) {
  void* block = malloc(50);
  sink = reinterpret_cast<uintptr_t>(block);
  free(block);
}
void install(int flags) {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = flags | SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  sigaction(SIGPROF, &action, nullptr);
}
NOINLINE void raiser(unsigned depth) {
  allocate(depth);
  if (depth != 0) return raiser(depth - 1), allocate(3);
  raise(SIGUSR1);
}
void signals(unsigned count) {
  install(0);
  for (unsigned i = 0; i < count; ++i) raiser(random_below(20));
}
void use_signal_stack() {
  stack_t stack = {};
  stack.ss_size = 65536;
  stack.ss_sp =
      mmap(nullptr, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sigaltstack(&stack, nullptr);
  install(SA_ONSTACK);
}
void signal_stack(unsigned count) {
  use_signal_stack();
  for (unsigned i = 0; i < count; ++i) raiser(random_below(20));
}

// A signal at any instruction, also inside the hooks and the allocator's callers. The handler does
// not allocate while it may have interrupted the allocator itself, which would deadlock any
// program, so: only when the loop is in its arithmetic. Interrupted hooks are the business of
// signals_test.
volatile sig_atomic_t may_allocate;
void on_timer(int) {
  if (may_allocate != 0) on_signal(0);
}
NOINLINE uintptr_t arithmetic(unsigned depth, unsigned rounds) {
  volatile char room[128];
  uintptr_t sum = depth;
  for (unsigned i = 0; i < rounds; ++i) sum = sum * 31 + (sum >> 7);
  room[depth % 128] = static_cast<char>(sum);
  if (depth != 0) sum += arithmetic(depth - 1, rounds);
  return sum + static_cast<uintptr_t>(room[depth % 128]);
}
void timers(unsigned count) {
  struct sigaction action = {};
  action.sa_handler = on_timer;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  const itimerval interval = {{0, 500}, {0, 500}};
  setitimer(ITIMER_PROF, &interval, nullptr);
  for (unsigned i = 0; i < count; ++i) {
    allocate(i % 100);
    may_allocate = 1;
    sink = arithmetic(random_below(10), 400);
    may_allocate = 0;
  }
  const itimerval never = {};
  setitimer(ITIMER_PROF, &never, nullptr);
}

constexpr unsigned kFibers = 16;
ucontext_t scheduler;
ucontext_t fibers[kFibers];
unsigned running;
void yield_fiber() {
  swapcontext(&fibers[running], &scheduler);
}
NOINLINE void fiber_work(unsigned depth) {
  allocate(depth);
  if (random_below(2) == 0) yield_fiber();
  if (depth != 0) fiber_work(depth - 1);
  path<3>(1);
}
void fiber_main() {
  for (;;) {
    fiber_work(random_below(10));
    yield_fiber();
  }
}
void swap_fibers(unsigned count) {
  for (ucontext_t& fiber : fibers) {
    getcontext(&fiber);
    // Some from the heap, some mappings of their own.
    constexpr size_t kSize = 65536;
    fiber.uc_stack.ss_sp = random_below(2) == 0 ? malloc(kSize)
                                                : mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fiber.uc_stack.ss_size = kSize;
    fiber.uc_link = nullptr;
    makecontext(&fiber, fiber_main, 0);
  }
  for (unsigned i = 0; i < count; ++i) {
    running = random_below(kFibers);
    swapcontext(&scheduler, &fibers[running]);
    allocate(5);
  }
}

jmp_buf back;
NOINLINE void jumper(unsigned depth) {
  allocate(depth);
  if (depth == 0) longjmp(back, 1);
  if (depth < 1000) jumper(depth - 1);  // always
  allocate(1);
}
void jumps(unsigned count) {
  for (static unsigned i = 0; i < count; ++i) {
    if (setjmp(back) == 0) jumper(random_below(30));
    allocate(2);
  }
}

int compare(const void* a, const void* b) {
  allocate(9);
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}
void callbacks(unsigned count) {
  std::vector<int> numbers(50);
  for (unsigned i = 0; i < count; ++i) {
    for (int& number : numbers) number = static_cast<int>(random_below(1000));
    qsort(numbers.data(), numbers.size(), sizeof(int), compare);
    const std::unique_ptr<char, void (*)(void*)> copy(strdup("through the C library"), free);
    std::map<int, std::string> map;
    for (const int number : numbers)
      map[number] = std::to_string(number) + " is a number of some length";
  }
}

void threads(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    std::vector<std::thread> some;
    for (int k = 0; k < 4; ++k) {
      some.emplace_back([] {
        std::vector<std::string> strings;
        for (int n = 0; n < 50; ++n) strings.emplace_back(100, 'x');
        recurse(20, 3);
      });
    }
    for (std::thread& thread : some) thread.join();
  }
}

// Code that no unwinder knows about: "sub rsp, 24; call rdi; add rsp, 24; ret".
using Caller = void (*)(void (*)());
Caller make_code() {
  static const uint8_t kCode[] = {0x48, 0x83, 0xec, 0x18, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x18, 0xc3};
  void* page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page, kCode, sizeof kCode);
  return reinterpret_cast<Caller>(page);
}
void generated(unsigned count) {
  const Caller code = make_code();
  for (unsigned i = 0; i < count; ++i) {
    code([] { allocate(11); });
    code([] { path<1>(2); });
    allocate(12);
  }
}

// Two libraries of the same size, one after the other at the same place: the same addresses return
// into frames of other sizes. Prints how often a place was used by both.
void reloads(unsigned count, const char* const* libraries) {
  using Call = void (*)(void (*)(unsigned), unsigned);
  void* places[2] = {nullptr, nullptr};
  unsigned same = 0;
  for (unsigned i = 0; i < count; ++i) {
    void* library = dlopen(libraries[i % 2], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      fprintf(stderr, "%s\n", dlerror());
      exit(1);
    }
    const auto call = reinterpret_cast<Call>(dlsym(library, "call_back"));
    for (unsigned k = 0; k < 5; ++k) call(allocate, 10 + k);
    places[i % 2] = reinterpret_cast<void*>(call);
    if (places[0] == places[1]) ++same;
    dlclose(library);
    allocate(4);
  }
  printf("same=%u\n", same);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string cage = argv[1];
  const unsigned count = static_cast<unsigned>(atoi(argv[2]));
  if (cage == "reloads") {
    if (argc != 5) return 2;
    reloads(count, argv + 3);
    return 0;
  }
  const std::map<std::string, void (*)(unsigned)> cages = {
      {"paths", paths},           {"deep", deep},
      {"allocas", allocas},       {"tails", tails},
      {"exceptions", exceptions}, {"alignments", alignments},
      {"signals", signals},       {"signal_stack", signal_stack},
      {"timers", timers},         {"fibers", swap_fibers},
      {"jumps", jumps},           {"impostors", impostors},
      {"doubles", doubles},       {"callbacks", callbacks},
      {"threads", threads},       {"generated", generated}};
  const auto found = cages.find(cage);
  if (found == cages.end()) return 2;
  found->second(count);
  return 0;
}
