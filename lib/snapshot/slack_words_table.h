// The slack words of blocks, as a table in a section of the kind that the names of types are in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "references/reference.h"
#include "snapshot/section.h"
#include "snapshot/table.h"

namespace heapsnap {

// A row of the table `slack_words`.
struct SlackRow {
  Address block;  // a number, stored as the difference to the row before
  uint32_t first = 0;
  uint32_t used_from = 0;
  uint32_t spare = 0;
};

template <>
struct TableOf<SlackRow> {
  static constexpr const char* kName = "slack_words";
  static void columns(auto& column, auto& row) {
    column("block", row.block);
    column("first", row.first);
    column("used_from", row.used_from);
    column("spare", row.spare);
  }
};

// `words`: ascending, each block once; none of more than format::kMaxSlackRows is written.
void write_slack_words(std::span<const SlackWords> words, SectionSink& sink);
// Adds the rows of one table, if it is one of slack words. Throws Error{kBadInput} for damage, for
// blocks that do not ascend or do not exist, and for too many.
void read_slack_words(std::span<const std::byte> table, const std::string& source,
                      BlockNumber blocks, std::vector<SlackWords>& words);

}  // namespace heapsnap
