// The frames of a call stack as all listings name them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/json_writer.h"
#include "snapshot/call_stack_tables.h"
#include "tracking/tracker_record.h"

namespace heapsnap {

// Its texts are views of the snapshot's: a stack of thousands of frames may name the same long path
// in each.
struct NamedFrame {
  Address return_address;
  std::string_view function;  // as the target has it; empty: not known
  uint64_t offset = 0;        // of the address in the function; 0 where inlined
  std::string_view file;      // of the source; empty: not known
  uint32_t line = 0;
  std::string_view module;  // path; empty: code of no file, or a program of which it is not known
  bool has_module = false;
  uint64_t module_address = 0;  // the address as the module's file counts it
  bool is_inlined = false;      // into the function of the next frame
  FrameLanguage language = FrameLanguage::kNative;
};

// Innermost first. `end` says why there are no more.
std::vector<NamedFrame> named_frames(const RecordedStacks& recorded, const TrackerRecord& tracker,
                                     uint32_t node, StackEnd& end);
// Of a stack by its number; it is one of `recorded`.
std::vector<NamedFrame> frames_of_stack(const RecordedStacks& recorded,
                                        const TrackerRecord& tracker, size_t stack);

// Of one return address: the functions that were inlined there first. At least one.
std::vector<NamedFrame> frames_of_node(const RecordedStacks& recorded, const TrackerRecord& tracker,
                                       uint32_t node);

// "parse(int)", "libfoo.so+0x1234" or "0x7f0012345678": never empty, not made printable.
std::string function_label(const NamedFrame& frame);
// Whether both are of one function, or of one return address that is in no known function.
bool is_same_function(const NamedFrame& a, const NamedFrame& b);
// " × 12" for a function that occurs so often in a row; "" for 1.
std::string times_text(size_t count);
// "parse.cpp:42", "" when not known. With the whole path or the name of the file alone.
std::string line_label(const NamedFrame& frame, bool whole_path);
// {"address":"0x...","module":...,"function":...,"file":...,"line":...}: what is not known is left
// out.
void write_json_frame(JsonWriter& json, const NamedFrame& frame);
// The members "frames", innermost first, and "end": why there are no more.
void write_json_frames(JsonWriter& json, const std::vector<NamedFrame>& frames, StackEnd end);

}  // namespace heapsnap
