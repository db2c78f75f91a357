// Where containers keep the addresses of their nodes, as a table in a section of the kind that the
// names of types are in.
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

// A row of the table `containers`.
struct ContainerRow {
  Address block;  // a number, stored as the difference to the row before
  uint32_t word = 0;
  Address at;
  uint32_t count = 0;
};

template <>
struct TableOf<ContainerRow> {
  static constexpr const char* kName = "containers";
  static void columns(auto& column, auto& row) {
    column("block", row.block);
    column("word", row.word);
    column("at", row.at);
    column("count", row.count);
  }
};

// `words`: ascending, each once; none is written of more than format::kMaxContainers, as some would
// be worse than none.
void write_containers(std::span<const ContainerWords> words, SectionSink& sink);
// Adds the rows of one table, if it is one of containers. Throws Error{kBadInput} for damage, for
// words that do not ascend, or of blocks that do not exist, and for too many.
void read_containers(std::span<const std::byte> table, const std::string& source,
                     BlockNumber blocks, std::vector<ContainerWords>& words);

}  // namespace heapsnap
