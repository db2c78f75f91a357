// A section: the unit that is compressed, checked and skipped as a whole. It is a kind and a few
// columns, and a column is a string of bytes whose meaning the kind defines.
//
// Here it is raw, as the makers of columns hand it over; section_encoder.h gives it the form that
// it has in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/address.h"
#include "snapshot/format.h"

namespace heapsnap {

using Bytes = std::vector<std::byte>;

struct Section {
  struct Column {
    uint16_t id = 0;
    Bytes bytes;
  };

  format::SectionKind kind{};
  uint32_t items = 0;  // chunks, runs, ranges or rows
  Address begin;       // lowest address it speaks of; null where addresses are not its order
  std::vector<Column> columns;
};

// Takes sections in the order in which they will be in the file.
class SectionSink {
 public:
  virtual ~SectionSink() = default;
  // The section belongs to the caller, who may use its memory again afterwards.
  virtual void add(const Section& section) = 0;
};

}  // namespace heapsnap
