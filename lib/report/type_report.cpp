#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/file_name.h"
#include "references/local_name.h"
#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/reference_report.h"
#include "report/stack_frames.h"
#include "report/terminal_text.h"
#include "report/text_table.h"

namespace heapsnap {

namespace {

using Holder = BlockContext::Holder;
using Order = TypeListing::Order;

uint64_t measure_of(const TypeRow& row, Order order) {
  switch (order) {
    case Order::kBytes: return row.own.bytes;
    case Order::kCount: return row.own.count;
    case Order::kRetained: return row.retained.bytes;
  }
  return 0;
}

std::vector<const TypeRow*> in_order(const std::vector<TypeRow>& rows, Order order) {
  std::vector<const TypeRow*> result;
  for (const TypeRow& row : rows) result.push_back(&row);
  std::stable_sort(result.begin(), result.end(), [order](const TypeRow* a, const TypeRow* b) {
    return measure_of(*a, order) > measure_of(*b, order);
  });
  return result;
}

// All rows, known or not.
std::vector<const TypeRow*> in_order(const TypeCensus& census, Order order) {
  std::vector<const TypeRow*> result = in_order(census.types, order);
  const size_t types = result.size();
  for (const TypeRow* row : in_order(census.unknown, order)) result.push_back(row);
  std::inplace_merge(result.begin(), result.begin() + static_cast<ptrdiff_t>(types), result.end(),
                     [order](const TypeRow* a, const TypeRow* b) {
                       return measure_of(*a, order) > measure_of(*b, order);
                     });
  return result;
}

// Of threads nothing but what they run: the row is for all of them.
std::string holding_root_label(const ReferenceReportInput& input, const RootPlace& place) {
  if (place.kind == RootKind::kRegister) return "a register";
  if (place.kind == RootKind::kLocal) return printable(local_without_line(place.name));
  if (place.kind == RootKind::kThreadLocal) {
    RootPlace variable = place;
    variable.kind = RootKind::kVariable;
    return root_label(input.metadata, variable) + ", thread-local";
  }
  if (place.kind != RootKind::kStack) return root_label(input.metadata, place);
  if (place.name.empty()) return "a stack";
  return "the stack of " + printable(place.name);
}

// "held by Session+0x18"
std::string context_label(const ReferenceReportInput& input, const BlockContext& context) {
  std::string holder;
  switch (context.kind) {
    case Holder::kNothing: return "held by nothing";
    case Holder::kVarious: return "held here and there";
    case Holder::kType: holder = type_label(input, context.holder); break;
    case Holder::kRoot:
      holder = holding_root_label(input, input.references.places[context.holder]);
      break;
    case Holder::kSize: holder = block_size_label(context.holder); break;
    case Holder::kArray: holder = "an array"; break;
  }
  if (context.held_at != BlockContext::kSomewhere) holder += fmt::format("+{:#x}", context.held_at);
  return "held by " + holder;
}

// Names of types that several modules define say which one's it is.
std::map<std::string_view, unsigned> modules_of_names(const ReferenceReportInput& input,
                                                      const TypeCensus& census) {
  std::map<std::string_view, unsigned> result;
  for (const TypeRow& row : census.types) ++result[input.references.types[row.type].name];
  return result;
}

class RowLabels {
 public:
  RowLabels(const ReferenceReportInput& input, const TypeCensus& census)
      : input_(input), modules_(modules_of_names(input, census)) {}

  std::string label(const TypeRow& row) const {
    if (row.type == 0) {
      return block_sizes_label(row.least_size, row.most_size) + ", " +
             context_label(input_, row.context);
    }
    const BlockType& type = input_.references.types[row.type];
    std::string text = printable(type.name);
    if (modules_.at(type.name) > 1 && !type.module.empty()) {
      text += " in " + printable(file_name_of(type.module));
    }
    return text;
  }

