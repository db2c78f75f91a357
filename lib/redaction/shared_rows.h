// Rows of the tables of a snapshot, each field as its decision (field_rules.h) says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "redaction/address_rebase.h"
#include "redaction/field_rules.h"
#include "redaction/name_cut.h"
#include "references/block_type.h"
#include "references/root.h"
#include "snapshot/block_type_column.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata.h"
#include "snapshot/root_tables.h"
#include "snapshot/table.h"

namespace heapsnap {

class SharedRows {
 public:
  // Both must outlive it; `rebase` is laid out.
  SharedRows(const AddressRebase& rebase, NameCut& names) : rebase_(rebase), names_(names) {}

  // The row with every column decided but those that are kByRow, which are empty or 0.
  template <typename Row>
  Row plain(const Row& row) {
    Row shared = row;
    table_ = TableOf<Row>::kName;
    TableOf<Row>::columns(*this, shared);
    return shared;
  }

  // The same with the other columns.
  Process process(const Process& process);
  FreezeRecord freeze(const FreezeRecord& freeze);
  Mapping mapping(const Mapping& mapping);
  TrackerRecord tracker(const TrackerRecord& tracker);
  TrackedModule module(const TrackedModule& module);
  RootPlace place(const RootPlace& place);
  BlockType type(const BlockType& type);
  CallNode node(const CallNode& node);
  SourceFrames symbols(const SourceFrames& symbols);

  // Called by TableOf<Row>::columns.
  template <typename T>
  void operator()(const char* column, T& value) {
    const FieldRule rule = rule_of(table_, column);
    if constexpr (std::is_same_v<T, std::string>) {
      value = text(rule, value);
    } else if constexpr (std::is_same_v<T, Address>) {
      if (rule == FieldRule::kRebase) value = rebase_(value);
      if (is_removed(rule)) value = Address();
    } else {
      if (is_removed(rule)) value = T{};
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        if (rule == FieldRule::kThread) value = static_cast<T>(names_.thread(value));
      }
    }
  }

 private:
  static bool is_removed(FieldRule rule) {
    return rule == FieldRule::kDrop || rule == FieldRule::kByRow;
  }
  std::string text(FieldRule rule, const std::string& value);
  Address moved(int32_t module, Address return_address) const;

  const AddressRebase& rebase_;
  NameCut& names_;
  std::string_view table_;
};

}  // namespace heapsnap
