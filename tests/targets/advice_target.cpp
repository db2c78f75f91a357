// Heaps that advice is given about: advice_target SHAPE. The same allocations each time, so that
// two runs differ by nothing but the settings that they were started with. Says "ready" and stays
// until its standard input ends.
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kPointers = 1 << 18;
constexpr unsigned kThreads = 6;  // no more than there are arenas on a machine with one processor
constexpr unsigned kIdleThreads = 40;

// Not in the heap.
void* g_blocks[kPointers];
pthread_barrier_t g_barrier;

void* make(size_t size) {
  void* block = std::malloc(size);
  std::memset(block, 1, size);
  return block;
}

// Makes blocks[0, count), and frees all but each `kept`th of them.
void fill(void** blocks, size_t count, size_t size) {
  for (size_t i = 0; i < count; ++i) blocks[i] = make(size);
}
void thin_out(void** blocks, size_t count, size_t kept) {
  for (size_t i = 0; i < count; ++i) {
    if (i % kept != kept - 1) std::free(blocks[i]);
  }
}

// Runs of hundreds of kilobytes that small blocks left, between small ones.
void small_runs() {
  fill(g_blocks, 128 * 1024, 500);
  thin_out(g_blocks, 128 * 1024, 1000);
}

// Every other block is free: hardly a whole page is.
void interleaved() {
  fill(g_blocks, 128 * 1024, 504);
  thin_out(g_blocks, 128 * 1024, 2);
}

// Blocks of 200 KiB in the arena, since the threshold has grown.
void large_blocks() {
  std::free(make(kMiB));
  constexpr size_t kCount = 300;
  for (size_t i = 0; i < kCount; ++i) {
    g_blocks[i] = make(200 << 10);
    if (i % 3 == 0) g_blocks[kCount + i] = make(64);
  }
  thin_out(g_blocks, kCount, 15);
}

void tidy() {
  fill(g_blocks, 64 * 1024, 500);
}

// Threads with an arena each; then `work` of each.
void with_arenas(const std::function<void(unsigned)>& work) {
  pthread_barrier_init(&g_barrier, nullptr, kThreads);
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    std::thread([thread, work] {
      g_blocks[thread] = make(32);
      pthread_barrier_wait(&g_barrier);
      work(thread);
      for (;;) ::pause();
    }).detach();
  }
}

constexpr size_t kShare = 16 * 1024;  // blocks of a thread
void** share_of(unsigned thread) {
  return g_blocks + kThreads + thread * kShare;
}

// A barrier that the main thread waits at, too.
pthread_barrier_t g_done;

void in_turn() {
  pthread_barrier_init(&g_done, nullptr, kThreads + 1);
  with_arenas([](unsigned thread) {
    for (unsigned turn = 0; turn < kThreads; ++turn) {
      if (turn == thread) {
        fill(share_of(thread), kShare, 1000);
        thin_out(share_of(thread), kShare, 50);
      }
      pthread_barrier_wait(&g_barrier);
    }
    pthread_barrier_wait(&g_done);
  });
  pthread_barrier_wait(&g_done);
}

void at_once() {
  pthread_barrier_init(&g_done, nullptr, kThreads + 1);
  with_arenas([](unsigned thread) {
    fill(share_of(thread), kShare, 1000);
    pthread_barrier_wait(&g_barrier);
    thin_out(share_of(thread), kShare, 50);
    pthread_barrier_wait(&g_done);
  });
  pthread_barrier_wait(&g_done);
}

// Two arenas, filled one after the other; each `kept`th block stays.
void with_two_arenas(size_t kept) {
  pthread_barrier_init(&g_done, nullptr, 2);
  fill(share_of(0), kShare, 1000);
  thin_out(share_of(0), kShare, kept);
  std::thread([kept] {
    fill(share_of(1), kShare, 1000);
    thin_out(share_of(1), kShare, kept);
    pthread_barrier_wait(&g_done);
    for (;;) ::pause();
  }).detach();
  pthread_barrier_wait(&g_done);
}
void two_in_runs() {
  with_two_arenas(50);
}
void two_interleaved() {
  with_two_arenas(2);
}

// As much as the caches of idle threads hold: seven blocks of each size.
void caches() {
  pthread_barrier_init(&g_done, nullptr, kIdleThreads + 1);
  for (unsigned thread = 0; thread < kIdleThreads; ++thread) {
    std::thread([] {
      std::vector<void*> blocks;
      for (size_t size = 24; size <= 1032; size += 16) {
        for (int i = 0; i < 7; ++i) blocks.push_back(make(size));
      }
      for (void* block : blocks) std::free(block);
      pthread_barrier_wait(&g_done);
      for (;;) ::pause();
    }).detach();
  }
  pthread_barrier_wait(&g_done);
}

struct Shape {
  std::string_view name;
  void (*make)();
};
constexpr Shape kShapes[] = {{"small_runs", small_runs},
                             {"interleaved", interleaved},
                             {"large_blocks", large_blocks},
                             {"tidy", tidy},
                             {"in_turn", in_turn},
                             {"at_once", at_once},
                             {"two_in_runs", two_in_runs},
                             {"two_interleaved", two_interleaved},
                             {"caches", caches}};

}  // namespace

int main(int argc, char** argv) {
  for (const Shape& shape : kShapes) {
    if (argc != 2 || shape.name != argv[1]) continue;
    shape.make();
    std::puts("ready");
    std::fflush(stdout);
    char byte;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    _exit(0);
  }
  std::fprintf(stderr, "advice_target: there is no such shape\n");
  return 2;
}
