#include "snapshot/runtime_tables.h"

#include <span>
#include <utility>
#include <vector>

#include "snapshot/table_check.h"

namespace heapsnap {

namespace {

constexpr size_t kMostRuntimes = 256;

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

bool is_amount(const RuntimeArea::Amount& amount) {
  return amount.resident <= amount.bytes && amount.swapped <= amount.bytes - amount.resident;
}

void check_context(const RuntimeModel& model, size_t number, const std::string& source) {
  const RuntimeContext& context = model.contexts[number];
  check_table(context.runtime < model.runtimes.size(), source,
              "a memory context of a runtime that does not exist");
  check_table(context.parent == -1 ||
                  (context.parent >= 0 && static_cast<size_t>(context.parent) < number &&
                   model.contexts[static_cast<size_t>(context.parent)].runtime == context.runtime),
              source, "a memory context whose parent is not before it");
  const uint64_t level =
      context.parent < 0 ? 0
                         : model.contexts[static_cast<size_t>(context.parent)].level + uint64_t{1};
  check_table(context.level == level, source, "a memory context is not one level below its parent");
  check_table(context.free_bytes <= context.bytes && is_amount(context.in_heaps) &&
                  is_amount(context.in_mappings),
              source, "a memory context does not hold what it says");
}

// Adds up without wrapping, as no addend is more than an address space.
bool fits_in(const RuntimeArea& area) {
  uint64_t room = area.range.size();
  for (const RuntimeArea::Amount& amount : {area.used, area.free_in_page, area.free_in_area}) {
    if (amount.bytes > room || !is_amount(amount)) return false;
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
  write_rows(model.contexts, sink);
}

bool read_runtime_table(TableCursor& table, RuntimeModel& model) {
  return read_rows(table, model.runtimes) || read_rows(table, model.classes) ||
         read_rows(table, model.types) || read_rows(table, model.pages) ||
         read_rows(table, model.areas) || read_rows(table, model.contexts);
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
  // Those of a runtime do not overlap, and there are few runtimes: no place is in many areas.
  check_table(runtimes <= kMostRuntimes, source, "more language runtimes than a process has");
  std::vector<Address> ends(runtimes);
  for (const RuntimeArea& row : model.areas) {
    check_table(row.runtime < runtimes, source, "an area of a runtime that does not exist");
    check_table(row.range.begin <= row.range.end && fits_in(row), source,
                "an area of a runtime does not hold what it says");
    check_table(row.range.begin >= ends[row.runtime], source,
                "the areas of a runtime are not in order");
    ends[row.runtime] = row.range.end;
  }
  for (size_t i = 0; i < model.contexts.size(); ++i) check_context(model, i, source);
}

}  // namespace heapsnap
