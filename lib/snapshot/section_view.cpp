#include "snapshot/section_view.h"

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <new>

#include "base/byte_reader.h"
#include "base/error.h"

namespace heapsnap {
namespace {

struct FreeDecompression {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

SectionView::SectionView(std::span<const std::byte> bytes, const std::string& source) {
  ByteReader reader(bytes, source);
  if (reader.read<uint32_t>() != format::kSectionMagic) reader.fail("no section begins here");
  kind_ = reader.read<format::SectionKind>();
  const auto columns = reader.read<uint16_t>();
  length_ = reader.read<uint32_t>();
  items_ = reader.read<uint32_t>();
  const size_t head = format::kSectionHeaderSize + columns * format::kColumnEntrySize;
  if (columns > format::kMaxColumns || length_ > bytes.size() ||
      length_ < head + format::kChecksumSize) {
    reader.fail("the length of the section is impossible");
  }
  const size_t end = length_ - format::kChecksumSize;
  ByteReader tail(bytes.subspan(end, format::kChecksumSize), source);
  if (tail.read<uint64_t>() != XXH64(bytes.data(), end, 0)) {
    throw Error(ErrorKind::kBadInput, source + " is damaged", "its checksum does not match",
                "copy the file again, or take the snapshot again");
  }
  ByteReader data(bytes.subspan(head, end - head), source);
  for (unsigned i = 0; i < columns; ++i) {
    Column column;
    column.id = reader.read<uint16_t>();
    column.encoding = reader.read<uint8_t>();
    reader.skip(1);
    column.raw_length = reader.read<uint32_t>();
    column.stored = data.take(reader.read<uint32_t>());
    columns_.push_back(column);
  }
  if (!data.at_end()) data.fail("bytes follow the last column");
}

struct ColumnReader::State {
  std::unique_ptr<ZSTD_DCtx, FreeDecompression> zstd{ZSTD_createDCtx()};
  uint64_t list_bytes_left = 0;
};

ColumnReader::ColumnReader(uint64_t file_size) : state_(std::make_unique<State>()) {
  // A file of a size that overflows here is larger than any.
  state_->list_bytes_left = format::kFreeListBytes + format::kListBytesPerByte * file_size;
  if (state_->zstd == nullptr) throw std::bad_alloc();
}

ColumnReader::~ColumnReader() = default;

std::span<const std::byte> ColumnReader::read(const SectionView& section, uint16_t id,
                                              const std::string& source, Bytes& buffer) {
  const auto column = std::find_if(section.columns_.begin(), section.columns_.end(),
                                   [id](const auto& candidate) { return candidate.id == id; });
  if (column == section.columns_.end()) return {};
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorKind::kBadInput, source + " is damaged",
                why + " (column " + std::to_string(id) + ")");
  };
  if (column->raw_length > format::kMaxColumnSize) fail("a column is too long");
  switch (static_cast<format::Encoding>(column->encoding)) {
    case format::Encoding::kRaw:
      if (column->stored.size() != column->raw_length) fail("the lengths of a column differ");
      return column->stored;
    case format::Encoding::kZstd: {
      const auto& stored = column->stored;
      if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != column->raw_length) {
        fail("a column does not decompress to the length that it claims");
      }
      if (format::is_list(section.kind(), id)) {
        if (column->raw_length > state_->list_bytes_left) {
          fail("the file decompresses to more than a file of its size may");
        }
        state_->list_bytes_left -= column->raw_length;
      }
      if (buffer.size() < column->raw_length) buffer.resize(column->raw_length);
      const size_t size = ZSTD_decompressDCtx(state_->zstd.get(), buffer.data(), column->raw_length,
                                              stored.data(), stored.size());
      if (ZSTD_isError(size) != 0 || size != column->raw_length) {
        fail("a column does not decompress");
      }
      return std::span(buffer).first(size);
    }
  }
  fail("a column is encoded in a way that needs a newer heapsnap");
  return {};
}

}  // namespace heapsnap
