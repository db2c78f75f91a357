#include "report/context_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/bounded_sum.h"
#include "analysis/context_census.h"
#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/text_table.h"

namespace heapsnap {

namespace {

struct ContextSums {
  uint64_t count = 0;
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  uint64_t free_bytes = 0;
};

ContextSums sums_of(const RuntimeModel& model, uint32_t runtime) {
  ContextSums sums;
  for (const RuntimeContext& context : model.contexts) {
    if (context.runtime != runtime) continue;
    ++sums.count;
    sums.blocks = bounded_sum(sums.blocks, context.blocks);
    sums.bytes = bounded_sum(sums.bytes, context.bytes);
    sums.free_bytes = bounded_sum(sums.free_bytes, context.free_bytes);
  }
  return sums;
}

void print_problems(Writer& out, const RuntimeModel& model, uint32_t runtime, size_t width) {
  constexpr uint64_t kMost = 3;
  const uint64_t damaged = model.runtimes[runtime].damaged_contexts;
  if (damaged == 0) return;
  print_lines(out, "  note      ",
              fmt::format("{} did not make sense: being changed, or overwritten",
                          count_text(damaged, "context", "contexts")),
              width);
  uint64_t shown = 0;
  for (const RuntimeContext& context : model.contexts) {
    if (context.runtime != runtime || context.problem.empty() || shown == kMost) continue;
    print_lines(out, "            ",
                "of " + printable(context.name) + ", " + printable(context.problem), width);
    ++shown;
  }
}

// Contexts of a name of which it is known what they are for.
struct ContextUses {
  std::vector<const RuntimeContext*> contexts;  // the largest first
  uint64_t bytes = 0;                           // of them all
  uint64_t free_bytes = 0;
};

// The largest first.
std::vector<ContextUses> uses_by_name(const RuntimeModel& model) {
  std::map<std::string_view, ContextUses> by_name;
  for (const RuntimeContext& context : model.contexts) {
    if (context.ident.empty()) continue;
    ContextUses& uses = by_name[context.name];
    uses.contexts.push_back(&context);
    uses.bytes = bounded_sum(uses.bytes, context.bytes);
    uses.free_bytes = bounded_sum(uses.free_bytes, context.free_bytes);
  }
  std::vector<ContextUses> found;
  for (auto& [name, uses] : by_name) {
    std::stable_sort(
        uses.contexts.begin(), uses.contexts.end(),
        [](const RuntimeContext* a, const RuntimeContext* b) { return a->bytes > b->bytes; });
    found.push_back(std::move(uses));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const ContextUses& a, const ContextUses& b) { return a.bytes > b.bytes; });
  return found;
}

}  // namespace

void print_context_sums(Writer& out, const RuntimeModel& model, uint32_t number, size_t width) {
  const Runtime& runtime = model.runtimes[number];
  const ContextSums sums = sums_of(model, number);
  print_lines(out, "  contexts  ",
              fmt::format("{} with {} in {}: {} used, {} ({}) free", count_text(sums.count),
                          size_text(sums.bytes), count_text(sums.blocks, "block", "blocks"),
                          size_text(sums.bytes - std::min(sums.free_bytes, sums.bytes)),
                          size_text(sums.free_bytes), percent_text(sums.free_bytes, sums.bytes)),
              width);
  if (runtime.spare_contexts != 0) {
    print_lines(out, "  kept      ",
                fmt::format("{} in {}: deleted, kept for the next ones that are made",
                            count_text(runtime.spare_contexts, "context", "contexts"),
                            size_text(runtime.spare_bytes)),
                width);
  }
  if (runtime.other_malloc_blocks != 0) {
    print_lines(out, "  malloc    ",
                fmt::format("{} in {} that no context has: libraries' own, mostly",
                            size_text(runtime.other_malloc_bytes),
                            count_text(runtime.other_malloc_blocks, "block", "blocks")),
                width);
  }
  print_problems(out, model, number, width);
}

