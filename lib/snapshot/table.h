// Tables that describe themselves: names and types of the columns are stored with the values, so
// that a reader takes the columns it knows by name, skips the others, and keeps its defaults for
// those that are missing.
//
// The columns of a row are declared once, for both directions:
//
//   template <> struct TableOf<ThreadCache> {
//     static constexpr const char* kName = "thread_caches";
//     static void columns(auto& column, auto& row) {
//       column("tid", row.tid);          // writing: takes the value; reading: sets it
//       column("tcache", row.tcache);
//     }
//   };
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/byte_reader.h"
#include "snapshot/byte_writer.h"
#include "snapshot/section.h"

namespace heapsnap {

enum class ColumnType : uint8_t {
  kUnsigned = 1,  // varint
  kSigned = 2,    // zigzag varint
  kDelta = 3,     // zigzag varint of the wrapping difference to the row before: addresses, offsets
  kText = 4,      // varint length, bytes
};

template <typename Row>
struct TableOf;

// The values of an enumeration that may stand in a file. kUnknown: what a reader takes an unknown
// one for; without it an unknown value is refused.
template <typename Enum>
struct EnumRange;

class TableBuilder {
 public:
  explicit TableBuilder(std::string name) : name_(std::move(name)) {}

  template <typename Row>
  void add(const Row& row) {
    next_ = 0;
    TableOf<Row>::columns(*this, row);
    ++rows_;
  }
  uint32_t rows() const { return rows_; }
  // Bytes of the values so far.
  size_t size() const;
  // Fills in `section` (but for its begin) and starts over with no rows.
  void take(format::SectionKind kind, Section& section);

  // Called by TableOf<Row>::columns.
  template <typename T>
  void operator()(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      put_text(column(name, ColumnType::kText), value);
    } else if constexpr (std::is_same_v<T, Address>) {
      put_delta(column(name, ColumnType::kDelta), value.value());
    } else if constexpr (std::is_signed_v<T>) {
      append_varint(column(name, ColumnType::kSigned).bytes, zigzag(value));
    } else {
      append_varint(column(name, ColumnType::kUnsigned).bytes, static_cast<uint64_t>(value));
    }
  }

 private:
  struct Column {
    const char* name;
    ColumnType type;
    uint64_t last = 0;
    Bytes bytes;
  };

  Column& column(const char* name, ColumnType type);
  static void put_text(Column& column, std::string_view text);
  static void put_delta(Column& column, uint64_t value);

  std::string name_;
  std::vector<Column> columns_;
  size_t next_ = 0;  // column that the next value of the row goes to
  uint32_t rows_ = 0;
};

class TableCursor {
 public:
  // Reads the head of a table. Every count is checked against `bytes`, which must outlive the
  // cursor. `source` names the bytes in messages.
  TableCursor(std::span<const std::byte> bytes, const std::string& source);

  const std::string& name() const { return name_; }
  uint64_t rows() const { return rows_; }
  // Sets the members of `row` that the table has columns for. False after the last row.
  template <typename Row>
  bool next(Row& row) {
    if (row_ == rows_) return false;
    ++row_;
    next_ = 0;
    TableOf<Row>::columns(*this, row);
    return true;
  }

  // Called by TableOf<Row>::columns.
  template <typename T>
  void operator()(const char* name, T& value) {
    Column* const column = find(name);
    if (column == nullptr) return;
    if constexpr (std::is_same_v<T, std::string>) {
      value = take_text(*column);
    } else if constexpr (std::is_same_v<T, Address>) {
      value = Address(take_unsigned(*column));
    } else if constexpr (std::is_enum_v<T>) {
      value = take_enum<T>(*column);
    } else if constexpr (std::is_signed_v<T>) {
      const int64_t number = take_signed(*column);
      if (!std::in_range<T>(number)) fail(*column);
      value = static_cast<T>(number);
    } else {
      const uint64_t number = take_unsigned(*column);
      if (number > static_cast<uint64_t>(std::numeric_limits<T>::max())) fail(*column);
      value = static_cast<T>(number);
    }
  }

 private:
  struct Column {
    std::string name;
    ColumnType type;
    uint64_t last;
    ByteReader bytes;
  };

  Column* find(const char* name);
  uint64_t take_unsigned(Column& column) const;
  int64_t take_signed(Column& column) const;
  std::string take_text(Column& column) const;
  template <typename T>
  T take_enum(Column& column) const {
    const uint64_t number = take_unsigned(column);
    using Range = EnumRange<T>;
    if (number >= static_cast<uint64_t>(Range::kFirst) &&
        number <= static_cast<uint64_t>(Range::kLast)) {
      return static_cast<T>(number);
    }
    if constexpr (requires { Range::kUnknown; }) {
      return Range::kUnknown;
    } else {
      fail(column);
    }
  }
  [[noreturn]] void fail(const Column& column) const;

  std::string name_;
  std::string source_;
  std::vector<Column> columns_;
  std::vector<int> lookup_;  // the n-th column that the row asks for is columns_[lookup_[n]]
  size_t next_ = 0;
  uint64_t rows_ = 0;
  uint64_t row_ = 0;
};

// Rows as one or more sections of at most about a mebibyte each.
template <typename Row>
class TableWriter {
 public:
  TableWriter(format::SectionKind kind, SectionSink& sink) : kind_(kind), sink_(sink) {}

  void add(const Row& row) {
    constexpr size_t kFull = 1U << 20;
    table_.add(row);
    if (table_.size() >= kFull) finish();
  }
  // Hands over what is left.
  void finish() {
    if (table_.rows() == 0) return;
    table_.take(kind_, section_);
    sink_.add(section_);
  }

 private:
  format::SectionKind kind_;
  SectionSink& sink_;
  TableBuilder table_{TableOf<Row>::kName};
  Section section_;
};

template <typename Row>
void write_table(std::span<const Row> rows, SectionSink& sink,
                 format::SectionKind kind = format::SectionKind::kTable) {
  TableWriter<Row> table(kind, sink);
  for (const Row& row : rows) table.add(row);
  table.finish();
}

}  // namespace heapsnap
