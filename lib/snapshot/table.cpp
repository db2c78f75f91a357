#include "snapshot/table.h"

#include <algorithm>

#include "base/error.h"

namespace heapsnap {
namespace {

void append_with_length(Bytes& out, std::string_view text) {
  append_varint(out, text.size());
  append_text(out, text);
}

}  // namespace

TableBuilder::Column& TableBuilder::column(const char* name, ColumnType type) {
  if (next_ == columns_.size()) columns_.push_back({name, type, 0, {}});
  return columns_[next_++];
}

void TableBuilder::put_text(Column& column, std::string_view text) {
  constexpr std::string_view kCut = "...";
  if (text.size() <= format::kMaxTextSize) {
    append_with_length(column.bytes, text);
  } else {
    append_with_length(
        column.bytes, std::string(text.substr(0, format::kMaxTextSize - kCut.size())).append(kCut));
  }
}

void TableBuilder::put_delta(Column& column, uint64_t value) {
  append_varint(column.bytes, zigzag(static_cast<int64_t>(value - column.last)));
  column.last = value;
}

size_t TableBuilder::size() const {
  size_t sum = 0;
  for (const Column& column : columns_) sum += column.bytes.size();
  return sum;
}

void TableBuilder::take(format::SectionKind kind, Section& section) {
  section.kind = kind;
  section.items = rows_;
  section.columns.resize(1);
  section.columns[0].id = format::kTableRows;
  Bytes& out = section.columns[0].bytes;
  out.clear();
  append_with_length(out, name_);
  append_varint(out, rows_);
  append_varint(out, columns_.size());
  for (const Column& column : columns_) {
    append_with_length(out, column.name);
    append_varint(out, static_cast<uint64_t>(column.type));
    append_varint(out, column.bytes.size());
  }
  for (Column& column : columns_) {
    append_bytes(out, column.bytes);
    column.bytes.clear();
    column.last = 0;
  }
  rows_ = 0;
}

TableCursor::TableCursor(std::span<const std::byte> bytes, const std::string& source)
    : source_(source) {
  ByteReader reader(bytes, source);
  const auto take_name = [&reader] {
    const uint64_t length = reader.read_varint();
    if (length > format::kMaxTextSize) reader.fail("a name is too long");
    return std::string(reader.take_text(length));
  };
  name_ = take_name();
  source_ += ", table '" + name_.substr(0, 64) + "'";
  rows_ = reader.read_varint();
  const uint64_t count = reader.read_varint();
  if (count > format::kMaxTableColumns) reader.fail("a table has too many columns");
  std::vector<uint64_t> sizes;
  for (uint64_t i = 0; i < count; ++i) {
    Column column{take_name(), {}, 0, ByteReader({}, {})};
    const uint64_t type = reader.read_varint();
    // 0 is no type: columns of types that this reader does not know are passed over.
    column.type = static_cast<ColumnType>(
        type <= static_cast<uint64_t>(ColumnType::kText) ? type : uint64_t{0});
    sizes.push_back(reader.read_varint());
    columns_.push_back(std::move(column));
  }
  if (count == 0 && rows_ != 0) reader.fail("a table has rows but no columns");
  for (size_t i = 0; i < columns_.size(); ++i) {
    // A value takes a byte or more: what bounds the number of rows.
    if (rows_ > sizes[i]) reader.fail("a column is too short for the rows of its table");
    columns_[i].bytes = ByteReader(reader.take(sizes[i]), source_);
  }
}

TableCursor::Column* TableCursor::find(const char* name) {
  if (next_ == lookup_.size()) {
    const auto found = std::find_if(columns_.begin(), columns_.end(), [name](const Column& column) {
      return column.name == name && column.type != ColumnType{};
    });
    lookup_.push_back(found == columns_.end() ? -1 : static_cast<int>(found - columns_.begin()));
  }
  const int index = lookup_[next_++];
  return index < 0 ? nullptr : &columns_[static_cast<size_t>(index)];
}

uint64_t TableCursor::take_unsigned(Column& column) const {
  switch (column.type) {
    case ColumnType::kUnsigned: return column.bytes.read_varint();
    case ColumnType::kDelta:
      return column.last += static_cast<uint64_t>(column.bytes.read_signed_varint());
    default: fail(column);
  }
}

int64_t TableCursor::take_signed(Column& column) const {
  if (column.type == ColumnType::kSigned) return column.bytes.read_signed_varint();
  const uint64_t number = take_unsigned(column);
  if (!std::in_range<int64_t>(number)) fail(column);
  return static_cast<int64_t>(number);
}

std::string TableCursor::take_text(Column& column) const {
  if (column.type != ColumnType::kText) fail(column);
  const uint64_t length = column.bytes.read_varint();
  if (length > format::kMaxTextSize) fail(column);
  return std::string(column.bytes.take_text(length));
}

void TableCursor::fail(const Column& column) const {
  throw Error(ErrorKind::kBadInput, source_ + " is damaged",
              "column '" + column.name.substr(0, 64) +
                  "' holds a value that this version does not understand",
              "take the snapshot again, or read it with a newer heapsnap");
}

}  // namespace heapsnap
