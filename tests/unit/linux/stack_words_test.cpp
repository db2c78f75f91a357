#include "platform/linux/remote_call/stack_words.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "platform/linux/remote_call/signal_frame.h"

using namespace heapsnap;

namespace {

constexpr uint64_t kStackBegin = 0x7f0000000000;

// A stack of `size` bytes, with some code far from it. Each word of the stack is its address, until
// it is written.
class StackMemory : public MemoryReader {
 public:
  explicit StackMemory(uint64_t size) : stack_(size / sizeof(uint64_t)) {
    for (size_t i = 0; i < stack_.size(); ++i) stack_[i] = kStackBegin + i * sizeof(uint64_t);
  }

  AddressSpace space() const {
    Mapping mapping;
    mapping.range = {Address(kStackBegin), end()};
    mapping.readable = mapping.writable = true;
    return AddressSpace({mapping});
  }
  Address end() const { return Address(kStackBegin + stack_.size() * sizeof(uint64_t)); }

  template <typename T>
  void put(uint64_t at, const T& value) {
    std::memcpy(reinterpret_cast<std::byte*>(stack_.data()) + (at - kStackBegin), &value,
                sizeof value);
  }

  size_t read(Address from, std::span<std::byte> out) override {
    const auto copy = [&](Address begin, std::span<const std::byte> bytes) -> size_t {
      if (from < begin || from - begin >= bytes.size()) return 0;
      const auto part = bytes.subspan(from - begin);
      const size_t count = std::min(part.size(), out.size());
      std::memcpy(out.data(), part.data(), count);
      bytes_read += count;
      return count;
    };
    const size_t of_code = copy(Address(kCode), std::as_bytes(std::span(kReturnCode)));
    return of_code != 0 ? of_code : copy(Address(kStackBegin), std::as_bytes(std::span(stack_)));
  }

  static constexpr uint64_t kCode = 0x400000;
  uint64_t bytes_read = 0;

 private:
  // mov $15, %rax; syscall: what __restore_rt is.
  static constexpr uint8_t kReturnCode[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  std::vector<uint64_t> stack_;
};

// What the kernel leaves there for a handler that interrupted `interrupted_at`.
void put_signal_frame(StackMemory& memory, uint64_t at, uint64_t interrupted_at) {
  UserContext context{};
  context.machine.cs = 0x33;
  context.machine.ip = interrupted_at;
  memory.put(at, StackMemory::kCode);
  memory.put(at + sizeof(uint64_t), context);
}

}  // namespace

TEST_CASE("a stack is read from its pointer to the end of its mapping, in pieces") {
  StackMemory memory(300 << 10);
  const uint64_t pointer = kStackBegin + 0x1003;
  const auto stack = read_stack_words(memory.space(), memory, pointer);
  REQUIRE(stack);
  CHECK(stack->begin == kStackBegin + 0x1000);
  CHECK(stack->words.size() == ((300 << 10) - 0x1000) / sizeof(uint64_t));
  CHECK(stack->at(kStackBegin + 0x1000) == kStackBegin + 0x1000);
  CHECK(stack->at(kStackBegin + (299 << 10)) == kStackBegin + (299 << 10));
  CHECK_FALSE(stack->at(kStackBegin + 0x1004));
  CHECK_FALSE(stack->at(kStackBegin + 0xff8));
  CHECK_FALSE(stack->at(memory.end().value()));
  // The same where the mapping is not known: reading tells.
  const auto grown = read_stack_words(AddressSpace(), memory, pointer);
  REQUIRE(grown);
  CHECK(grown->words == stack->words);

  // Whoever has found what he looks for reads no more.
  memory.bytes_read = 0;
  CHECK(read_stack_pieces(memory.space(), memory, pointer, [](auto) { return false; }));
  CHECK(memory.bytes_read == 64 << 10);
}

TEST_CASE("more than 64 MiB is not all") {
  StackMemory memory((64 << 20) + 4096);
  CHECK(read_stack_words(memory.space(), memory, kStackBegin + 4096));
  CHECK_FALSE(read_stack_words(memory.space(), memory, kStackBegin + 4088));
  CHECK_FALSE(read_stack_words(AddressSpace(), memory, kStackBegin));
  uint64_t given = 0;
  CHECK_FALSE(read_stack_pieces(memory.space(), memory, kStackBegin, [&](auto words) {
    given += words.size_bytes();
    return true;
  }));
  CHECK(given == 64 << 20);
}

TEST_CASE("what a handler interrupted is found however deep it is in calls") {
  user_regs_struct registers{};
  registers.rsp = kStackBegin + 0x100;
  constexpr uint64_t kMask = 1 << 9;
  // Also where the frame lies across two pieces.
  for (const uint64_t depth : {0x40, 0xfff0, 0x10000, 0x10080, 0x400000}) {
    CAPTURE(depth);
    StackMemory memory(8 << 20);
    put_signal_frame(memory, registers.rsp + depth, 0x401234);
    const auto found = interrupted_by_handlers(registers, kMask, memory.space(), memory);
    REQUIRE(found.size() == 1);
    CHECK(found[0].rip == 0x401234);
    // A thread that blocks nothing runs no handler.
    CHECK(interrupted_by_handlers(registers, 0, memory.space(), memory).empty());
  }
}
