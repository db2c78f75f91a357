// A target whose threads, the first one included, all run on small stacks in the heap, as those of
// Go do, and never on the ones that the kernel or the C library gave them.
//
//   fiber_runner THREADS
//
// Each stack lies between words that nobody may change. Says "ready", and at the end of its
// standard input "errors=0 rounds=123".
#include <poll.h>
#include <pthread.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr size_t kStackSize = 16384;
constexpr size_t kGuardWords = 4096;
constexpr uint64_t kGuard = 0x5afe5afe5afe5afe;

std::atomic<bool> ending{false};
std::atomic<long> errors{0};
std::atomic<long> rounds{0};

struct Fiber {
  std::vector<uint64_t> memory;
  ucontext_t caller{};
  ucontext_t own{};
  bool is_first = false;

  explicit Fiber(bool first)
      : memory(2 * kGuardWords + kStackSize / sizeof(uint64_t), kGuard), is_first(first) {}

  void check() const {
    const auto is_changed = [](uint64_t word) { return word != kGuard; };
    if (std::any_of(memory.begin(), memory.begin() + kGuardWords, is_changed)) ++errors;
    if (std::any_of(memory.end() - kGuardWords, memory.end(), is_changed)) ++errors;
  }
};

void run(unsigned low, unsigned high) {
  auto* const fiber = reinterpret_cast<Fiber*>(uint64_t{high} << 32 | low);
  if (fiber->is_first && write(STDOUT_FILENO, "ready\n", 6) != 6) ++errors;
  while (!ending) {
    fiber->check();
    ++rounds;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (poll(&input, fiber->is_first ? 1 : 0, rounds % 64 == 0 ? 1 : 0) > 0) ending = true;
  }
}

void* live_on_fiber(void* argument) {
  auto* const fiber = static_cast<Fiber*>(argument);
  getcontext(&fiber->own);
  fiber->own.uc_stack.ss_sp = fiber->memory.data() + kGuardWords;
  fiber->own.uc_stack.ss_size = kStackSize;
  fiber->own.uc_link = &fiber->caller;
  const auto address = reinterpret_cast<uint64_t>(fiber);
  makecontext(&fiber->own, reinterpret_cast<void (*)()>(run), 2, static_cast<unsigned>(address),
              static_cast<unsigned>(address >> 32));
  swapcontext(&fiber->caller, &fiber->own);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 0;
  std::vector<pthread_t> threads(static_cast<size_t>(count));
  std::vector<Fiber> fibers;
  fibers.reserve(threads.size() + 1);
  for (size_t i = 0; i <= threads.size(); ++i) fibers.emplace_back(i == threads.size());
  for (size_t i = 0; i < threads.size(); ++i) {
    if (pthread_create(&threads[i], nullptr, live_on_fiber, &fibers[i]) != 0) return 1;
  }
  live_on_fiber(&fibers.back());
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  std::printf("errors=%ld rounds=%ld\n", errors.load(), rounds.load());
  return 0;
}
