#include "report/object_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file_name.h"
#include "base/free_name.h"
#include "report/context_report.h"
#include "report/json_head.h"
#include "report/json_row.h"
#include "report/json_writer.h"
#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/shell_word.h"
#include "report/stack_frames.h"
#include "report/terminal_text.h"
#include "report/text_table.h"
#include "snapshot/runtime_tables.h"

namespace heapsnap {

namespace {

using Align = TextTable::Align;

// What the runtime's own documentation calls its parts.
struct Words {
  const char* area;
  const char* areas;
  const char* page;
  const char* pages;
};

Words words_of(RuntimeKind kind) {
  if (kind == RuntimeKind::kPython) return {"arena", "arenas", "pool", "pools"};
  return {"area", "areas", "page", "pages"};
}

void print_runtime(Writer& out, const ObjectReportInput& input, uint32_t number, size_t width) {
  const Runtime& runtime = input.metadata.runtimes.runtimes[number];
  const ObjectCensus::Sum& sum = input.census.sums[number];
  std::string front = fmt::format("  {:<8}  ", to_string(runtime.kind));
  std::string text = (runtime.version.empty() ? "of unknown version" : printable(runtime.version)) +
                     " in " + printable(file_name_of(runtime.module));
  if (!runtime.why_not.empty()) {
    print_lines(out, front, text + ": not read, " + printable(runtime.why_not), width);
    return;
  }
  if (runtime.interpreters > 1) {
    text += ", " + count_text(runtime.interpreters, "interpreter", "interpreters");
  }
  print_lines(out, front, text, width);
  if (runtime.contexts != 0) {
    print_context_sums(out, input.metadata.runtimes, number, width);
    return;
  }
  text = fmt::format("{} in {}, with their buffers", count_text(sum.count, "object", "objects"),
                     size_text(sum.bytes));
  if (sum.malloc_bytes != 0)
    text += fmt::format("; {} of it malloc's", size_text(sum.malloc_bytes));
  print_lines(out, "  objects   ", text, width);
  const Words words = words_of(runtime.kind);
  const auto share = [&](uint64_t bytes) {
    return size_text(bytes) + " (" + percent_text(bytes, runtime.area_bytes) + ")";
  };
  if (runtime.areas == 0) {
    print_lines(out, fmt::format("  {:<8}  ", words.areas),
                "none: all objects are in malloc's blocks", width);
    return;
  }
  text = fmt::format(
      "{} in {}: {} used, {} free in {}, {} in {} without an object", size_text(runtime.area_bytes),
      count_text(runtime.areas, words.area, words.areas), share(runtime.used_bytes),
      share(runtime.free_bytes), words.pages, share(runtime.free_page_bytes), words.pages);
  if (const uint64_t rest = runtime.overhead_bytes + runtime.alignment_bytes; rest != 0) {
    text += fmt::format(", {} in headers and what is left over", share(rest));
  }
  print_lines(out, fmt::format("  {:<8}  ", words.areas), text, width);
  if (const uint64_t rest = slot_rest(input.metadata.runtimes, number); rest != 0) {
    print_lines(out, "  slots     ",
                fmt::format("{} used: {} by these objects and their buffers, {} by rounding up to "
                            "multiples of 16 bytes and by buffers that no one object has",
                            size_text(runtime.used_bytes), size_text(runtime.used_bytes - rest),
                            size_text(rest)),
                width);
  }
  if (runtime.unswept_slots != 0) {
    print_lines(out, "  note      ",
                fmt::format("{} of the used slots ({}) have objects that the garbage collector has "
                            "found dead and not freed yet; they are not among the objects",
                            count_text(runtime.unswept_slots), size_text(runtime.unswept_bytes)),
                width);
  }
  if (lacks_large_objects(runtime, input.metadata.heap)) {
    print_lines(out, "  note      ",
                fmt::format("malloc is provided by {}, which heapsnap does not read: objects of "
                            "more than 512 bytes are missing",
                            printable(input.metadata.heap.foreign_allocator)),
                width);
  }
  if (runtime.damaged_pages != 0) {
    print_lines(out, "  note      ",
                fmt::format("{} did not make sense: being changed, or overwritten",
                            count_text(runtime.damaged_pages, words.page, words.pages)),
                width);
  }
  if (runtime.unread_bytes != 0) {
    print_lines(out, "  note      ",
                size_text(runtime.unread_bytes) + " was not read: in swap, or not readable", width);
  }
}

// Which of the numbers there is room for beside a class's name, in `room` columns.
struct ClassColumns {
  ClassColumns(bool retained, size_t room) : has_retained(retained), width(retained ? 58 : 46) {
    constexpr size_t kLeastName = 20;
    has_own_bytes = room >= width + kLeastName;
    if (!has_own_bytes) width -= 11;
    has_share = room >= width + kLeastName;
    if (!has_share) width -= 9;
  }
  bool has_retained;
  size_t width;  // of all of them
  bool has_own_bytes = false;
  bool has_share = false;
};

void print_classes(Writer& out, const ObjectReportInput& input, const ClassColumns& columns,
                   size_t shown, const Ink& ink, size_t width) {
  const auto& runtimes = input.metadata.runtimes.runtimes;
  TextTable table;
  table.add_column("bytes", Align::kRight);
  if (columns.has_share) table.add_column("share", Align::kRight);
  table.add_column("objects", Align::kRight);
  if (columns.has_own_bytes) table.add_column("own bytes", Align::kRight);
  if (columns.has_retained) table.add_column("retained", Align::kRight);
  table.add_column("class", Align::kLeft);
  for (size_t i = 0; i < shown; ++i) {
    const RuntimeClass& row = input.census.classes[i];
    std::string name = printable(row.name);
    if (runtimes.size() > 1) name += fmt::format(" ({})", name_of(runtimes[row.runtime].kind));
    std::vector<std::string> cells = {size_text(all_bytes(row))};
    if (columns.has_share) cells.push_back(percent_text(all_bytes(row), input.census.all.bytes));
    cells.push_back(count_text(row.count));
    if (columns.has_own_bytes) cells.push_back(size_text(row.bytes));
    if (columns.has_retained) cells.push_back(size_text(input.census.retained_bytes[i]));
    cells.push_back(cut_name(name, width > columns.width + 8 ? width - columns.width : 8));
    table.add_row(cells);
  }
  out.write("\n");
  table.print(out, ink, width);
}

// Sizes of slots with the most free memory.
void print_pages(Writer& out, const ObjectReportInput& input, const Ink& ink, size_t width) {
  constexpr size_t kMostSizes = 8;
  std::vector<RuntimePages> sizes = input.metadata.runtimes.pages;
  const auto free_bytes = [](const RuntimePages& row) { return row.free_slots * row.slot_bytes; };
  std::stable_sort(sizes.begin(), sizes.end(), [&](const RuntimePages& a, const RuntimePages& b) {
    return free_bytes(a) > free_bytes(b);
  });
  while (!sizes.empty() && (sizes.size() > kMostSizes || sizes.back().free_slots == 0)) {
    sizes.pop_back();
  }
  if (sizes.empty()) return;
  const Words words = words_of(input.metadata.runtimes.runtimes[sizes.front().runtime].kind);
  TextTable table;
  table.add_column("slots of", Align::kRight);
  for (const char* title : {words.pages, "used slots", "free slots", "free bytes"}) {
    table.add_column(title, Align::kRight);
  }
  for (const RuntimePages& row : sizes) {
    table.add_row({size_text(row.slot_bytes), count_text(row.pages), count_text(row.used_slots),
                   count_text(row.free_slots), size_text(free_bytes(row))});
  }
  const bool has_empty_ones =
      input.metadata.runtimes.runtimes[sizes.front().runtime].kind == RuntimeKind::kRuby;
  out.write("\n" +
            ink.bold(fmt::format(
                "Free slots in {}{}", words.pages,
                has_empty_ones ? ", also in those without an object" : " that have used ones")) +
            "\n");
  table.print(out, ink, width);
}

// What the column of that name says, or why there is none.
std::string retained_text(const ObjectReportInput& input) {
  if (!input.census.retained_bytes.empty()) {
    return "retained: everything that would be freed if these objects went: objects of other "
           "classes, and memory that is no object, too. So it may be more than all objects have, "
           "and less than bytes where something else leads to their buffers, too.";
  }
  if (input.metadata.references && input.metadata.references->why_not.empty()) {
    return "What they retain is not known: the references are not those of objects, or two "
           "runtimes have a class of one name.";
  }
  return "What they retain is not known, since references were not looked at.";
}

void print_next_steps(Writer& out, const ObjectReportInput& input, const Ink& ink, size_t width) {
  if (!input.census.retained_bytes.empty() && !input.snapshot_path.empty()) {
    print_next(out, "To see what keeps them alive:",
               "heapsnap owners " + shell_word(input.snapshot_path, "SNAPSHOT"), ink, width);
  } else {
    const std::string file = free_file_name("objects.hsnap");
    print_next(out,
               "To see what each class retains, and what keeps them alive, take a snapshot with "
               "references:",
               with_references_command(input.metadata, input.core_path) + " -o " + file, ink,
               width);
    out.write(fmt::format("    heapsnap objects {}\n    heapsnap owners {}\n", file, file));
  }
  print_growth_step(out, input.metadata, input.snapshot_path, input.core_path, width);
}

// Memory contexts of a snapshot without contents.
bool has_nameless_contexts(const RuntimeModel& model) {
  return !model.contexts.empty() &&
         std::all_of(model.contexts.begin(), model.contexts.end(),
                     [](const RuntimeContext& context) { return context.ident.empty(); });
}

}  // namespace

void print_objects(Writer& out, const ObjectReportInput& input, uint64_t limit,
                   const TextStyle& style) {
  const Ink ink(style.color);
  const size_t width = std::max(style.width, 60U);
  const Process& process = input.metadata.process;
  const RuntimeModel& model = input.metadata.runtimes;
  out.write(ink.bold(fmt::format("Process {}: {}", process.pid, printable(process.comm))) + "\n");
  for (uint32_t i = 0; i < model.runtimes.size(); ++i) print_runtime(out, input, i, width);
  print_context_names(out, model, limit, ink, width);
  print_context_uses(out, model, limit, ink, width);
  const auto& classes = input.census.classes;
  const size_t shown = limit == 0 ? classes.size() : std::min<size_t>(limit, classes.size());
  const ClassColumns columns(!input.census.retained_bytes.empty(), width);
  if (shown != 0) print_classes(out, input, columns, shown, ink, width);
  if (shown < classes.size()) {
    ObjectCensus::Sum rest;
    for (size_t i = shown; i < classes.size(); ++i) rest.bytes += all_bytes(classes[i]);
    out.write(fmt::format("  {} with {}: --limit 0\n",
                          count_text(classes.size() - shown, "more class", "more classes"),
                          size_text(rest.bytes)));
  }
  if (shown != 0) {
    print_lines(out, "  ",
                std::string("bytes: the objects with their own buffers, such as a list's items") +
                    (columns.has_own_bytes ? "; own bytes: without." : "."),
                width);
    print_lines(out, "  ", retained_text(input), width);
  }
  print_pages(out, input, ink, width);
  if (has_nameless_contexts(model) && input.metadata.freeze.method != FreezeMethod::kCore) {
    const std::string file = free_file_name("named.hsnap");
    print_next(
        out,
        "To see what each context is for (names of tables, queries), take the next snapshot with "
        "contents:",
        fmt::format("heapsnap attach {} --contents -o {}", pid_word(process), file), ink, width);
    out.write(fmt::format("    heapsnap objects {}\n", file));
    return;
  }
  if (shown != 0) return print_next_steps(out, input, ink, width);
  print_next_growth(out, input.metadata, input.snapshot_path, input.core_path, ink, width);
}

void write_json_runtime(JsonWriter& json, const SnapshotMetadata& metadata, size_t number) {
  const Runtime& runtime = metadata.runtimes.runtimes[number];
  write_row_members(json, runtime);
  json.member("slot_rest_bytes", slot_rest(metadata.runtimes, number));
  json.member("lacks_large_objects", lacks_large_objects(runtime, metadata.heap));
}

void print_json_objects(Writer& out, const ObjectReportInput& input) {
  const RuntimeModel& model = input.metadata.runtimes;
  JsonWriter json(out);
  const auto objects = [&](const char* name, const auto& rows, auto write) {
    json.key(name);
    json.begin_array();
    for (const auto& row : rows) {
      json.begin_object();
      write(row);
      json.end_object();
    }
    json.end_array();
  };
  json.begin_object();
  write_json_head(json, "objects", input.metadata, input.snapshot_path);
  size_t next = 0;
  objects("runtimes", model.runtimes,
          [&](const Runtime&) { write_json_runtime(json, input.metadata, next++); });
  next = 0;
  objects("objects", input.census.classes, [&](const RuntimeClass& row) {
    json.member("runtime", to_string(model.runtimes[row.runtime].kind));
    json.member("type", row.name);
    json.member("count", row.count);
    json.member("tracked", row.tracked);
    json.member("bytes", row.bytes);
    json.member("owned_bytes", row.owned_bytes);
    json.member("malloc_bytes", row.malloc_bytes);
    if (next < input.census.retained_bytes.size()) {
      json.member("retained_bytes", input.census.retained_bytes[next++]);
    }
  });
  objects("pages", model.pages, [&](const RuntimePages& row) {
    json.member("runtime", to_string(model.runtimes[row.runtime].kind));
    json.member("slot_bytes", row.slot_bytes);
    json.member("pages", row.pages);
    json.member("used_slots", row.used_slots);
    json.member("free_slots", row.free_slots);
  });
  objects("contexts", model.contexts,
          [&](const RuntimeContext& row) { write_json_context(json, model, row); });
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
