#include "heap/discovery/malloc_tls.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <map>

#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

// Blocks of libc have 0x78 to 0x98 bytes; a static executable's holds the program's variables too.
constexpr uint64_t kLargestTlsBlock = 64 << 10;

bool is_tls_offset(Machine machine, uint32_t type) {
  switch (machine) {
    case Machine::kX86_64: return type == R_X86_64_TPOFF64;
    case Machine::kAarch64: return type == R_AARCH64_TLS_TPREL;
    case Machine::kI386: return type == R_386_TLS_TPOFF;
  }
  return false;
}

// "ELF Handling For Thread-Local Storage", Drepper: variant II (x86) puts the executable's block
// right below the thread pointer, variant I (aarch64) behind the two words it points to.
std::optional<int64_t> static_offset(const ElfImage& image, const ElfSegment& tls) {
  const uint64_t alignment = std::max<uint64_t>(tls.alignment, 1);
  if (!std::has_single_bit(alignment) || alignment > kLargestTlsBlock ||
      tls.memory_size > kLargestTlsBlock) {
    return std::nullopt;
  }
  const auto aligned = [alignment](uint64_t size) {
    return static_cast<int64_t>((size + alignment - 1) & ~(alignment - 1));
  };
  return image.machine() == Machine::kAarch64 ? aligned(16) : -aligned(tls.memory_size);
}

}  // namespace

MallocTls read_malloc_tls(const ElfImage& image, bool is_static_executable) {
  MallocTls found;
  const ElfSegment* tls = image.tls_segment();
  if (tls == nullptr) return found;
  found.size = std::min(tls->memory_size, kLargestTlsBlock);
  if (is_static_executable) {
    found.offset = static_offset(image, *tls);
    return found;
  }
  for (const ElfRelocation& relocation : image.relocations()) {
    if (relocation.symbol == 0 && is_tls_offset(image.machine(), relocation.type)) {
      found.words.push_back({Address(relocation.offset), relocation.addend});
    }
  }
  return found;
}

std::optional<int64_t> vote_tls_offset(MemoryReader& memory, const MallocTls& tls, unsigned word) {
  if (tls.offset) return tls.offset;
  std::map<int64_t, size_t> votes;
  size_t voters = 0;
  for (const MallocTls::Word& each : tls.words) {
    const auto value = read_word(memory, each.word, word);
    if (!value) continue;
    const uint64_t difference = *value - each.addend;
    ++votes[word == 4 ? static_cast<int32_t>(difference) : static_cast<int64_t>(difference)];
    ++voters;
  }
  for (const auto& [offset, count] : votes) {
    if (count * 2 > voters) return offset;
  }
  return std::nullopt;
}

}  // namespace heapsnap
