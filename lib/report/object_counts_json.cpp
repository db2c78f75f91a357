#include "report/object_counts_json.h"

#include <fmt/format.h>

#include "report/json_writer.h"

namespace heapsnap {

namespace {

std::string table(const std::vector<ObjectCounts::Count>& rows) {
  std::string text = "{";
  const char* before = "\n        ";
  for (const auto& [name, count] : rows) {
    text += before;
    append_json_string(text, name);
    text += fmt::format(": {}", count);
    before = ",\n        ";
  }
  return text + (rows.empty() ? "}" : "\n    }");
}

}  // namespace

void print_object_counts(Writer& out, const ObjectCounts& counts) {
  out.write(fmt::format("{{\n    \"total_slots\": {},\n    \"free_slots\": {},\n",
                        counts.total_slots, counts.free_slots));
  out.write("    \"basic_types\": " + table(counts.basic_types) + ",\n");
  out.write("    \"user_types\": " + table(counts.user_types) + "\n}\n");
}

}  // namespace heapsnap
