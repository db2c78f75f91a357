// A section in a file that somebody else wrote: checked before anything is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "snapshot/section.h"

namespace heapsnap {

class SectionView {
 public:
  // The section that begins with the first byte of `bytes`, which must outlive the view. Checks
  // lengths and checksum; throws Error{kBadInput}. `source` names it in messages.
  SectionView(std::span<const std::byte> bytes, const std::string& source);

  format::SectionKind kind() const { return kind_; }
  uint32_t items() const { return items_; }
  size_t length() const { return length_; }  // bytes in the file

 private:
  friend class ColumnReader;
  struct Column {
    uint16_t id = 0;
    uint8_t encoding = 0;
    uint32_t raw_length = 0;
    std::span<const std::byte> stored;
  };

  format::SectionKind kind_{};
  uint32_t items_ = 0;
  size_t length_ = 0;
  std::vector<Column> columns_;
};

// Gives columns their raw form. One reader serves many sections of a file, once each: it refuses to
// unpack more than a file of that size may hold.
class ColumnReader {
 public:
  explicit ColumnReader(uint64_t file_size);
  ~ColumnReader();

  // The raw bytes of column `id`: in `buffer`, or in the file where they are stored raw. Empty when
  // the section has no such column. Throws Error{kBadInput} when it is longer than a column may be,
  // does not decompress to the length it claims, or is of an encoding that this version lacks.
  std::span<const std::byte> read(const SectionView& section, uint16_t id,
                                  const std::string& source, Bytes& buffer);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heapsnap
