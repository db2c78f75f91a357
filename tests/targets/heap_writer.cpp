// A target with a heap of some size that it writes to, all the time or when it is told to.
//
//   heap_writer MIB always   a thread writes to one page after the other, round and round
//   heap_writer MIB told     for each line "write" that it reads, it writes to each page once, and
//                            says "written"
//
// Says "ready", and when its standard input ends "rounds=12".
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kBlock = 64 << 10;  // below the threshold of mmap
constexpr size_t kPage = 4096;

std::vector<char*> blocks;
std::atomic<long> rounds{0};
std::atomic<bool> ending{false};

// Downwards: an exiting copy gives its memory back upwards, and what it has given back costs no
// page when it is written to.
void write_round() {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    for (size_t at = 0; at < kBlock; at += kPage) ++(*block)[at];
    if (ending) return;
  }
  ++rounds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const size_t count = static_cast<size_t>(std::atol(argv[1])) * ((1 << 20) / kBlock);
  const bool is_told = std::strcmp(argv[2], "told") == 0;
  for (size_t i = 0; i < count; ++i) {
    blocks.push_back(static_cast<char*>(std::malloc(kBlock)));
    std::memset(blocks.back(), 1, kBlock);
  }
  std::thread writer;
  if (!is_told) {
    writer = std::thread([] {
      while (!ending) write_round();
    });
  }
  std::puts("ready");
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    if (is_told) write_round();
    std::puts("written");
    std::fflush(stdout);
  }
  ending = true;
  if (writer.joinable()) writer.join();
  std::printf("rounds=%ld\n", rounds.load());
  return 0;
}
