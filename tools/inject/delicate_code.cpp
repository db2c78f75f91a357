#include "tools/inject/delicate_code.h"

#include <algorithm>
#include <array>
#include <optional>

namespace heapsnap {

namespace {

// From the return address of a signal handler to the instruction pointer that it interrupted.
constexpr size_t kInterruptedAt = 22;

// Whether the instruction in front of `address` may be a call: e8 with four bytes, or ff /2.
bool follows_call(MemoryReader& memory, uint64_t address) {
  constexpr size_t kLongest = 7;
  constexpr size_t kDirect = 5;
  const auto before = memory.read_value<std::array<uint8_t, kLongest>>(Address(address - kLongest));
  if (!before) return true;
  if ((*before)[kLongest - kDirect] == 0xe8) return true;
  for (size_t i = 0; i + 1 < kLongest; ++i) {
    if ((*before).at(i) == 0xff && ((*before).at(i + 1) >> 3 & 7) == 2) return true;
  }
  return false;
}

}  // namespace

void DelicateCode::add(const AddressRange& code) {
  if (!code.is_empty()) code_.push_back(code);
}

bool DelicateCode::contains(uint64_t address) const {
  return std::any_of(code_.begin(), code_.end(), [address](const AddressRange& range) {
    return range.contains(Address(address));
  });
}

bool DelicateCode::is_suspicious(const StackWords& stack, size_t index) const {
  const uint64_t word = stack.words[index];
  if (!contains(word)) return false;
  if (follows_call(memory_, word)) return true;
  // Where a signal came in between; the handler may be about to end.
  if (index + 1 == kInterruptedAt) return true;
  return index >= kInterruptedAt && is_signal_return(memory_, stack.words[index - kInterruptedAt]);
}

bool DelicateCode::may_hold(const user_regs_struct& registers) {
  if (contains(registers.rip)) return true;
  const std::optional<StackWords> stack = read_stack_words(space_, memory_, registers.rsp);
  if (!stack) return true;
  size_t last = stack->words.size();  // that is suspicious
  while (last > 0 && !is_suspicious(*stack, last - 1)) --last;
  if (last == 0) return false;
  const CallFrames::Walk walk = frames_.walk(registers, *stack);
  return stack->begin + (last - 1) * sizeof(uint64_t) >= walk.reached ||
         std::any_of(walk.places.begin(), walk.places.end(),
                     [this](uint64_t place) { return contains(place); });
}

}  // namespace heapsnap
