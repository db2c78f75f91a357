#include "report/stack_frames.h"

#include <fmt/format.h>

#include "base/file_name.h"

namespace heapsnap {

namespace {

// Appends the frames of one return address, the inlined functions first.
void add_frames_of_node(const RecordedStacks& recorded, const TrackerRecord& tracker, uint32_t node,
                        std::vector<NamedFrame>& result) {
  const CallNode& call = recorded.stacks.nodes[node];
  NamedFrame place;
  place.return_address = call.return_address;
  if (call.module >= 0) {
    const TrackedModule& module = tracker.modules[static_cast<size_t>(call.module)];
    place.has_module = true;
    place.module = module.path;
    place.module_address = call.return_address.value() - module.bias;
  }
  const auto frames = recorded.symbols.at(call.module, call.return_address);
  if (frames.empty()) result.push_back(place);
  for (const SourceFrame& frame : frames) {
    NamedFrame named = place;
    named.function = recorded.symbols.text(frame.function);
    named.offset = frame.offset;
    named.file = recorded.symbols.text(frame.file);
    named.line = frame.line;
    named.is_inlined = frame.is_inlined;
    named.language = frame.language;
    result.push_back(named);
  }
}

}  // namespace

std::vector<NamedFrame> frames_of_node(const RecordedStacks& recorded, const TrackerRecord& tracker,
                                       uint32_t node) {
  std::vector<NamedFrame> result;
  add_frames_of_node(recorded, tracker, node, result);
  return result;
}

std::vector<NamedFrame> named_frames(const RecordedStacks& recorded, const TrackerRecord& tracker,
                                     uint32_t node, StackEnd& end) {
  std::vector<NamedFrame> result;
  end = recorded.stacks.walk(
      node, [&](uint32_t id) { add_frames_of_node(recorded, tracker, id, result); });
  return result;
}

std::vector<NamedFrame> frames_of_stack(const RecordedStacks& recorded,
                                        const TrackerRecord& tracker, size_t stack) {
  StackEnd end{};
  return named_frames(recorded, tracker, recorded.stacks.sites[stack].node, end);
}

std::string function_label(const NamedFrame& frame) {
  if (!frame.function.empty()) return std::string(frame.function);
  if (!frame.has_module) return fmt::format("{:#x}", frame.return_address.value());
  const std::string_view module = frame.module.empty() ? "program" : file_name_of(frame.module);
  return fmt::format("{}+{:#x}", module, frame.module_address);
}

bool is_same_function(const NamedFrame& a, const NamedFrame& b) {
  if (a.function.empty() || b.function.empty()) {
    return a.function.empty() && b.function.empty() && a.return_address == b.return_address;
  }
  return a.function == b.function && a.has_module == b.has_module && a.module == b.module;
}

std::string times_text(size_t count) {
  return count == 1 ? std::string() : fmt::format(" × {}", count);
}

std::string line_label(const NamedFrame& frame, bool whole_path) {
  if (frame.file.empty()) return {};
  return fmt::format("{}:{}", whole_path ? frame.file : file_name_of(frame.file), frame.line);
}

void write_json_frame(JsonWriter& json, const NamedFrame& frame) {
  json.begin_object();
  if (frame.language == FrameLanguage::kNative) json.member("address", frame.return_address);
  if (frame.has_module) {
    json.member("module", frame.module);
    json.member("module_address", Address(frame.module_address));
  }
  if (!frame.function.empty()) {
    json.member("function", frame.function);
    json.member("offset", frame.offset);
  }
  if (!frame.file.empty()) {
    json.member("file", frame.file);
    json.member("line", frame.line);
  }
  if (frame.is_inlined) json.member("inlined", true);
  if (frame.language != FrameLanguage::kNative) json.member("language", to_string(frame.language));
  json.end_object();
}

void write_json_frames(JsonWriter& json, const std::vector<NamedFrame>& frames, StackEnd end) {
  json.key("frames");
  json.begin_array();
  for (const NamedFrame& frame : frames) write_json_frame(json, frame);
  json.end_array();
  json.member("end", to_string(end));
}

}  // namespace heapsnap
