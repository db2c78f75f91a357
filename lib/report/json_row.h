// A record in JSON with the members that its row in the snapshot file has (metadata_rows.h), so
// that a field which the file gains is in JSON, too.
//
// For records whose columns are all shown under their own names. Others have names of their own in
// JSON (`host`, `main`, `segment_kind`), values as text (times, versions), or show a choice.
#pragma once

#include <type_traits>

#include "report/json_writer.h"
#include "snapshot/metadata_rows.h"

namespace heapsnap {

// Into the object that is open. Enumerations by their to_string().
template <typename Row>
void write_row_members(JsonWriter& json, const Row& row) {
  auto column = [&json](const char* name, const auto& value) {
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(value)>>) {
      json.member(name, to_string(value));
    } else {
      json.member(name, value);
    }
  };
  TableOf<Row>::columns(column, row);
}

}  // namespace heapsnap
