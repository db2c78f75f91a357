// A program with an operator new of its own, over a pool of its own, beside the malloc that it is
// bound to: neither may get a block of the other's. Prints "ready", and ends with its standard
// input.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

namespace {

alignas(16) unsigned char pool[32 << 20];
size_t pool_used = 0;
size_t pool_live = 0;

bool is_of_pool(const void* block) {
  const auto address = reinterpret_cast<uintptr_t>(block);
  const auto begin = reinterpret_cast<uintptr_t>(pool);
  return address >= begin && address < begin + sizeof pool;
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::_Exit(1);
}

}  // namespace

void* operator new(size_t size) {
  const size_t room = (size + 15) / 16 * 16;
  if (room > sizeof pool - pool_used) throw std::bad_alloc();
  void* const block = pool + pool_used;
  pool_used += room;
  ++pool_live;
  return block;
}
void operator delete(void* block) noexcept {
  if (block == nullptr) return;
  if (!is_of_pool(block)) fail("a block that is not of the pool came to operator delete");
  --pool_live;
}
void operator delete(void* block, size_t /*size*/) noexcept {
  operator delete(block);
}

int main() {
  for (int round = 0; round < 100; ++round) {
    const std::vector<std::string> texts(100, std::string(100, 'x'));
    if (!is_of_pool(texts.front().data())) fail("operator new was not the program's own");
    void* const block = std::malloc(1000);
    if (is_of_pool(block)) fail("malloc gave a block of the pool");
    std::free(block);
  }
  void* const kept = std::malloc(1 << 20);
  if (pool_live != 0) fail("blocks of the pool were not given back");
  std::printf("ready\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  std::free(kept);
  return 0;
}
