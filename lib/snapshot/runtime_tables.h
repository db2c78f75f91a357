// The heaps of language runtimes as tables, both ways. The names are stored in files: they never
// change their meaning, new ones are appended.
#pragma once

#include <string>

#include "runtime/runtime_model.h"
#include "snapshot/section.h"
#include "snapshot/table.h"

namespace heapsnap {

void write_runtimes(const RuntimeModel& model, SectionSink& sink);

// Adds the rows of `table`, if it is one of these. False: it is not.
bool read_runtime_table(TableCursor& table, RuntimeModel& model);
// Throws Error{kBadInput} unless the tables of `source` fit together: rows of runtimes that exist,
// areas and contexts that hold what they say, contexts behind their parents.
void check_runtimes(const RuntimeModel& model, const std::string& source);

template <>
struct EnumRange<RuntimeKind> {
  static constexpr auto kFirst = RuntimeKind::kUnknown;
  static constexpr auto kLast = RuntimeKind::kPostgres;
  static constexpr auto kUnknown = RuntimeKind::kUnknown;
};
template <>
struct EnumRange<ContextKind> {
  static constexpr auto kFirst = ContextKind::kUnknown;
  static constexpr auto kLast = ContextKind::kBump;
  static constexpr auto kUnknown = ContextKind::kUnknown;
};

template <>
struct TableOf<Runtime> {
  static constexpr const char* kName = "runtimes";
  static void columns(auto& column, auto& row) {
    column("kind", row.kind);
    column("version", row.version);
    column("module", row.module);
    column("place", row.place);
    column("why_not", row.why_not);
    column("interpreters", row.interpreters);
    column("objects", row.objects);
    column("areas", row.areas);
    column("area_bytes", row.area_bytes);
    column("used_bytes", row.used_bytes);
    column("free_bytes", row.free_bytes);
    column("overhead_bytes", row.overhead_bytes);
    column("free_page_bytes", row.free_page_bytes);
    column("alignment_bytes", row.alignment_bytes);
    column("other_slots", row.other_slots);
    column("other_slot_bytes", row.other_slot_bytes);
    column("damaged_pages", row.damaged_pages);
    column("unread_bytes", row.unread_bytes);
    column("collector", row.collector);
    column("unswept_slots", row.unswept_slots);
    column("unswept_bytes", row.unswept_bytes);
    column("contexts", row.contexts);
    column("damaged_contexts", row.damaged_contexts);
    column("spare_contexts", row.spare_contexts);
    column("spare_bytes", row.spare_bytes);
    column("other_malloc_blocks", row.other_malloc_blocks);
    column("other_malloc_bytes", row.other_malloc_bytes);
  }
};

template <>
struct TableOf<RuntimeClass> {
  static constexpr const char* kName = "runtime_classes";
  static void columns(auto& column, auto& row) {
    column("runtime", row.runtime);
    column("name", row.name);
    column("count", row.count);
    column("tracked", row.tracked);
    column("bytes", row.bytes);
    column("owned_bytes", row.owned_bytes);
    column("malloc_bytes", row.malloc_bytes);
  }
};

template <>
struct TableOf<RuntimeType> {
  static constexpr const char* kName = "runtime_types";
  static void columns(auto& column, auto& row) {
    column("runtime", row.runtime);
    column("name", row.name);
    column("part", row.part);
    column("count", row.count);
    column("unswept", row.unswept);
    column("bytes", row.bytes);
    column("owned_bytes", row.owned_bytes);
    column("malloc_bytes", row.malloc_bytes);
  }
};

template <>
struct TableOf<RuntimePages> {
  static constexpr const char* kName = "runtime_pages";
  static void columns(auto& column, auto& row) {
    column("runtime", row.runtime);
    column("slot_bytes", row.slot_bytes);
    column("pages", row.pages);
    column("used_slots", row.used_slots);
    column("free_slots", row.free_slots);
    column("unswept_slots", row.unswept_slots);
  }
};

template <>
struct TableOf<RuntimeArea> {
  static constexpr const char* kName = "runtime_areas";
  static void columns(auto& column, auto& row) {
    column("runtime", row.runtime);
    column("begin", row.range.begin);
    column("end", row.range.end);
    column("used", row.used.bytes);
    column("used_resident", row.used.resident);
    column("used_swapped", row.used.swapped);
    column("free_in_page", row.free_in_page.bytes);
    column("free_in_page_resident", row.free_in_page.resident);
    column("free_in_page_swapped", row.free_in_page.swapped);
    column("free_in_area", row.free_in_area.bytes);
    column("free_in_area_resident", row.free_in_area.resident);
    column("free_in_area_swapped", row.free_in_area.swapped);
    column("is_in_malloc", row.is_in_malloc);
    column("is_transient", row.is_transient);
  }
};

template <>
struct TableOf<RuntimeContext> {
  static constexpr const char* kName = "runtime_contexts";
  static void columns(auto& column, auto& row) {
    column("runtime", row.runtime);
    column("parent", row.parent);
    column("level", row.level);
    column("kind", row.kind);
    column("at", row.at);
    column("name", row.name);
    column("ident", row.ident);
    column("blocks", row.blocks);
    column("bytes", row.bytes);
    column("free_bytes", row.free_bytes);
    column("free_chunks", row.free_chunks);
    column("used_chunks", row.used_chunks);
    column("counts_chunks", row.counts_chunks);
    column("malloc_blocks", row.malloc_blocks);
    column("in_heaps", row.in_heaps.bytes);
    column("in_heaps_resident", row.in_heaps.resident);
    column("in_heaps_swapped", row.in_heaps.swapped);
    column("in_mappings", row.in_mappings.bytes);
    column("in_mappings_resident", row.in_mappings.resident);
    column("in_mappings_swapped", row.in_mappings.swapped);
    column("problem", row.problem);
  }
};

}  // namespace heapsnap
