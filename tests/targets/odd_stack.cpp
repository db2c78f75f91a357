// A program with one thread whose stack is none that one would expect.
//
//   odd_stack KIND
//
//   coroutine  runs on a stack among its variables for good, the main stack left behind
//   turns      the same by turns: nine milliseconds in ten
//   full       has grown the main stack until hardly a page is left of its mapping
//   locals     has variables of 160 KB in main
//
// Each fills what is live of its stacks with a pattern. Says "ready", goes on until its standard
// input ends, and ends with 0 if the patterns are whole.
#include <alloca.h>
#include <poll.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace {

constexpr size_t kStackSize = 256 << 10;
constexpr unsigned char kPattern = 0x5a;

ucontext_t main_context;
ucontext_t coroutine_context;
alignas(16) std::array<unsigned char, kStackSize> coroutine_stack;
bool is_over = false;

bool has_ended(int milliseconds) {
  pollfd input{0, POLLIN, 0};
  return ::poll(&input, 1, milliseconds) > 0;
}

void say_ready() {
  std::puts("ready");
  std::fflush(stdout);
}

template <size_t Size>
bool is_whole(const std::array<unsigned char, Size>& bytes) {
  for (const unsigned char byte : bytes) {
    if (byte != kPattern) return false;
  }
  return true;
}

bool coroutine_is_whole = false;

void run_coroutine() {
  std::array<unsigned char, 4096> bytes{};
  bytes.fill(kPattern);
  asm volatile("" ::"r"(bytes.data()) : "memory");
  while (!is_over) {
    is_over = has_ended(9);
    coroutine_is_whole = is_whole(bytes);
    swapcontext(&coroutine_context, &main_context);
  }
}

int in_coroutine(bool by_turns) {
  std::array<unsigned char, 8192> bytes{};
  bytes.fill(kPattern);
  // Zeros that are live, above the return address of the call that leaves this stack.
  std::array<unsigned char, 8192> zeros{};
  asm volatile("" ::"r"(bytes.data()), "r"(zeros.data()) : "memory");
  getcontext(&coroutine_context);
  coroutine_context.uc_stack.ss_sp = coroutine_stack.data();
  coroutine_context.uc_stack.ss_size = kStackSize;
  coroutine_context.uc_link = nullptr;
  makecontext(&coroutine_context, run_coroutine, 0);
  say_ready();
  bool is_sound = true;
  while (!is_over) {
    swapcontext(&main_context, &coroutine_context);
    if (by_turns && !is_over) is_over = has_ended(1);
    for (const unsigned char byte : zeros) is_sound = is_sound && byte == 0;
    is_sound = is_sound && is_whole(bytes) && coroutine_is_whole;
  }
  return is_sound ? 0 : 1;
}

// Where the mapping of the main stack begins.
uintptr_t stack_begin() {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  std::array<char, 512> line{};
  uintptr_t begin = 0;
  while (maps != nullptr && std::fgets(line.data(), line.size(), maps) != nullptr) {
    if (std::strstr(line.data(), "[stack]") != nullptr)
      std::sscanf(line.data(), "%" SCNxPTR, &begin);
  }
  if (maps != nullptr) std::fclose(maps);
  return begin;
}

// Its own frame lies next to the beginning of the mapping.
int at_the_end_of_the_stack() {
  constexpr size_t kLeft = 6000;
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const size_t size = here - stack_begin() - kLeft;
  auto* const bytes = static_cast<volatile unsigned char*>(alloca(size));
  for (size_t i = 0; i < size; ++i) bytes[i] = kPattern;
  say_ready();
  while (!has_ended(1000)) {
  }
  for (size_t i = 0; i < size; ++i) {
    if (bytes[i] != kPattern) return 1;
  }
  return 0;
}

// Never written below its middle: the mapping grows by the call alone.
int with_large_locals() {
  constexpr size_t kSize = 160 << 10;
  std::array<unsigned char, kSize> bytes;  // NOLINT: as a program may do
  volatile unsigned char* const middle = bytes.data() + kSize / 2;
  for (size_t i = 0; i < kSize / 2; ++i) middle[i] = kPattern;
  say_ready();
  while (!has_ended(1000)) {
  }
  for (size_t i = 0; i < kSize / 2; ++i) {
    if (middle[i] != kPattern) return 1;
  }
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view kind = arguments[1];
  if (kind == "full") return at_the_end_of_the_stack();
  if (kind == "locals") return with_large_locals();
  return in_coroutine(kind == "turns");
}