 private:
  const ReferenceReportInput& input_;
  std::map<std::string_view, unsigned> modules_;
};

// A column can be no narrower than its longest word.
std::string with_short_words(const std::string& text, size_t width) {
  std::string result;
  for (const std::string& word : wrapped(text, 1)) {
    result += (result.empty() ? "" : " ") + clipped(word, width);
  }
  return result;
}

void print_type_table(Writer& out, const std::vector<const TypeRow*>& rows, const RowLabels& labels,
                      const TypeCensus& census, const Ink& ink, size_t width) {
  constexpr size_t kNumbers = 44;
  TextTable table;
  for (const char* title : {"bytes", "share", "blocks", "retained"}) {
    table.add_column(title, TextTable::Align::kRight);
  }
  table.add_column("type", TextTable::Align::kLeft);
  for (const TypeRow* row : rows) {
    table.add_row({size_text(row->own.bytes), percent_text(row->own.bytes, census.in_use.bytes),
                   count_text(row->own.count), size_text(row->retained.bytes),
                   with_short_words(labels.label(*row), width - kNumbers)});
  }
  table.print(out, ink, width);
}

std::string share_of_blocks(const Tally& part, const Tally& whole) {
  return fmt::format("{} in {} ({})", size_text(part.bytes),
                     count_text(part.count, "block", "blocks"),
                     percent_text(part.bytes, whole.bytes));
}

const char* evidence_text(TypeSource source) {
  switch (source) {
    case TypeSource::kVtable: return "by vtables";
    case TypeSource::kStructure: return "by structure";
    case TypeSource::kDebugInfo: return "by debug information";
    case TypeSource::kRuntime: return "by the runtime";
    case TypeSource::kUnknown: break;
  }
  return "by other means";
}

// ": 71 % by debug information, 20 % by vtables"
std::string evidence_label(const TypeCensus& census) {
  std::string text;
  for (const TypeCensus::Share& share : census.by_source) {
    text += text.empty() ? ": " : ", ";
    text += fmt::format("{} {}", percent_text(share.known.bytes, census.in_use.bytes),
                        evidence_text(share.source));
  }
  return text;
}

Tally unknown_of(const TypeCensus& census) {
  return {census.in_use.count - census.typed.count, census.in_use.bytes - census.typed.bytes};
}

void write_json_holder(JsonWriter& json, const ReferenceReportInput& input,
                       const BlockContext& context) {
  if (context.kind == Holder::kVarious) return;
  json.key("holder");
  json.begin_object();
  switch (context.kind) {
    case Holder::kNothing:
    case Holder::kVarious: json.member("kind", "nothing"); break;
    case Holder::kType:
      json.member("kind", "type");
      json.member("type", input.references.types[context.holder].name);
      json.member("module", input.references.types[context.holder].module);
      break;
    case Holder::kRoot: {
      RootPlace of_all = input.references.places[context.holder];
      if (of_all.tid != 0) of_all.begin = {};
      of_all.tid = 0;
      write_json_root(json, of_all);
      break;
    }
    case Holder::kSize:
      json.member("kind", "blocks");
      json.member("bytes", context.holder);
      break;
    case Holder::kArray: json.member("kind", "array"); break;
  }
  if (context.held_at != BlockContext::kSomewhere) json.member("held_at", context.held_at);
  json.end_object();
}

void write_json_row(JsonWriter& json, const ReferenceReportInput& input, const TypeRow& row) {
  json.begin_object();
  if (row.type != 0) {
    const BlockType& type = input.references.types[row.type];
    json.member("type", type.name);
    json.member("module", type.module);
    json.member("source", to_string(type.source));
  }
  json.member("count", row.own.count);
  json.member("bytes", row.own.bytes);
  json.member("least_size", row.least_size);
  json.member("most_size", row.most_size);
  json.member("retained_blocks", row.retained.count);
  json.member("retained_bytes", row.retained.bytes);
  if (row.type == 0) write_json_holder(json, input, row.context);
  json.end_object();
}

void write_json_evidence(JsonWriter& json, const TypeCensus& census) {
  json.key("typed_by");
  json.begin_array();
  for (const TypeCensus::Share& share : census.by_source) {
    json.begin_object();
    json.member("source", to_string(share.source));
    json.member("blocks", share.known.count);
    json.member("bytes", share.known.bytes);
    json.end_object();
  }
  json.end_array();
}

void write_json_rows(JsonWriter& json, const char* name, const ReferenceReportInput& input,
                     const std::vector<const TypeRow*>& rows) {
  json.key(name);
  json.begin_array();
  for (const TypeRow* row : rows) write_json_row(json, input, *row);
  json.end_array();
}

}  // namespace

void print_types(Writer& out, const ReferenceReportInput& input, const TypeCensus& census,
                 const TypeListing& listing, const TextStyle& style) {
  const Ink ink(style.color);
  const size_t width = std::max(style.width, 60U);
  const Tally unknown = unknown_of(census);
  print_reference_head(out, input, ink, width);
  print_lines(out, "  in use    ",
              fmt::format("{} in {}", size_text(census.in_use.bytes),
                          count_text(census.in_use.count, "block", "blocks")),
              width);
  print_lines(out, "  typed     ",
              share_of_blocks(census.typed, census.in_use) + evidence_label(census), width);
  print_lines(out, "  unknown   ",
              share_of_blocks(unknown, census.in_use) +
                  (unknown.count == 0 ? "" : ": listed by size and by what holds them"),
              width);
  const std::vector<const TypeRow*> rows = in_order(census, listing.order);
  if (rows.empty()) {
    print_next(out, "To see what else its memory is:", overview_command(input), ink, width);
    return;
  }
  out.write("\n");
  const size_t shown =
      listing.limit == 0 ? rows.size() : std::min<size_t>(listing.limit, rows.size());
  print_type_table(out, {rows.begin(), rows.begin() + static_cast<ptrdiff_t>(shown)},
                   RowLabels(input, census), census, ink, width);
  if (shown < rows.size()) {
    Tally rest;
    for (size_t i = shown; i < rows.size(); ++i) rest += rows[i]->own;
    out.write(fmt::format("  {} with {}: --limit 0\n",
                          count_text(rows.size() - shown, "more row", "more rows"),
                          size_text(rest.bytes)));
  }
  print_lines(out, "  ",
              "retained: these blocks, and all that is reachable only through one of them.", width);
  print_next(out, "To see what keeps them alive:", "heapsnap owners " + source_word(input), ink,
             width);
}

void print_json_types(Writer& out, const ReferenceReportInput& input, const TypeCensus& census,
                      const TypeListing& listing) {
  const Tally unknown = unknown_of(census);
  JsonWriter json(out);
  json.begin_object();
  write_json_reference_head(json, "types", input);
  json.member("blocks_in_use", census.in_use.count);
  json.member("bytes_in_use", census.in_use.bytes);
  json.member("typed_blocks", census.typed.count);
  json.member("typed_bytes", census.typed.bytes);
  json.member("unknown_blocks", unknown.count);
  json.member("unknown_bytes", unknown.bytes);
  write_json_evidence(json, census);
  write_json_rows(json, "types", input, in_order(census.types, listing.order));
  write_json_rows(json, "unknown", input, in_order(census.unknown, listing.order));
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