void print_context_names(Writer& out, const RuntimeModel& model, uint64_t limit, const Ink& ink,
                         size_t width) {
  const std::vector<ContextName> names = contexts_by_name(model);
  const size_t shown = limit == 0 ? names.size() : std::min<size_t>(limit, names.size());
  if (shown == 0) return;
  constexpr size_t kNumbers = 44;
  uint64_t all = 0;
  for (const ContextName& row : names) all = bounded_sum(all, row.bytes);
  TextTable table;
  for (const char* title : {"bytes", "share", "free", "contexts"}) {
    table.add_column(title, TextTable::Align::kRight);
  }
  table.add_column("name", TextTable::Align::kLeft);
  for (size_t i = 0; i < shown; ++i) {
    const ContextName& row = names[i];
    table.add_row({size_text(row.bytes), percent_text(row.bytes, all), size_text(row.free_bytes),
                   count_text(row.count),
                   cut_name(printable(row.name), width > kNumbers + 8 ? width - kNumbers : 8)});
  }
  out.write("\n");
  table.print(out, ink, width);
  if (shown == names.size()) return;
  uint64_t rest = 0;
  for (size_t i = shown; i < names.size(); ++i) rest = bounded_sum(rest, names[i].bytes);
  out.write(fmt::format("  {} with {}: --limit 0\n",
                        count_text(names.size() - shown, "more name", "more names"),
                        size_text(rest)));
}

void print_context_uses(Writer& out, const RuntimeModel& model, uint64_t limit, const Ink& ink,
                        size_t width) {
  const std::vector<ContextUses> uses = uses_by_name(model);
  if (uses.empty()) return;
  // What takes most may be many small contexts of one name: each name has a share of the rows.
  const uint64_t of_each = limit == 0 ? UINT64_MAX : std::max<uint64_t>(limit / uses.size(), 1);
  const size_t names_shown = limit == 0 ? uses.size() : std::min<size_t>(limit, uses.size());
  constexpr size_t kNumbers = 28;
  const size_t words = width > kNumbers + 24 ? width - kNumbers : 24;
  size_t names = 0;
  for (size_t i = 0; i < names_shown; ++i) {
    names = std::max(names, display_width(printable(uses[i].contexts.front()->name)));
  }
  names = std::min(names, words / 3);
  TextTable table;
  for (const char* title : {"bytes", "free"}) table.add_column(title, TextTable::Align::kRight);
  for (const char* title : {"name", "for"}) table.add_column(title, TextTable::Align::kLeft);
  for (size_t i = 0; i < names_shown; ++i) {
    const ContextUses& use = uses[i];
    const size_t shown = std::min<uint64_t>(of_each, use.contexts.size());
    const std::string name = clipped(printable(use.contexts.front()->name), names);
    uint64_t bytes = use.bytes;
    uint64_t free_bytes = use.free_bytes;
    for (size_t k = 0; k < shown; ++k) {
      const RuntimeContext& context = *use.contexts[k];
      table.add_row({size_text(context.bytes), size_text(context.free_bytes), name,
                     clipped(printable(context.ident), words - names)});
      bytes -= std::min(bytes, context.bytes);
      free_bytes -= std::min(free_bytes, context.free_bytes);
    }
    if (shown == use.contexts.size()) continue;
    table.add_row({size_text(bytes), size_text(free_bytes), name,
                   "(" + count_text(use.contexts.size() - shown) + " more: --limit 0)"});
  }
  out.write("\n" + ink.bold("Contexts by what they are for") + "\n");
  table.print(out, ink, width);
  if (names_shown == uses.size()) return;
  out.write(fmt::format("  {}: --limit 0\n",
                        count_text(uses.size() - names_shown, "more name", "more names")));
}

void write_json_context(JsonWriter& json, const RuntimeModel& model,
                        const RuntimeContext& context) {
  const auto amount = [&](const char* name, const RuntimeArea::Amount& value) {
    json.key(name);
    json.begin_object();
    json.member("bytes", value.bytes);
    json.member("resident", value.resident);
    json.member("swapped", value.swapped);
    json.end_object();
  };
  json.member("runtime", to_string(model.runtimes[context.runtime].kind));
  json.member("parent", context.parent);
  json.member("level", context.level);
  json.member("context_kind", to_string(context.kind));
  json.member("at", context.at);
  json.member("name", context.name);
  json.member("ident", context.ident);
  json.member("blocks", context.blocks);
  json.member("bytes", context.bytes);
  json.member("free_bytes", context.free_bytes);
  json.member("free_chunks", context.free_chunks);
  json.member("used_chunks", context.used_chunks);
  json.member("counts_chunks", context.counts_chunks);
  json.member("malloc_blocks", context.malloc_blocks);
  amount("in_heaps", context.in_heaps);
  amount("in_mappings", context.in_mappings);
  json.member("problem", context.problem);
}

}  // namespace heapsnap
