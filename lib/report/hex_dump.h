// Bytes in hexadecimal and as text, a line for 16 of them, as `hexdump -C` prints them:
//
//   00000010  63 6f 6e 66 69 67 2e 64  00 00 00 00 00 00 00 00  |config.d........|
//   *
//   00000040
//
// The number in front is the offset in the block. Lines that repeat the one before are "*"; bytes
// that are not known are "??" and, a line and more of them, one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "report/writer.h"

namespace heapsnap {

class HexDump {
 public:
  // Of the bytes [begin, end) of a block; `begin` is a multiple of 16. In fewer than 78 columns a
  // line has 8 bytes.
  HexDump(Writer& out, uint64_t begin, uint64_t end, size_t width);

  // Bytes from `offset` on. Ascending; what is skipped is not known.
  void add(uint64_t offset, std::span<const std::byte> bytes);
  // Prints what is left, and the end.
  void finish();

 private:
  static constexpr size_t kMostBytes = 16;

  void skip_to(uint64_t offset);
  void put(std::byte byte, bool is_known);
  void put_line();

  Writer& out_;
  uint64_t next_;  // offset of the byte to come
  uint64_t end_;
  size_t line_size_;
  std::byte bytes_[kMostBytes];
  bool known_[kMostBytes];
  size_t count_ = 0;    // bytes in the open line
  std::string before_;  // the last line without its offset
  bool is_repeating_ = false;
};

}  // namespace heapsnap
