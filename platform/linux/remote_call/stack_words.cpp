#include "platform/linux/remote_call/stack_words.h"

#include <algorithm>
#include <utility>

namespace heapsnap {

namespace {

constexpr uint64_t kMostStack = 64 << 20;
constexpr uint64_t kStackPiece = 64 << 10;

}  // namespace

std::optional<uint64_t> StackWords::at(uint64_t address) const {
  const uint64_t offset = address - begin;
  if (offset % sizeof(uint64_t) != 0 || offset / sizeof(uint64_t) >= words.size()) {
    return std::nullopt;
  }
  return words[offset / sizeof(uint64_t)];
}

bool read_stack_pieces(const AddressSpace& space, MemoryReader& memory, uint64_t stack_pointer,
                       const std::function<bool(std::span<const uint64_t>)>& receive) {
  const Address begin = Address(stack_pointer).align_down(sizeof(uint64_t));
  const Mapping* const mapping = space.find(begin);
  const uint64_t size = mapping == nullptr ? kMostStack + kStackPiece : mapping->range.end - begin;
  const uint64_t most = std::min(size, kMostStack);
  std::vector<uint64_t> words;
  for (uint64_t done = 0; most - done >= sizeof(uint64_t);) {
    words.resize(std::min(most - done, kStackPiece) / sizeof(uint64_t));
    const size_t got = memory.read(begin + done, std::as_writable_bytes(std::span(words)));
    const auto piece = std::span(words).first(got / sizeof(uint64_t));
    if (!receive(piece) || piece.size() < words.size()) return true;
    done += piece.size_bytes();
  }
  return size <= kMostStack;
}

std::optional<StackWords> read_stack_words(const AddressSpace& space, MemoryReader& memory,
                                           uint64_t stack_pointer) {
  StackWords stack;
  stack.begin = Address(stack_pointer).align_down(sizeof(uint64_t)).value();
  const bool is_whole =
      read_stack_pieces(space, memory, stack_pointer, [&](std::span<const uint64_t> piece) {
        stack.words.insert(stack.words.end(), piece.begin(), piece.end());
        return true;
      });
  return is_whole ? std::optional(std::move(stack)) : std::nullopt;
}

}  // namespace heapsnap
