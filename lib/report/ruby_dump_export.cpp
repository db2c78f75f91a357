#include "report/ruby_dump_export.h"

#include <fmt/format.h>

#include <iterator>
#include <string>

#include "report/digits.h"
#include "report/json_writer.h"
#include "report/reference_labels.h"

namespace heapsnap {

namespace {

void write_references(const RubyObjects& objects, std::span<const BlockNumber> references,
                      Writer& out) {
  out.write(", \"references\":[");
  bool is_first = true;
  for (const BlockNumber block : references) {
    char* at = out.reserve(32);
    at = put_text(at, is_first ? "\"0x" : ", \"0x");
    at = put_hex(at, objects.address_of(block).value());
    at = put_text(at, "\"");
    out.commit(at);
    is_first = false;
  }
  out.write("]");
}

void append_member(std::string& line, const char* name, std::string_view text) {
  if (text.empty()) return;
  line += fmt::format(", \"{}\":", name);
  append_json_string(line, text);
}

}  // namespace

void export_ruby_dump(const SnapshotMetadata& metadata, RubyObjects& objects, Writer& out) {
  std::string line;
  objects.each_root([&](const RubyRoot& root) {
    line = "{\"type\":\"ROOT\", \"root\":";
    // A variable of Ruby is called as it is in Ruby.
    append_json_string(line, root.place->kind == RootKind::kGlobal
                                 ? root.place->name
                                 : root_label(metadata, *root.place));
    out.write(line);
    write_references(objects, root.references, out);
    out.write("}\n");
  });
  objects.each_object([&](const RubyObjectRow& row) {
    const std::string& builtin = row.type->builtin;
    line.clear();
    fmt::format_to(std::back_inserter(line), "{{\"address\":\"{:#x}\"", row.at.value());
    append_member(line, "type", builtin);
    if (row.of_class != kNoBlock) {
      fmt::format_to(std::back_inserter(line), ", \"class\":\"{:#x}\"",
                     objects.address_of(row.of_class).value());
    }
    fmt::format_to(std::back_inserter(line), ", \"slot_size\":{}", row.slot_bytes);
    append_member(line, builtin == "IMEMO" ? "imemo_type" : "struct", row.type->part);
    append_member(line, "name", row.name);
    out.write(line);
    if (!row.references.empty()) write_references(objects, row.references, out);
    out.write(fmt::format(", \"memsize\":{}}}\n", row.bytes));
  });
}

}  // namespace heapsnap
