// What all listings say of the blocks from before the tracker was loaded: who probably allocated
// them (analysis/old_blocks.h).
#pragma once

#include <string>
#include <vector>

#include "report/json_writer.h"
#include "report/stack_report_input.h"

namespace heapsnap {

// "9,936 of 112 B: probably allocated by fill(Node*), like all 64 newer ones in use" and so on, a
// sentence for each size; names in `name_width` columns.
std::vector<std::string> old_blocks_texts(const StackReportInput& input, size_t name_width);

// The member "old_blocks" of the object that is open.
void write_json_old_blocks(JsonWriter& json, const StackReportInput& input);

}  // namespace heapsnap
