#include "report/hex_dump.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count_text.h"

namespace heapsnap {

HexDump::HexDump(Writer& out, uint64_t begin, uint64_t end, size_t width)
    : out_(out), next_(begin), end_(end), line_size_(width < 78 ? 8 : kMostBytes) {}

void HexDump::add(uint64_t offset, std::span<const std::byte> bytes) {
  skip_to(offset);
  for (const std::byte byte : bytes) {
    if (next_ == end_) return;
    put(byte, true);
  }
}

void HexDump::finish() {
  skip_to(end_);
  if (count_ > 0) put_line();
  out_.write(fmt::format("{:08x}\n", end_));
}

void HexDump::skip_to(uint64_t offset) {
  offset = std::min(offset, end_);
  while (next_ < offset) {
    if (count_ == 0 && offset - next_ >= line_size_) {
      const uint64_t lines = (offset - next_) / line_size_;
      before_.clear();
      is_repeating_ = false;
      out_.write(
          fmt::format("{:08x}  not stored: {} bytes\n", next_, count_text(lines * line_size_)));
      next_ += lines * line_size_;
    } else {
      put({}, false);
    }
  }
}

void HexDump::put(std::byte byte, bool is_known) {
  bytes_[count_] = byte;
  known_[count_] = is_known;
  ++next_;
  if (++count_ == line_size_) put_line();
}

void HexDump::put_line() {
  std::string line;
  std::string text;
  for (size_t i = 0; i < line_size_; ++i) {
    if (i % 8 == 0) line += ' ';
    if (i >= count_) {
      line += "   ";
      continue;
    }
    const char character = static_cast<char>(bytes_[i]);
    const bool is_printable = character >= ' ' && character <= '~';
    line += known_[i] ? fmt::format(" {:02x}", static_cast<unsigned>(bytes_[i])) : " ??";
    text += !known_[i] ? '?' : is_printable ? character : '.';
  }
  line += "  |" + text + "|\n";
  const bool repeats = line == before_;
  if (!repeats) {
    out_.write(fmt::format("{:08x}{}", next_ - count_, line));
  } else if (!is_repeating_) {
    out_.write("*\n");
  }
  is_repeating_ = repeats;
  before_ = std::move(line);
  count_ = 0;
}

}  // namespace heapsnap
