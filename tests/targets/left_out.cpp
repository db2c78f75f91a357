// A target of which a fork leaves out a part, or wipes it.
//
//   left_out PART ADVICE   PART: heap, arena, mmapped, libc_data, code, hole; ADVICE: dontfork,
//   wipeonfork
//
// hole: memory of its own, at the highest place where mmap(2) finds room, while threads do nothing
// but get and free blocks of their own mappings.
//
// Says "ready", or why the kernel refuses the advice, and ends when its standard input does.
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr uintptr_t kPage = 4096;
constexpr size_t kLarge = 1 << 20;

struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

// Blocks of many sizes, some of them free again.
std::vector<char*> allocate(size_t count) {
  std::vector<char*> blocks;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = 24 + i * 104729 % 3000;
    blocks.push_back(static_cast<char*>(std::malloc(size)));
    std::memset(blocks.back(), 7, size);
  }
  for (size_t i = 0; i < count; i += 3) std::free(blocks[i]);
  return blocks;
}

// Some pages around the middle one of these blocks.
Range around_middle(const std::vector<char*>& blocks) {
  const auto middle = reinterpret_cast<uintptr_t>(blocks[blocks.size() / 2 + 1]) & ~(kPage - 1);
  return {middle - 4 * kPage, middle + 4 * kPage};
}

Range line_of_libc(const char* permissions) {
  FILE* const maps = std::fopen("/proc/self/maps", "re");
  Range found;
  char line[512];
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0;
    unsigned long end = 0;
    char flags[8];
    if (std::sscanf(line, "%lx-%lx %7s", &begin, &end, flags) != 3) continue;
    if (std::strcmp(flags, permissions) == 0 && std::strstr(line, "/libc.so") != nullptr) {
      found = {begin, end};
    }
  }
  if (maps != nullptr) std::fclose(maps);
  return found;
}

constexpr size_t kHole = 16 << 20;

void* map_hole() {
  void* const hole =
      mmap(nullptr, kHole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(hole, 7, kHole);
  return hole;
}

[[noreturn]] void map_and_unmap() {
  while (true) {
    void* volatile block = std::malloc(kLarge);
    std::free(block);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string part = argv[1];
  mallopt(M_MMAP_THRESHOLD, kLarge / 2);  // for good
  const bool is_hole = part == "hole";
  void* const hole = is_hole ? map_hole() : nullptr;
  const std::vector<char*> blocks = allocate(6000);
  std::vector<char*> of_arena;
  std::thread([&] { of_arena = allocate(3000); }).join();
  std::vector<char*> large;
  for (int i = 0; i < 8; ++i) {
    large.push_back(static_cast<char*>(std::malloc(kLarge)));
    std::memset(large.back(), 7, kLarge);
  }
  Range range;
  if (is_hole) {
    range.begin = reinterpret_cast<uintptr_t>(hole);
    range.end = range.begin + kHole;
    for (int i = 0; i < 2; ++i) std::thread(map_and_unmap).detach();
  }
  if (part == "heap") range = around_middle(blocks);
  if (part == "arena") range = around_middle(of_arena);
  if (part == "mmapped") {
    range.begin = reinterpret_cast<uintptr_t>(large[3]) & ~(kPage - 1);
    range.end = range.begin + 16 * kPage;
  }
  if (part == "libc_data") range = line_of_libc("rw-p");
  if (part == "code") range = line_of_libc("r-xp");
  const int advice = std::strcmp(argv[2], "dontfork") == 0 ? MADV_DONTFORK : MADV_WIPEONFORK;
  if (range.begin == 0 ||
      madvise(reinterpret_cast<void*>(range.begin), range.end - range.begin, advice) != 0) {
    std::printf("madvise: %s\n", std::strerror(errno));
    return 0;
  }
  std::puts("ready");
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
