#include "heap/discovery/malloc_code_range.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_reader.h"
#include "heap/discovery/module_bytes.h"

namespace heapsnap {

namespace {

// Largest block seen: 27 KB. A hull beyond this has caught something that is not malloc's.
constexpr uint64_t kLargestTextBlock = 96 << 10;
// What the block is taken for where only its end is known.
constexpr uint64_t kAssumedBlock = 0x7000;
// The functions at both ends of the block that print no message.
constexpr uint64_t kMarginAroundMessages = 0x1800;

class Hull {
 public:
  void add(uint64_t begin, uint64_t end) {
    begin_ = std::min(begin_, begin);
    end_ = std::max(end_, end);
  }
  AddressRange range() const {
    if (end_ <= begin_ || end_ - begin_ > kLargestTextBlock) return {};
    return {Address(begin_), Address(end_)};
  }

 private:
  uint64_t begin_ = ~0ULL;
  uint64_t end_ = 0;
};

// The linker keeps the local symbols of one object file together, behind an STT_FILE symbol.
AddressRange by_symbols(const ElfImage& image) {
  Hull hull;
  bool in_malloc = false;
  for (const ElfSymbol& symbol : image.symbols()) {
    if (symbol.type == STT_FILE) in_malloc = symbol.name == "malloc.c" || symbol.name == "malloc.o";
    const bool is_local = in_malloc && symbol.binding == STB_LOCAL;
    const bool is_end = symbol.name == "__malloc_info" || symbol.name == "malloc_info";
    const bool is_cold = symbol.name.ends_with(".cold");  // in a section of its own, elsewhere
    if (symbol.type != STT_FUNC || !symbol.is_defined || symbol.size > kLargestTextBlock) continue;
    if ((is_local && !is_cold) || is_end) hull.add(symbol.value, symbol.value + symbol.size);
  }
  const AddressRange block = hull.range();
  // malloc_info alone is no block.
  return block.size() >= kAssumedBlock / 2 ? block : AddressRange{};
}

AddressRange by_malloc_info(const ElfImage& module) {
  for (const ElfSymbol& symbol : module.dynamic_symbols()) {
    if (!symbol.is_defined || symbol.name != "malloc_info" || symbol.size > kLargestTextBlock)
      continue;
    const ElfSegment* segment = module.segment_of(symbol.value);
    if (segment == nullptr || (segment->flags & PF_X) == 0) continue;
    const uint64_t end = symbol.value + symbol.size;
    const uint64_t assumed = end - std::min(end, kAssumedBlock);
    return {Address(std::max(assumed, segment->address)), Address(end)};
  }
  return {};
}

// Addresses of the messages that only malloc.c prints.
std::vector<uint64_t> message_addresses(const ElfImage& module) {
  std::vector<uint64_t> addresses;
  for (const ElfSegment& segment : module.segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_W) != 0) continue;
    const auto bytes = module.bytes_at(segment.address, segment.file_size);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (const std::string_view message :
         {"free(): invalid pointer", "free(): invalid size", "malloc(): corrupted top size",
          "malloc(): invalid size (unsorted)", "realloc(): invalid old size",
          "corrupted size vs. prev_size", "realloc(): invalid pointer",
          "malloc_consolidate(): invalid chunk size", "munmap_chunk(): invalid pointer"}) {
      const size_t at = find_text(text, std::string(message) + '\0');
      if (at != text.npos) addresses.push_back(segment.address + at);
    }
  }
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

template <typename T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// lea r, [rip + displacement]: 48 or 4c, 8d, mod 00 and r/m 101, displacement.
Hull x86_64_references(std::span<const std::byte> code, uint64_t address,
                       const std::vector<uint64_t>& targets) {
  constexpr size_t kLength = 7;
  Hull hull;
  for (size_t at = 0; at + kLength <= code.size(); ++at) {
    if (code[at + 1] != std::byte{0x8d} || (code[at] & std::byte{0xfb}) != std::byte{0x48} ||
        (code[at + 2] & std::byte{0xc7}) != std::byte{0x05}) {
      continue;
    }
    const auto displacement = static_cast<uint64_t>(int64_t{load<int32_t>(code, at + 3)});
    const uint64_t target = address + at + kLength + displacement;
    if (std::binary_search(targets.begin(), targets.end(), target)) {
      hull.add(address + at, address + at + kLength);
    }
  }
  return hull;
}

// mov or push of an immediate in an ET_EXEC for x86 without position independence.
Hull absolute_references(std::span<const std::byte> code, uint64_t address,
                         const std::vector<uint64_t>& targets) {
  Hull hull;
  for (size_t at = 0; at + 4 <= code.size(); ++at) {
    const uint64_t target = load<uint32_t>(code, at);
    if (target < targets.front() || target > targets.back()) continue;
    if (std::binary_search(targets.begin(), targets.end(), target)) {
      hull.add(address + at, address + at + 4);
    }
  }
  return hull;
}

// adrp x, page; add x, x, offset, at most kWindow instructions later.
Hull aarch64_references(std::span<const std::byte> code, uint64_t address,
                        const std::vector<uint64_t>& targets) {
  constexpr size_t kWindow = 8;
  Hull hull;
  for (size_t at = 0; at + 4 <= code.size(); at += 4) {
    const auto adrp = load<uint32_t>(code, at);
    if ((adrp & 0x9f000000) != 0x90000000) continue;
    const uint64_t immediate = ((adrp >> 5 & 0x7ffff) << 2) | (adrp >> 29 & 3);  // 21 bits
    const auto pages = static_cast<uint64_t>(static_cast<int64_t>(immediate << 43) >> 43);
    const uint64_t page = ((address + at) & ~0xfffULL) + (pages << 12);
    for (size_t next = at + 4; next < at + 4 * kWindow && next + 4 <= code.size(); next += 4) {
      const auto add = load<uint32_t>(code, next);
      const bool adds_offset = (add & 0xffc00000) == 0x91000000 && (add >> 5 & 31) == (adrp & 31);
      if (!adds_offset) continue;
      if (std::binary_search(targets.begin(), targets.end(), page + (add >> 10 & 0xfff))) {
        hull.add(address + at, address + next + 4);
      }
      break;
    }
  }
  return hull;
}

AddressRange by_messages(const ElfImage& module) {
  const auto targets = message_addresses(module);
  if (targets.empty()) return {};
  for (const ElfSegment& segment : module.segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    const auto code = module.bytes_at(segment.address, segment.file_size);
    AddressRange block;
    if (module.machine() == Machine::kAarch64) {
      block = aarch64_references(code, segment.address, targets).range();
    } else if (module.machine() == Machine::kX86_64) {
      block = x86_64_references(code, segment.address, targets).range();
    }
    if (block.is_empty() && module.machine() != Machine::kAarch64) {
      block = absolute_references(code, segment.address, targets).range();
    }
    if (block.is_empty()) continue;
    const AddressRange text = {Address(segment.address),
                               Address(segment.address + segment.file_size)};
    const uint64_t before = std::min(kMarginAroundMessages, block.begin - text.begin);
    const uint64_t behind = std::min(kMarginAroundMessages, text.end - block.end);
    return {block.begin - before, block.end + behind};
  }
  return {};
}

}  // namespace

AddressRange find_malloc_text(const ElfImage& module, const ElfImage& symbols) {
  AddressRange block = by_symbols(symbols);
  if (block.is_empty()) block = by_malloc_info(module);
  if (block.is_empty()) block = by_messages(module);
  return block;
}

AddressRange all_code(const ElfImage& module) {
  for (const ElfSegment& segment : module.segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    return {Address(segment.address), Address(segment.address) + segment.memory_size};
  }
  return {};
}

}  // namespace heapsnap
