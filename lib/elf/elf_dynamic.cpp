#include "elf/elf_dynamic.h"

#include <algorithm>

namespace heapsnap {

namespace {

// Layout: nbuckets, symoffset, bloom_size, bloom_shift; bloom words; buckets; chains. A chain holds
// one word a symbol from `symoffset` on, and the last word of each bucket's run has bit 0 set.
uint64_t count_by_gnu_hash(const ElfHeaders& headers, uint64_t address) {
  const auto table = headers.bytes_at(address, UINT64_MAX);
  const auto bucket_count = load_record<uint32_t>(table, 0);
  const auto first_symbol = load_record<uint32_t>(table, 4);
  const auto bloom_words = load_record<uint32_t>(table, 8);
  if (!bucket_count || !first_symbol || !bloom_words) return 0;
  const uint64_t buckets = 16 + uint64_t{*bloom_words} * word_size(headers.machine);
  const uint64_t chains = buckets + uint64_t{*bucket_count} * 4;
  uint32_t highest = 0;
  for (uint64_t i = 0; i < *bucket_count; ++i) {
    const auto bucket = load_record<uint32_t>(table, buckets + i * 4);
    if (!bucket) return 0;
    highest = std::max(highest, *bucket);
  }
  if (highest < *first_symbol) return *first_symbol;
  for (uint64_t symbol = highest;; ++symbol) {
    const auto hash = load_record<uint32_t>(table, chains + (symbol - *first_symbol) * 4);
    if (!hash) return 0;
    if ((*hash & 1) != 0) return symbol + 1;
  }
}

}  // namespace

ElfDynamic ElfDynamic::parse(const ElfHeaders& headers) {
  ElfDynamic dynamic;
  const ElfSegment* segment = headers.segment_of_type(PT_DYNAMIC);
  if (segment == nullptr || !headers.has_segment_contents) return dynamic;
  const auto bytes = headers.contents(*segment);
  headers.with_records([&](auto records) {
    using Dynamic = typename decltype(records)::Dynamic;
    for (uint64_t offset = 0;; offset += sizeof(Dynamic)) {
      const auto entry = load_record<Dynamic>(bytes, offset);
      if (!entry || entry->d_tag == DT_NULL) return;
      dynamic.values_.emplace(entry->d_tag, entry->d_un.d_val);
    }
  });
  return dynamic;
}

std::optional<uint64_t> ElfDynamic::value(int64_t tag) const {
  const auto found = values_.find(tag);
  return found == values_.end() ? std::optional<uint64_t>() : found->second;
}

std::span<const std::byte> ElfDynamic::table(const ElfHeaders& headers, int64_t address_tag,
                                             int64_t size_tag) const {
  const auto address = value(address_tag);
  const auto size = value(size_tag);
  if (!address || !size) return {};
  return headers.bytes_at(*address, *size);
}

uint64_t ElfDynamic::symbol_count(const ElfHeaders& headers) const {
  if (const auto address = value(DT_HASH)) {
    // nbucket, nchain: there is one chain entry a symbol.
    const auto counts = headers.bytes_at(*address, 8);
    if (const auto chains = load_record<uint32_t>(counts, 4)) return *chains;
  }
  if (const auto address = value(DT_GNU_HASH)) return count_by_gnu_hash(headers, *address);
  return 0;
}

}  // namespace heapsnap
