#include "report/old_blocks_report.h"

#include <fmt/format.h>

#include "report/fitted_name.h"
#include "report/number_text.h"
#include "report/stack_labels.h"
#include "report/terminal_text.h"

namespace heapsnap {

std::vector<std::string> old_blocks_texts(const StackReportInput& input, size_t name_width) {
  std::vector<std::string> texts;
  for (const OldBlocks& old : input.old_blocks) {
    const std::string function = printable(charged_function(input, old.stack));
    texts.push_back(
        fmt::format("{} of {} B, caller unknown; all {} newer ones in use were allocated by {}",
                    count_text(old.old.count), count_text(old.size), count_text(old.newer),
                    fitted_name(function, name_width)));
  }
  return texts;
}

void write_json_old_blocks(JsonWriter& json, const StackReportInput& input) {
  json.key("old_blocks");
  json.begin_array();
  for (const OldBlocks& old : input.old_blocks) {
    json.begin_object();
    json.member("size", old.size);
    json.key("old");
    json.begin_object();
    json.member("count", old.old.count);
    json.member("bytes", old.old.bytes);
    json.end_object();
    json.member("newer", old.newer);
    json.member("stack", old.stack);
    json.member("probable_function", charged_function(input, old.stack));
    json.end_object();
  }
  json.end_array();
}

}  // namespace heapsnap
