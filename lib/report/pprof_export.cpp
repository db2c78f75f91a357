#include "report/pprof_export.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <protozero/pbf_writer.hpp>

#include "report/gzip_stream.h"
#include "report/number_text.h"
#include "report/stack_frames.h"
#include "report/utf8.h"

namespace heapsnap {

namespace {

// Numbers of the fields in profile.proto.
namespace profile_field {
enum : uint32_t {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kFunction = 5,
  kString = 6,
  kTime = 9,
  kDuration = 10,
  kPeriodType = 11,
  kPeriod = 12,
  kComment = 13,
  kDefaultType = 14,
};
}  // namespace profile_field

int64_t as_value(double number) {
  return static_cast<int64_t>(whole_number(number));
}

// The profile's messages, each written as soon as it is complete. What refers to another one names
// its number, and the order in the file is free.
class ProfileStream {
 public:
  ProfileStream(const SnapshotMetadata& metadata, const RecordedStacks& recorded, Writer& out)
      : metadata_(metadata), recorded_(recorded), gzip_(out) {
    text("");  // the first string is empty
    location_of_.resize(recorded.stacks.nodes.size());
  }

  void write_types(std::initializer_list<std::pair<const char*, const char*>> types) {
    for (const auto& [type, unit] : types) value_type(profile_field::kSampleType, type, unit);
  }
  void write_mappings();
  void write_sample(const AllocationSite& site, const std::vector<int64_t>& values);
  void write_head();
  void finish() { gzip_.finish(); }

 private:
  int64_t text(std::string_view bytes);
  uint64_t function(std::string_view name, std::string_view file);
  uint64_t location(uint32_t node);
  void value_type(uint32_t field, const char* type, const char* unit);
  void message(uint32_t field, const std::string& body);

