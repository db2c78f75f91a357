#include "report/profile_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/file_name.h"
#include "report/json_writer.h"
#include "report/stack_frames.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

// "parse (cache.cpp:25)"
std::string frame_text(const ProfileFrame& frame) {
  if (frame.file.empty()) return frame.name;
  return fmt::format("{} ({}:{})", frame.name, file_name_of(frame.file), frame.line);
}

void write_speedscope_profile(JsonWriter& json, const StackProfile& profile, const char* name,
                              const char* unit, uint64_t StackProfile::Sample::*value,
                              uint64_t total) {
  json.begin_object();
  json.member("type", "sampled");
  json.member("name", name);
  json.member("unit", unit);
  json.member("startValue", 0);
  json.member("endValue", total);
  json.key("samples");
  json.begin_array();
  std::vector<uint32_t> path;
  for (const StackProfile::Sample& sample : profile.samples()) {
    profile.path_of(sample.node, path);
    json.begin_array();
    for (const uint32_t frame : path) json.value(frame);
    json.end_array();
  }
  json.end_array();
  json.key("weights");
  json.begin_array();
  for (const StackProfile::Sample& sample : profile.samples()) json.value(sample.*value);
  json.end_array();
  json.end_object();
}

}  // namespace

void export_folded(const StackProfile& profile, Writer& out) {
  std::vector<std::string> names;
  for (const ProfileFrame& frame : profile.frames()) {
    names.push_back(frame.name);
    std::replace(names.back().begin(), names.back().end(), ';', ',');
  }
  std::vector<uint32_t> path;
  for (const StackProfile::Sample& sample : profile.samples()) {
    if (sample.bytes == 0) continue;
    profile.path_of(sample.node, path);
    const char* between = "";
    for (const uint32_t frame : path) {
      out.write(between);
      out.write(names[frame]);
      between = ";";
    }
    out.write(fmt::format(" {}\n", sample.bytes));
  }
}

void export_speedscope(const SnapshotMetadata& metadata, const StackProfile& profile, Writer& out) {
  JsonWriter json(out);
  json.begin_object();
  json.member("$schema", "https://www.speedscope.app/file-format-schema.json");
  json.member("exporter", printable(metadata.writer));
  json.member("name", profile_title(metadata, profile));
  json.member("activeProfileIndex", 0);
  json.key("shared");
  json.begin_object();
  json.key("frames");
  json.begin_array();
  for (const ProfileFrame& frame : profile.frames()) {
    json.begin_object();
    json.member("name", frame.name);
    if (!frame.file.empty()) json.member("file", frame.file);
    if (frame.line != 0) json.member("line", frame.line);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  json.key("profiles");
  json.begin_array();
  using Sample = StackProfile::Sample;
  write_speedscope_profile(json, profile, "bytes in use", "bytes", &Sample::bytes, profile.bytes());
  write_speedscope_profile(json, profile, "blocks in use", "none", &Sample::blocks,
                           profile.blocks());
  json.end_array();
  json.end_object();
  out.write("\n");
}

void export_dhat(const SnapshotMetadata& metadata, const StackProfile& profile, Writer& out) {
  const uint64_t recorded_ns = metadata.tracker ? metadata.tracker->recorded_ns : 0;
  const uint64_t end_us = std::max<uint64_t>(1, recorded_ns / 1000);
  JsonWriter json(out);
  json.begin_object();
  json.member("dhatFileVersion", 2);
  json.member("mode", "heap-snapshot");
  const bool is_by_stack = profile.kind() == StackProfile::Kind::kCallStacks;
  json.member("verb", is_by_stack ? "Allocated" : "Kept");
  json.member("bklt", true);
  json.member("bkacc", false);
  json.member("tu", "µs");
  json.member("Mtu", "s");
  json.member("tuth", 0);  // nothing is short-lived
  json.member("cmd", profile_title(metadata, profile));
  json.member("pid", metadata.process.pid);
  json.member("te", end_us);
  json.member("tg", end_us);
  json.key("pps");
  json.begin_array();
  std::vector<uint32_t> path;
  for (const StackProfile::Sample& sample : profile.samples()) {
    json.begin_object();
    for (const char* bytes : {"tb", "mb", "gb", "eb"}) json.member(bytes, sample.bytes);
    for (const char* blocks : {"tbk", "mbk", "gbk", "ebk"}) json.member(blocks, sample.blocks);
    json.member("tl", 0);
    json.key("fs");
    json.begin_array();
    profile.path_of(sample.node, path);
    for (auto frame = path.rbegin(); frame != path.rend(); ++frame) json.value(*frame + 1);
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.key("ftbl");
  json.begin_array();
  json.value("[root]");
  for (const ProfileFrame& frame : profile.frames()) json.value(frame_text(frame));
  json.end_array();
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
