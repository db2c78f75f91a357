#include "snapshot/root_tables.h"

#include <utility>

#include "snapshot/table_check.h"

namespace heapsnap {

template <>
struct EnumRange<RootKind> {
  static constexpr auto kFirst = RootKind::kVariable;
  static constexpr auto kLast = RootKind::kLocal;
  static constexpr auto kUnknown = RootKind::kMapping;
};

void RootTableWriter::finish(std::span<const RootPlace> places) {
  roots_.finish();
  write_table(places, sink_, format::SectionKind::kRoots);
}

void read_root_places(std::span<const std::byte> bytes, const std::string& source,
                      std::vector<RootPlace>& places) {
  TableCursor table(bytes, source);
  if (table.name() != TableOf<RootPlace>::kName) return;
  for (RootPlace place; table.next(place); place = RootPlace{}) {
    check_table(places.size() < format::kMaxRootPlaces, source, "it has too many places of roots");
    places.push_back(std::move(place));
  }
}

void read_root_rows(std::span<const std::byte> bytes, const std::string& source, size_t places,
                    BlockNumber blocks, const std::function<void(const Root&)>& receive) {
  TableCursor table(bytes, source);
  if (table.name() != TableOf<RootRow>::kName) return;
  for (RootRow row; table.next(row); row = RootRow{}) {
    check_table(row.place < places && row.target.value() < blocks, source,
                "a root of a place or block that does not exist");
    receive(Root{row.place, row.offset.value(), static_cast<BlockNumber>(row.target.value()),
                 row.interior});
  }
}

}  // namespace heapsnap