  const SnapshotMetadata& metadata_;
  const RecordedStacks& recorded_;
  GzipStream gzip_;
  std::unordered_map<std::string, int64_t> texts_;
  std::map<std::pair<int64_t, int64_t>, uint64_t> functions_;  // by name and file
  std::map<std::pair<int32_t, Address>, uint64_t> locations_;  // by module and return address
  std::vector<uint64_t> location_of_;                          // by node; 0: not written yet
};

void ProfileStream::message(uint32_t field, const std::string& body) {
  std::string whole;
  protozero::pbf_writer(whole).add_message(field, body);
  gzip_.write(whole);
}

int64_t ProfileStream::text(std::string_view bytes) {
  const auto [entry, is_new] =
      texts_.try_emplace(valid_utf8(bytes), static_cast<int64_t>(texts_.size()));
  if (is_new) message(profile_field::kString, entry->first);
  return entry->second;
}

void ProfileStream::value_type(uint32_t field, const char* type, const char* unit) {
  std::string body;
  protozero::pbf_writer pbf(body);
  pbf.add_int64(1, text(type));
  pbf.add_int64(2, text(unit));
  message(field, body);
}

uint64_t ProfileStream::function(std::string_view name, std::string_view file) {
  const std::pair key{text(name), text(file)};
  const auto [entry, is_new] = functions_.try_emplace(key, functions_.size() + 1);
  if (is_new) {
    std::string body;
    protozero::pbf_writer pbf(body);
    pbf.add_uint64(1, entry->second);
    pbf.add_int64(2, key.first);
    pbf.add_int64(3, key.first);
    pbf.add_int64(4, key.second);
    message(profile_field::kFunction, body);
  }
  return entry->second;
}

void ProfileStream::write_mappings() {
  const auto& modules = metadata_.tracker->modules;
  // Readers take the first one for the program. The tracker's list begins with it, as the dynamic
  // loader's does.
  for (size_t i = 0; i < modules.size(); ++i) {
    const TrackedModule& module = modules[i];
    const std::string_view path = module.path.empty() ? metadata_.process.exe : module.path;
    std::string body;
    protozero::pbf_writer pbf(body);
    pbf.add_uint64(1, i + 1);
    pbf.add_uint64(2, module.range.begin.value());
    pbf.add_uint64(3, module.range.end.value());
    pbf.add_int64(5, text(path));
    pbf.add_int64(6, text(module.build_id));
    pbf.add_bool(7, true);   // functions
    pbf.add_bool(8, true);   // files
    pbf.add_bool(9, true);   // lines
    pbf.add_bool(10, true);  // inlined functions
    message(profile_field::kMapping, body);
  }
}

uint64_t ProfileStream::location(uint32_t node) {
  const CallNode& call = recorded_.stacks.nodes[node];
  const auto [entry, is_new] =
      locations_.try_emplace({call.module, call.return_address}, locations_.size() + 1);
  if (!is_new) return entry->second;
  std::string body;
  protozero::pbf_writer pbf(body);
  pbf.add_uint64(1, entry->second);
  if (call.module >= 0) pbf.add_uint64(2, static_cast<uint64_t>(call.module) + 1);
  pbf.add_uint64(3, call.return_address.value() - 1);
  for (const NamedFrame& frame : frames_of_node(recorded_, *metadata_.tracker, node)) {
    const uint64_t id = function(function_label(frame), frame.file);
    protozero::pbf_writer line(pbf, 4);
    line.add_uint64(1, id);
    line.add_int64(2, frame.line);
  }
  message(profile_field::kLocation, body);
  return entry->second;
}

void ProfileStream::write_sample(const AllocationSite& site, const std::vector<int64_t>& values) {
  std::vector<uint64_t> path;
  recorded_.stacks.walk(site.node, [&](uint32_t node) {
    uint64_t& known = location_of_[node];
    if (known == 0) known = location(node);
    path.push_back(known);
  });
  std::string body;
  protozero::pbf_writer pbf(body);
  pbf.add_packed_uint64(1, path.begin(), path.end());
  pbf.add_packed_int64(2, values.begin(), values.end());
  message(profile_field::kSample, body);
}

void ProfileStream::write_head() {
  const Process& process = metadata_.process;
  const TrackerRecord& tracker = *metadata_.tracker;
  value_type(profile_field::kPeriodType, "space", "bytes");
  const int64_t comment = text(fmt::format("{}: process {} ({}) on {}", metadata_.writer,
                                           process.pid, process.comm, process.hostname));
  const int64_t preferred = text("inuse_space");
  std::string body;
  protozero::pbf_writer pbf(body);
  pbf.add_int64(profile_field::kTime, process.taken_at_ns);
  if (tracker.recorded_ns != 0) {
    pbf.add_int64(profile_field::kDuration, static_cast<int64_t>(tracker.recorded_ns));
  }
  pbf.add_int64(profile_field::kPeriod,
                tracker.sample_bytes == 0 ? 1 : static_cast<int64_t>(tracker.sample_bytes));
  pbf.add_int64(profile_field::kComment, comment);
  pbf.add_int64(profile_field::kDefaultType, preferred);
  gzip_.write(body);
}

}  // namespace

void export_pprof(const SnapshotMetadata& metadata, const RecordedStacks& recorded,
                  const StackCensus& census, PprofValues values, Writer& out) {
  ProfileStream profile(metadata, recorded, out);
  const bool all = values == PprofValues::kAll;
  if (all) profile.write_types({{"alloc_objects", "count"}, {"alloc_space", "bytes"}});
  profile.write_types({{"inuse_objects", "count"}, {"inuse_space", "bytes"}});
  profile.write_head();
  profile.write_mappings();
  for (size_t id = 0; id < census.stacks.size() && id < recorded.stacks.sites.size(); ++id) {
    const AllocationSite& site = recorded.stacks.sites[id];
    const StackFigures& figures = census.stacks[id];
    if (figures.blocks_found == 0 && (!all || site.allocations == 0)) continue;
    std::vector<int64_t> figures_now;
    if (all) {
      figures_now = {as_value(site.allocation_count()),
                     as_value(static_cast<double>(site.allocated_bytes))};
    }
    figures_now.push_back(as_value(figures.live_blocks));
    figures_now.push_back(as_value(figures.live_bytes));
    profile.write_sample(site, figures_now);
  }
  profile.finish();
}

}  // namespace heapsnap
