// A process with as many live blocks as asked:
// many_chunks COUNT MIN_SIZE MAX_SIZE FREED_PERCENT [fastbins]
//
// Sizes are random between MIN_SIZE and MAX_SIZE; FREED_PERCENT of what was allocated on top of
// COUNT is freed again, at random. Small blocks then stay in the fastbins when `fastbins` is given;
// without it, they end in the unsorted list, as at any large malloc: that of a buffer for standard
// output. Says "ready LIVE_BLOCKS" on standard output, goes on when
// standard input ends.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

int main(int argc, char** argv) {
  const bool keep_fastbins = argc == 6 && std::strcmp(argv[5], "fastbins") == 0;
  if (argc != 5 && !keep_fastbins) {
    std::fprintf(stderr, "usage: %s COUNT MIN_SIZE MAX_SIZE FREED_PERCENT [fastbins]\n", argv[0]);
    return 2;
  }
  if (keep_fastbins) std::setvbuf(stdout, nullptr, _IONBF, 0);
  const uint64_t live = std::strtoull(argv[1], nullptr, 10);
  const uint64_t freed_percent = std::strtoull(argv[4], nullptr, 10);
  const uint64_t count = live * 100 / (100 - freed_percent);
  std::mt19937_64 random(1);
  std::uniform_int_distribution<size_t> size(std::strtoull(argv[2], nullptr, 10),
                                             std::strtoull(argv[3], nullptr, 10));
  // Blocks to be freed are remembered inside of each other: the list of them takes no memory of its
  // own that would be one huge chunk in the picture.
  void** to_free = nullptr;
  uint64_t freed = 0;
  for (uint64_t i = 0; i < count; ++i) {
    auto* block = static_cast<void**>(std::malloc(size(random)));
    if (block == nullptr) return 1;
    *block = nullptr;
    if (random() % 100 < freed_percent) {
      *block = to_free;
      to_free = block;
      ++freed;
    }
  }
  while (to_free != nullptr) {
    void* next = *to_free;
    std::free(to_free);
    to_free = static_cast<void**>(next);
  }
  std::printf("ready %llu\n", static_cast<unsigned long long>(count - freed));
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
