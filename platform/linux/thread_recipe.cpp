#include "platform/linux/thread_recipe.h"

#include <algorithm>
#include <cstring>

#include "base/byte_reader.h"
#include "platform/linux/byte_fields.h"

namespace heapsnap {

namespace {

constexpr size_t kDtv = 0x08;
constexpr size_t kSelf = 0x10;
constexpr size_t kMultipleThreads = 0x18;
constexpr size_t kStackGuard = 0x28;
constexpr size_t kPointerGuard = 0x30;
// struct pthread begins with 704 bytes that tcbhead_t lies in, and a list node; the tid follows.
constexpr size_t kUsualTid = 0x2d0;
constexpr size_t kFirstTid = 0x200;
// A dtv of no entries: two words behind everything else.
constexpr size_t kEmptyDtv = kControlBlockSize - 64;
constexpr size_t kRseqArea = 32;
constexpr size_t kRseqSequence = 8;  // struct rseq::rseq_cs

}  // namespace

uint64_t bytes_below_thread_pointer(const ThreadRecipe& recipe) {
  int64_t lowest = recipe.rseq_offset.value_or(0);
  lowest = std::min(lowest, recipe.variables.offset);
  return lowest < 0 ? 0 - static_cast<uint64_t>(lowest) : 0;
}

std::optional<DonorControlBlock> parse_control_block(std::span<const std::byte> bytes, int tid) {
  if (bytes.size() < kUsualTid + sizeof(int)) return std::nullopt;
  DonorControlBlock donor;
  donor.stack_guard = get_field<uint64_t>(bytes, kStackGuard);
  donor.pointer_guard = get_field<uint64_t>(bytes, kPointerGuard);
  donor.tid_offset = kUsualTid;
  if (get_field<int>(bytes, kUsualTid) == tid) return donor;
  for (size_t at = kFirstTid; at + sizeof(int) <= bytes.size(); at += sizeof(int)) {
    if (get_field<int>(bytes, at) != tid) continue;
    donor.tid_offset = at;
    return donor;
  }
  return std::nullopt;
}

// An arena of its own lies at the beginning of a heap_info's heap, which names it in its first word
// (malloc/arena.c).
std::optional<int64_t> find_thread_arena(MemoryReader& memory, const ThreadRecipe& recipe,
                                         Address thread_pointer) {
  constexpr uint64_t kHeapSize = 64 << 20;
  if (recipe.main_arena.is_null()) return std::nullopt;
  std::vector<uint64_t> words(recipe.variables.bytes.size() / sizeof(uint64_t));
  const int64_t begin = recipe.variables.offset;
  if (!memory.read_exact(thread_pointer + static_cast<uint64_t>(begin),
                         std::as_writable_bytes(std::span(words)))) {
    return std::nullopt;
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const uint64_t heap = words[i] & ~(kHeapSize - 1);
    const bool may_be_arena = heap != 0 && words[i] - heap < kControlBlockSize;
    if (words[i] == recipe.main_arena.value() ||
        (may_be_arena && memory.read_value<uint64_t>(Address(heap)) == words[i])) {
      return begin + static_cast<int64_t>(i * sizeof(uint64_t));
    }
  }
  return std::nullopt;
}

std::vector<std::byte> make_control_block(const ThreadRecipe& recipe,
                                          const DonorControlBlock& donor, Address thread_pointer,
                                          uint64_t below) {
  std::vector<std::byte> bytes(below + kControlBlockSize);
  const std::vector<std::byte>& variables = recipe.variables.bytes;
  const uint64_t at = below + static_cast<uint64_t>(recipe.variables.offset);
  if (fits_within(at, variables.size(), bytes.size())) {
    std::copy(variables.begin(), variables.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
  }
  if (donor.thread_arena) {
    put_field(bytes, below + static_cast<uint64_t>(*donor.thread_arena), recipe.main_arena.value());
  }
  put_field(bytes, below, thread_pointer.value());
  put_field(bytes, below + kDtv, thread_pointer.value() + kEmptyDtv + 16);
  put_field(bytes, below + kSelf, thread_pointer.value());
  put_field(bytes, below + kMultipleThreads, uint32_t{1});
  put_field(bytes, below + kStackGuard, donor.stack_guard);
  put_field(bytes, below + kPointerGuard, donor.pointer_guard);
  if (recipe.rseq_offset && donor.rseq_area.size() == kRseqArea) {
    // Whether a new thread registers one depends on whether its maker has (nptl/pthread_create.c):
    // the processor number in the area tells. No sequence is under way.
    const uint64_t area = below + static_cast<uint64_t>(*recipe.rseq_offset);
    if (fits_within(area, kRseqArea, bytes.size())) {
      std::copy_n(donor.rseq_area.begin(), kRseqSequence,
                  bytes.begin() + static_cast<ptrdiff_t>(area));
    }
  }
  return bytes;
}

}  // namespace heapsnap
