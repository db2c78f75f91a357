// Where each section lies: the last thing in a file, and the first that a reader looks at.
//
// Footer, 40 bytes:  index offset, index length, file size (u64 each) | XXH64 of these | "HSNAPEND"
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "snapshot/section.h"

namespace heapsnap {

struct IndexEntry {
  format::SectionKind kind{};
  Address offset;  // in the file
  uint64_t length = 0;
  uint32_t items = 0;
  Address begin;
};

struct Footer {
  uint64_t index_offset = 0;
  uint64_t index_length = 0;
  uint64_t file_size = 0;
};

Bytes encode_file_header();
Bytes encode_footer(const Footer& footer);

// Checks the file header and gives the footer. Throws Error{kBadInput} when the bytes are no
// snapshot, were written by a newer major version, or were cut off.
Footer read_envelope(std::span<const std::byte> file, const std::string& name);

// The entries as tables of kind kIndex.
void write_index(std::span<const IndexEntry> entries, SectionSink& sink);
// Appends the entries of one such table to `entries`, and checks that they ascend without overlap
// between the file header and `limit`.
void read_index(std::span<const std::byte> table, uint64_t limit, const std::string& source,
                std::vector<IndexEntry>& entries);

}  // namespace heapsnap
