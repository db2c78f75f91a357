// A target whose threads do nothing but malloc, realloc, calloc and free, and check every byte.
//
//   malloc_churn THREADS [greedy]   0: the first thread alone, in a process that never had another
//
// They take all the processor time that others leave, or with `greedy` and in long forms of tests
// (HEAPSNAP_LONG) as much as anybody: then whoever works on them comes to its turn late.
//
// Says "ready", runs until its standard input ends, and then says "errors=0 calls=123".
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

std::atomic<int> begun{0};
std::atomic<long> errors{0};
std::atomic<long> calls{0};
std::atomic<bool> ending{false};

struct Block {
  unsigned char* bytes = nullptr;
  size_t size = 0;
  unsigned char fill = 0;
};

void check(const Block& block, size_t size) {
  for (size_t i = 0; i < size; i += 1 + size / 64) {
    if (block.bytes[i] != block.fill) {
      ++errors;
      return;
    }
  }
}

class Churn {
 public:
  explicit Churn(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15 + 1) {}

  void work(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      Block& block = blocks_[next() % kBlocks];
      const uint64_t what = next() % 8;
      if (block.bytes == nullptr) {
        allocate(block, what == 0);
      } else if (what < 3) {
        const size_t size = random_size();
        const size_t kept = size < block.size ? size : block.size;
        block.bytes = static_cast<unsigned char*>(std::realloc(block.bytes, size));
        check(block, kept);
        std::memset(block.bytes, block.fill, size);
        block.size = size;
      } else {
        check(block, block.size);
        std::free(block.bytes);
        block = {};
      }
    }
    calls += rounds;
  }

 private:
  static constexpr size_t kBlocks = 600;

  void allocate(Block& block, bool cleared) {
    block.size = random_size();
    block.fill = static_cast<unsigned char>(next());
    block.bytes =
        static_cast<unsigned char*>(cleared ? std::calloc(1, block.size) : std::malloc(block.size));
    if (cleared) {
      block.fill = 0;
      check(block, block.size);
    } else {
      std::memset(block.bytes, block.fill, block.size);
    }
  }

  // Mostly small; some large enough to be split off the top, a few for mmap.
  size_t random_size() {
    const uint64_t kind = next() % 512;
    if (kind == 0) return 200'000 + next() % 100'000;
    if (kind < 24) return 2'000 + next() % 30'000;
    return 1 + next() % 900;
  }

  uint64_t next() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
  }

  uint64_t random_;
  Block blocks_[kBlocks];
};

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 4;
  const bool is_greedy = argc > 2 || std::getenv("HEAPSNAP_LONG") != nullptr;
  if (!is_greedy && nice(10) == -1) return 2;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([i] {
      Churn churn(static_cast<uint64_t>(i) + 1);
      ++begun;
      while (!ending) churn.work(1000);
    });
  }
  while (begun < count) sched_yield();
  std::puts("ready");
  std::fflush(stdout);
  if (count == 0) {
    Churn churn(99);
    fcntl(0, F_SETFL, O_NONBLOCK);
    char byte;
    while (read(0, &byte, 1) != 0) churn.work(1000);
  } else {
    char byte;
    while (read(0, &byte, 1) != 0) {
    }
  }
  ending = true;
  for (auto& thread : threads) thread.join();
  std::printf("errors=%ld calls=%ld\n", errors.load(), calls.load());
  return errors == 0 ? 0 : 1;
}
