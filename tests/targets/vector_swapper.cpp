// Swaps two pairs of pointers through vector registers, all the time: most of it they are nowhere
// else. Ends with its standard input.
#include <poll.h>
#include <unistd.h>

#include <cstdlib>

namespace {

struct alignas(16) Pair {
  void* first;
  void* second;
};
Pair g_one, g_other;

void swap_slowly() {
  asm volatile(
      "movups (%0), %%xmm7\n\t"
      "movups (%1), %%xmm6\n\t"
      "xorps %%xmm5, %%xmm5\n\t"
      "movups %%xmm5, (%0)\n\t"
      "movups %%xmm5, (%1)\n\t"
      "mov $20000, %%ecx\n"
      "1:\tdec %%ecx\n\t"
      "jnz 1b\n\t"
      "movups %%xmm6, (%0)\n\t"
      "movups %%xmm7, (%1)\n\t"
      :
      : "r"(&g_one), "r"(&g_other)
      : "ecx", "memory", "xmm5", "xmm6", "xmm7");
}

}  // namespace

int main() {
  constexpr size_t kBlock = 1000;
  g_one = {std::malloc(kBlock), std::malloc(kBlock)};
  g_other = {std::malloc(kBlock), std::malloc(kBlock)};
  if (::write(STDOUT_FILENO, "ready\n", 6) != 6) return 1;
  constexpr int kSwaps = 1000;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (::poll(&input, 1, 0) == 0) {
    for (int i = 0; i < kSwaps; ++i) swap_slowly();
  }
}
