// Turns a raw section into its bytes in the file: directory, compressed columns, checksum.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "snapshot/section.h"

namespace heapsnap {

class SectionEncoder {
 public:
  // `level` is zstd's. 1: random chunk sizes cost about 1 ns a chunk, higher levels gain little.
  explicit SectionEncoder(int level = 1);
  ~SectionEncoder();

  // The bytes stay valid until the next call. A column that zstd cannot shrink is stored raw, and
  // so is a list that would make the file grow beyond what it may (format.h) when it is read.
  std::span<const std::byte> encode(const Section& section);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heapsnap
