#include "snapshot/contents.h"

#include <algorithm>

#include "base/byte_reader.h"
#include "base/error.h"
#include "snapshot/byte_writer.h"

namespace heapsnap {
namespace {

enum ContentColumn : size_t { kContentRangeColumn, kContentByteColumn, kContentColumns };

}  // namespace

ContentsBuilder::ContentsBuilder(SectionSink& sink) : sink_(sink) {
  section_.kind = format::SectionKind::kContents;
  section_.columns.resize(kContentColumns);
  section_.columns[kContentRangeColumn].id = format::kContentRanges;
  section_.columns[kContentByteColumn].id = format::kContentBytes;
}

void ContentsBuilder::add(Address from, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (from < end_ || bytes.size() > ~from.value()) {
    throw Error(ErrorKind::kInternal, "cannot write memory contents", "they are not in order");
  }
  Bytes& kept = section_.columns[kContentByteColumn].bytes;
  while (!bytes.empty()) {
    if (kept.size() == kPiece) flush();
    if (kept.empty()) {
      section_.begin = from;
      section_.items = 0;
      closed_end_ = Address();
      range_begin_ = from;
    } else if (from != end_) {
      close_range();
      range_begin_ = from;
    }
    const auto part = bytes.first(std::min(bytes.size(), kPiece - kept.size()));
    kept.insert(kept.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    from += part.size();
    end_ = from;
  }
}

void ContentsBuilder::close_range() {
  Bytes& ranges = section_.columns[kContentRangeColumn].bytes;
  append_varint(ranges, range_begin_ - closed_end_);
  append_varint(ranges, end_ - range_begin_);
  closed_end_ = end_;
  ++section_.items;
}

void ContentsBuilder::flush() {
  if (section_.columns[kContentByteColumn].bytes.empty()) return;
  close_range();
  sink_.add(section_);
  for (auto& column : section_.columns) column.bytes.clear();
}

void read_contents_section(
    std::span<const std::byte> ranges, std::span<const std::byte> bytes, uint32_t count,
    Address begin, const std::string& source, Address* end,
    const std::function<void(Address, std::span<const std::byte>)>& receive) {
  ByteReader reader(ranges, source);
  ByteReader body(bytes, source);
  Address at;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t gap = reader.read_varint();
    if (gap > ~at.value()) reader.fail("contents begin beyond the address space");
    at += gap;
    if (i == 0 && (at != begin || at < *end)) reader.fail("contents are not where the index says");
    const auto part = body.take(reader.read_varint());
    if (part.empty() || part.size() > ~at.value())
      reader.fail("contents have an impossible length");
    receive(at, part);
    at += part.size();
  }
  if (!reader.at_end() || !body.at_end()) reader.fail("bytes follow the last range of contents");
  *end = std::max(*end, at);
}

}  // namespace heapsnap
