#include "platform/linux/remote_call/frame_place.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/page.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/mapping_query.h"
#include "platform/linux/proc/resource_limits.h"
#include "platform/linux/trace/tracee_memory.h"
#include "target/address_space.h"

namespace heapsnap {

namespace {

// The gap that the kernel keeps below a stack that grows (stack_guard_gap; 1 MiB unless set
// otherwise at boot).
constexpr uint64_t kGuardGap = 1 << 20;
constexpr uint64_t kMostSearched = 32 << 20;
constexpr const char* kMainStack = "[stack]";

using Chunk = std::array<uint64_t, 8192>;

// Whether the main stack, now `stack`, may grow down to `begin`.
bool may_grow(const ProcFs& proc, int tid, const Mapping& stack, uint64_t begin) {
  if (begin >= stack.range.begin.value()) return true;
  const auto limits = proc.try_read(tid, "limits");
  if (!limits) return false;
  const auto limit = soft_limit(*limits, "Max stack size");
  if (limit && stack.range.end.value() - begin > *limit) return false;
  const std::vector<Mapping> mappings = proc.maps(tid);
  return std::all_of(mappings.begin(), mappings.end(), [&](const Mapping& each) {
    return each.range.begin >= stack.range.begin ||
           (each.range.end.value() <= begin && begin - each.range.end.value() >= kGuardGap);
  });
}

// The first word from `begin` on for which `wanted` is true, below `end`; `end` if there is none,
// nullopt if that is unknown.
template <typename Wanted>
std::optional<uint64_t> find_word(TraceeMemory& memory, uint64_t begin, uint64_t end,
                                  Wanted wanted) {
  if (end - begin > kMostSearched) return std::nullopt;
  static thread_local Chunk chunk;
  for (uint64_t at = begin; at < end; at += sizeof chunk) {
    const size_t count = std::min<uint64_t>(chunk.size(), (end - at) / sizeof(uint64_t));
    const auto words = std::span(chunk).first(count);
    if (!memory.read_exact(Address(at), std::as_writable_bytes(words))) return std::nullopt;
    const auto found = std::find_if(words.begin(), words.end(), wanted);
    if (found != words.end()) {
      return at + static_cast<uint64_t>(found - words.begin()) * sizeof(uint64_t);
    }
  }
  return end;
}

// The next word from `begin` on that may be the one of a signal frame's ucontext_t that holds CS
// and SS. Otherwise as find_word().
std::optional<uint64_t> find_segments(TraceeMemory& memory, uint64_t begin, uint64_t end) {
  constexpr uint64_t kUserSegments = 0x002b000000000033;
  return find_word(memory, begin & ~uint64_t{7}, end,
                   [](uint64_t word) { return word == kUserSegments; });
}

// Whether a signal handler may be running on the stack from `stack_pointer` on. The code that it
// interrupted, on another stack, did not get here by a call.
bool may_be_in_signal_handler(TraceeMemory& memory, uint64_t stack_pointer, uint64_t end) {
  return find_segments(memory, stack_pointer, end) != end;
}

// Where the part of `stack` begins that the code at `stack_pointer` may use: an alternate signal
// stack (sigaltstack(2)) can be a local variable there, with other variables below it. The frame of
// each signal says which one the thread had.
uint64_t usable_begin(TraceeMemory& memory, uint64_t stack_pointer, const AddressRange& stack) {
  constexpr uint64_t kSearched = 1 << 20;  // above all that a handler keeps there
  constexpr uint64_t kSegments = 184;      // in ucontext_t
  constexpr uint64_t kStack = 16;          // the same: stack_t, which begins with ss_sp
  constexpr uint64_t kSize = 16;           // in stack_t: ss_size
  const uint64_t end = stack_pointer + std::min(kSearched, stack.end.value() - stack_pointer);
  uint64_t begin = stack.begin.value();
  for (uint64_t at = stack_pointer;;) {
    const auto segments = find_segments(memory, at, end);
    if (!segments || *segments == end) return begin;
    const Address alternate(*segments - kSegments + kStack);
    const auto first = memory.read_value<uint64_t>(alternate);
    const auto size = memory.read_value<uint64_t>(alternate + kSize);
    if (first && size && *first <= stack_pointer && stack_pointer - *first < *size) {
      begin = std::max(begin, *first);
    }
    at = *segments + sizeof(uint64_t);
  }
}

std::optional<uint64_t> place_on_main_stack(const ProcFs& proc, const Tracee& thread,
                                            uint64_t room) {
  const AddressSpace space(proc.maps(thread.tid()));
  const Mapping* const here = space.find(Address(thread.registers().rsp));
  const auto main = std::find_if(space.mappings().begin(), space.mappings().end(),
                                 [](const Mapping& each) { return each.path == kMainStack; });
  if (here == nullptr || main == space.mappings().end() || &*main == here) return std::nullopt;
  TraceeMemory memory(thread);
  if (may_be_in_signal_handler(memory, thread.registers().rsp, here->range.end.value())) {
    return std::nullopt;
  }
  const uint64_t begin = main->range.begin.value();
  const uint64_t end = main->range.end.value();
  const auto lowest = find_word(memory, begin, end, [](uint64_t word) { return word != 0; });
  if (!lowest || lowest == end) return std::nullopt;
  const uint64_t top = *lowest - 2 * kRedZone;
  return may_grow(proc, thread.tid(), *main, top - room) ? std::optional(top) : std::nullopt;
}

// The stack that the C library gave to a thread, from its control block: glibc keeps begin and size
// side by side there (struct pthread::stackblock). nullopt if there are no such words.
std::optional<AddressRange> stack_by_control_block(TraceeMemory& memory, uint64_t control_block) {
  constexpr size_t kWords = 512;
  std::array<uint64_t, kWords> words{};
  const size_t count =
      memory.read(Address(control_block), std::as_writable_bytes(std::span(words))) /
      sizeof(uint64_t);
  for (size_t i = 0; i + 1 < count; ++i) {
    const uint64_t begin = words.at(i);
    const uint64_t size = words.at(i + 1);
    if (begin != 0 && begin % kPage == 0 && size % kPage == 0 && begin <= control_block &&
        control_block - begin < size) {
      return AddressRange{Address(begin), Address(control_block)};
    }
  }
  return std::nullopt;
}

// The stack of its own that the thread is on: the main thread's, or the one that another was made
// with, which can be a local variable of the main thread's. nullopt: it is on another one.
//
// In the ABI the first word of a control block holds its own address. Where it does not (Go), the
// address is one in the heap, and the same mapping may hold stacks.
std::optional<AddressRange> own_stack(const Tracee& thread, const Mapping& stack) {
  const Address stack_pointer(thread.registers().rsp);
  const Address control_block(thread.registers().fs_base);
  const bool is_main_stack = stack.path == kMainStack;
  if (thread.tid() == thread.process()) {
    return is_main_stack ? std::optional(stack.range) : std::nullopt;
  }
  if (!stack.range.contains(control_block)) return std::nullopt;
  TraceeMemory memory(thread);
  if (memory.read_value<uint64_t>(control_block) != control_block.value()) return std::nullopt;
  auto made_with = stack_by_control_block(memory, control_block.value());
  if (!made_with && !is_main_stack) made_with = AddressRange{stack.range.begin, control_block};
  return made_with && made_with->contains(stack_pointer) ? made_with : std::nullopt;
}

}  // namespace

std::optional<uint64_t> find_frame_place(const ProcFs& proc, const Tracee& thread, uint64_t room,
                                         bool owns_main_stack) {
  const uint64_t stack_pointer = thread.registers().rsp;
  const auto stack = query_mapping(proc, thread.tid(), Address(stack_pointer));
  if (!stack || !stack->is_private_writable()) return std::nullopt;
  const uint64_t top = stack_pointer - kRedZone;
  try {
    if (const auto own = own_stack(thread, *stack)) {
      TraceeMemory memory(thread);
      const uint64_t begin = usable_begin(memory, stack_pointer, *own);
      if (stack_pointer - begin >= room + kRedZone) return top;
      const bool grows = stack->path == kMainStack && begin == stack->range.begin.value();
      return grows && may_grow(proc, thread.tid(), *stack, top - room) ? std::optional(top)
                                                                       : std::nullopt;
    }
    if (owns_main_stack && thread.tid() == thread.process()) {
      return place_on_main_stack(proc, thread, room);
    }
  } catch (const Error&) {
    // Its mappings cannot be read: it is being killed.
  }
  return std::nullopt;
}

std::optional<uint64_t> find_spare_place(const ProcFs& proc, const Tracee& first, uint64_t room) {
  constexpr uint64_t kDistance = 64 << 10;
  constexpr uint64_t kSpareAlignment = 64;
  try {
    for (const Mapping& stack : proc.maps(first.tid())) {
      if (stack.path != kMainStack || !stack.is_private_writable()) continue;
      const Address top = (stack.range.begin + room).align_up(kSpareAlignment);
      const AddressRange spare{stack.range.begin, top + kDistance};
      if (spare.end > stack.range.end || spare.contains(Address(first.registers().rsp))) break;
      TraceeMemory memory(first);
      const auto used = find_word(memory, spare.begin.value(), spare.end.value(),
                                  [](uint64_t word) { return word != 0; });
      return used == spare.end.value() ? std::optional(top.value()) : std::nullopt;
    }
  } catch (const Error&) {
    // Its mappings cannot be read: it is being killed.
  }
  return std::nullopt;
}

}  // namespace heapsnap
