#include "snapshot/runtime_tables.h"

#include <span>
#include <utility>
#include <vector>

#include "snapshot/table_check.h"

namespace heapsnap {

namespace {

template <typename Row>
void write_rows(const std::vector<Row>& rows, SectionSink& sink) {
  write_table(std::span<const Row>(rows), sink);
}

template <typename Row>
bool read_rows(TableCursor& table, std::vector<Row>& rows) {
  if (table.name() != TableOf<Row>::kName) return false;
  for (Row row; table.next(row); row = Row{}) rows.push_back(std::move(row));
  return true;
}

// Adds up without wrapping, as no addend is more than an address space.
bool fits_in(const RuntimeArea& area) {
  uint64_t room = area.range.size();
  for (const RuntimeArea::Amount& amount : {area.used, area.free_in_page, area.free_in_area}) {
    if (amount.bytes > room || amount.resident > amount.bytes ||
        amount.swapped > amount.bytes - amount.resident) {
      return false;
    }
    room -= amount.bytes;
  }
  return true;
}

}  // namespace

void write_runtimes(const RuntimeModel& model, SectionSink& sink) {
  write_rows(model.runtimes, sink);
  write_rows(model.classes, sink);
  write_rows(model.types, sink);
  write_rows(model.pages, sink);
  write_rows(model.areas, sink);
}

bool read_runtime_table(TableCursor& table, RuntimeModel& model) {
  return read_rows(table, model.runtimes) || read_rows(table, model.classes) ||
         read_rows(table, model.types) || read_rows(table, model.pages) ||
         read_rows(table, model.areas);
}

void check_runtimes(const RuntimeModel& model, const std::string& source) {
  const size_t runtimes = model.runtimes.size();
  for (const RuntimeClass& row : model.classes) {
    check_table(row.runtime < runtimes, source, "a class of a runtime that does not exist");
  }
  for (const RuntimeType& row : model.types) {
    check_table(row.runtime < runtimes, source, "a type of a runtime that does not exist");
  }
  for (const RuntimePages& row : model.pages) {
    check_table(row.runtime < runtimes, source, "pages of a runtime that does not exist");
  }
  for (const RuntimeArea& row : model.areas) {
    check_table(row.runtime < runtimes, source, "an area of a runtime that does not exist");
    check_table(row.range.begin <= row.range.end && fits_in(row), source,
                "an area of a runtime does not hold what it says");
  }
}

}  // namespace heapsnap
