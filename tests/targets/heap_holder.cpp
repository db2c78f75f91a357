// A target that holds memory, keeps threads busy, and measures from inside how long it was held up.
//
//   heap_holder MEGABYTES 4k|huge BUSY_THREADS
//
// The answer to a line on standard input is the longest time since the last such line, in
// nanoseconds, in which a thread that wants to run could not. Says "ready" first and ends with its
// input. Who measures it:
//
//   no busy threads    one thread that reads the clock without end: the largest step that it sees
//   busy threads       they share the processors, so any of them stands still for many time slices
//                      with nobody's help. Here two threads with real-time priority, which get a
//                      processor whenever they want one, wake up each 100 us: the first thread that
//                      a tracer comes to and the last one. The larger step of the two counts; it is
//                      at most 100 us too large.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

std::atomic<int64_t> largest_step{0};
std::atomic<bool> ending{false};
std::atomic<int> begun{0};

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void note_step(int64_t step) {
  int64_t largest = largest_step;
  while (step > largest && !largest_step.compare_exchange_weak(largest, step)) {
  }
}

void watch_clock() {
  // Others are to hold this thread up as little as can be; refused without privilege.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), -20);
  int64_t last = now_ns();
  ++begun;
  while (!ending) {
    const int64_t now = now_ns();
    note_step(now - last);
    last = now;
  }
}

void wake_often() {
  sched_param lowest{};
  lowest.sched_priority = sched_get_priority_min(SCHED_FIFO);
  if (sched_setscheduler(0, SCHED_FIFO, &lowest) != 0) std::perror("SCHED_FIFO");
  int64_t last = now_ns();
  ++begun;
  while (!ending) {
    const int64_t until = last + 100'000;
    const timespec time{until / 1'000'000'000, until % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
    const int64_t now = now_ns();
    note_step(now - last);
    last = now;
  }
}

void keep_busy() {
  ++begun;
  volatile uint64_t counter = 0;
  while (!ending) counter = counter + 1;
}

void hold_small_pages(size_t megabytes) {
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  for (size_t i = 0; i < megabytes * 16; ++i) {
    auto* block = static_cast<char*>(std::malloc(kMegabyte / 16 - 16));
    std::memset(block, static_cast<int>(i), kMegabyte / 16 - 16);
  }
}

void hold_huge_pages(size_t megabytes) {
  constexpr size_t kHuge = 2 * kMegabyte;
  const size_t size = megabytes * kMegabyte + kHuge;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(memory, size, MADV_HUGEPAGE);
  std::memset(memory, 1, size);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto megabytes = static_cast<size_t>(std::atol(argv[1]));
  const int busy = std::atoi(argv[3]);
  if (std::strcmp(argv[2], "huge") == 0) {
    hold_huge_pages(megabytes);
  } else {
    hold_small_pages(megabytes);
  }
  std::vector<std::thread> threads;
  threads.emplace_back(busy == 0 ? watch_clock : wake_often);
  for (int i = 0; i < busy; ++i) threads.emplace_back(keep_busy);
  if (busy != 0) threads.emplace_back(wake_often);
  while (begun < static_cast<int>(threads.size())) sched_yield();
  std::puts("ready");
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    std::printf("%ld\n", static_cast<long>(largest_step.exchange(0)));
    std::fflush(stdout);
  }
  ending = true;
  for (auto& thread : threads) thread.join();
  return 0;
}
