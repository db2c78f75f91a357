// Roots as tables: where they are, and which blocks they point into. There can be as many as a
// custom allocator has words, so a reader takes them as a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "references/root.h"
#include "snapshot/section.h"
#include "snapshot/table.h"

namespace heapsnap {

// A row of the table `roots`.
struct RootRow {
  uint32_t place = 0;
  Address offset;
  Address target;  // a number, stored as the difference to the row before
  bool interior = false;
};

template <>
struct TableOf<RootRow> {
  static constexpr const char* kName = "roots";
  static void columns(auto& column, auto& row) {
    column("place", row.place);
    column("offset", row.offset);
    column("target", row.target);
    column("interior", row.interior);
  }
};

template <>
struct TableOf<RootPlace> {
  static constexpr const char* kName = "root_places";
  static void columns(auto& column, auto& row) {
    column("kind", row.kind);
    column("tid", row.tid);
    column("module", row.module);
    column("name", row.name);
    column("begin", row.begin);
    column("size", row.size);
    column("module_offset", row.module_offset);
  }
};

// Writes roots as they come, and their places at the end.
class RootTableWriter {
 public:
  explicit RootTableWriter(SectionSink& sink) : sink_(sink) {}

  void add(const Root& root) {
    roots_.add(RootRow{root.place, Address(root.offset), Address(root.target), root.interior});
    ++count_;
  }
  void finish(std::span<const RootPlace> places);
  uint64_t roots() const { return count_; }

 private:
  SectionSink& sink_;
  TableWriter<RootRow> roots_{format::SectionKind::kRoots, sink_};
  uint64_t count_ = 0;
};

// Adds the places in one table, if it is one of places. Throws Error{kBadInput} for damage and for
// more text than a snapshot may have.
void read_root_places(std::span<const std::byte> table, const std::string& source,
                      std::vector<RootPlace>& places);
// Gives the roots in one table, if it is one of roots. Throws Error{kBadInput} for damage and for
// a place or a block that does not exist.
void read_root_rows(std::span<const std::byte> table, const std::string& source, size_t places,
                    BlockNumber blocks, const std::function<void(const Root&)>& receive);

}  // namespace heapsnap
