#include "platform/linux/inject/thread_control_block.h"

#include <algorithm>
#include <cstring>

#include "base/byte_fields.h"
#include "base/byte_reader.h"

namespace heapsnap {

namespace {

constexpr size_t kDtv = 0x08;
constexpr size_t kSelf = 0x10;
constexpr size_t kMultipleThreads = 0x18;
constexpr size_t kStackGuard = 0x28;
constexpr size_t kPointerGuard = 0x30;
// struct pthread begins with 704 bytes that contain tcbhead_t, and a list node; the tid follows.
constexpr size_t kUsualTid = 0x2d0;
constexpr size_t kFirstTid = 0x200;
// An empty dtv: two words after everything else.
constexpr size_t kEmptyDtv = kControlBlockSize - 64;
constexpr size_t kRseqArea = 32;
constexpr size_t kRseqSequence = 8;  // struct rseq::rseq_cs

}  // namespace

uint64_t bytes_below_thread_pointer(const ThreadControlBlockLayout& layout) {
  int64_t lowest = layout.rseq_offset.value_or(0);
  lowest = std::min(lowest, layout.variables.offset);
  return lowest < 0 ? 0 - static_cast<uint64_t>(lowest) : 0;
}

std::optional<CallerControlBlock> parse_control_block(std::span<const std::byte> bytes, int tid) {
  if (bytes.size() < kUsualTid + sizeof(int)) return std::nullopt;
  CallerControlBlock caller;
  caller.stack_guard = get_field<uint64_t>(bytes, kStackGuard);
  caller.pointer_guard = get_field<uint64_t>(bytes, kPointerGuard);
  caller.tid_offset = kUsualTid;
  if (get_field<int>(bytes, kUsualTid) == tid) return caller;
  for (size_t at = kFirstTid; at + sizeof(int) <= bytes.size(); at += sizeof(int)) {
    if (get_field<int>(bytes, at) != tid) continue;
    caller.tid_offset = at;
    return caller;
  }
  return std::nullopt;
}

// An arena other than main_arena is at the beginning of a heap_info's heap, whose first word names
// it (malloc/arena.c).
std::optional<int64_t> find_thread_arena(MemoryReader& memory,
                                         const ThreadControlBlockLayout& layout,
                                         Address thread_pointer) {
  constexpr uint64_t kHeapSize = 64 << 20;
  if (layout.main_arena.is_null()) return std::nullopt;
  std::vector<uint64_t> words(layout.variables.bytes.size() / sizeof(uint64_t));
  const int64_t begin = layout.variables.offset;
  if (!memory.read_exact(thread_pointer + static_cast<uint64_t>(begin),
                         std::as_writable_bytes(std::span(words)))) {
    return std::nullopt;
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const uint64_t heap = words[i] & ~(kHeapSize - 1);
    const bool may_be_arena = heap != 0 && words[i] - heap < kControlBlockSize;
    if (words[i] == layout.main_arena.value() ||
        (may_be_arena && memory.read_value<uint64_t>(Address(heap)) == words[i])) {
      return begin + static_cast<int64_t>(i * sizeof(uint64_t));
    }
  }
  return std::nullopt;
}

std::vector<std::byte> make_control_block(const ThreadControlBlockLayout& layout,
                                          const CallerControlBlock& caller, Address thread_pointer,
                                          uint64_t below) {
  std::vector<std::byte> bytes(below + kControlBlockSize);
  const std::vector<std::byte>& variables = layout.variables.bytes;
  const uint64_t at = below + static_cast<uint64_t>(layout.variables.offset);
  if (fits_within(at, variables.size(), bytes.size())) {
    std::copy(variables.begin(), variables.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
  }
  if (caller.thread_arena) {
    put_field(bytes, below + static_cast<uint64_t>(*caller.thread_arena),
              layout.main_arena.value());
  }
  put_field(bytes, below, thread_pointer.value());
  put_field(bytes, below + kDtv, thread_pointer.value() + kEmptyDtv + 16);
  put_field(bytes, below + kSelf, thread_pointer.value());
  put_field(bytes, below + kMultipleThreads, uint32_t{1});
  put_field(bytes, below + kStackGuard, caller.stack_guard);
  put_field(bytes, below + kPointerGuard, caller.pointer_guard);
  if (layout.rseq_offset && caller.rseq_area.size() == kRseqArea) {
    // Whether a new thread registers one depends on whether its creator has
    // (nptl/pthread_create.c), which the processor number in the area shows. No sequence is active.
    const uint64_t area = below + static_cast<uint64_t>(*layout.rseq_offset);
    if (fits_within(area, kRseqArea, bytes.size())) {
      std::copy_n(caller.rseq_area.begin(), kRseqSequence,
                  bytes.begin() + static_cast<ptrdiff_t>(area));
    }
  }
  return bytes;
}

}  // namespace heapsnap
