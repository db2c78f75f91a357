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
#include "report/terminal_text.h"

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
  ProfileStream(const SnapshotMetadata& metadata, Writer& out) : metadata_(metadata), gzip_(out) {
    text("");  // the first string is empty
  }

  void write_types(std::initializer_list<std::pair<const char*, const char*>> types) {
    for (const auto& [type, unit] : types) value_type(profile_field::kSampleType, type, unit);
  }
  void write_head();
  // `path`: locations, innermost first.
  void write_sample(const std::vector<uint64_t>& path, const std::vector<int64_t>& values);
  void finish() { gzip_.finish(); }

  // Both of printable() texts.
  int64_t text(const std::string& what);
  uint64_t function(const std::string& name, const std::string& file);
  void message(uint32_t field, const std::string& body);
  const SnapshotMetadata& metadata() const { return metadata_; }

 private:
  void value_type(uint32_t field, const char* type, const char* unit);

  const SnapshotMetadata& metadata_;
  GzipStream gzip_;
  std::unordered_map<std::string, int64_t> texts_;
  std::map<std::pair<int64_t, int64_t>, uint64_t> functions_;  // by name and file
};

// The locations of recorded stacks, and the files that their code is in.
class CallLocations {
 public:
  CallLocations(const RecordedStacks& recorded, ProfileStream& stream)
      : recorded_(recorded), tracker_(*stream.metadata().tracker), stream_(stream) {
    location_of_.resize(recorded.stacks.nodes.size());
  }

  void write_mappings();
  std::vector<uint64_t> path_of(const AllocationSite& site);

 private:
  uint64_t location(uint32_t node);

  const RecordedStacks& recorded_;
  const TrackerRecord& tracker_;
  ProfileStream& stream_;
  std::map<std::pair<int32_t, Address>, uint64_t> locations_;  // by module and return address
  std::vector<uint64_t> location_of_;                          // by node; 0: not written yet
};

void ProfileStream::message(uint32_t field, const std::string& body) {
  std::string whole;
  protozero::pbf_writer(whole).add_message(field, body);
  gzip_.write(whole);
}

int64_t ProfileStream::text(const std::string& what) {
  const auto [entry, is_new] = texts_.try_emplace(what, static_cast<int64_t>(texts_.size()));
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

uint64_t ProfileStream::function(const std::string& name, const std::string& file) {
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

void CallLocations::write_mappings() {
  const auto& modules = tracker_.modules;
  // Readers take the first one for the program. The tracker's list begins with it, as the dynamic
  // loader's does.
  for (size_t i = 0; i < modules.size(); ++i) {
    const TrackedModule& module = modules[i];
    const std::string& path = module.path.empty() ? stream_.metadata().process.exe : module.path;
    std::string body;
    protozero::pbf_writer pbf(body);
    pbf.add_uint64(1, i + 1);
    pbf.add_uint64(2, module.range.begin.value());
    pbf.add_uint64(3, module.range.end.value());
    pbf.add_int64(5, stream_.text(printable(path)));
    pbf.add_int64(6, stream_.text(printable(module.build_id)));
    pbf.add_bool(7, true);   // functions
    pbf.add_bool(8, true);   // files
    pbf.add_bool(9, true);   // lines
    pbf.add_bool(10, true);  // inlined functions
    stream_.message(profile_field::kMapping, body);
  }
}

uint64_t CallLocations::location(uint32_t node) {
  const CallNode& call = recorded_.stacks.nodes[node];
  const auto [entry, is_new] =
      locations_.try_emplace({call.module, call.return_address}, locations_.size() + 1);
  if (!is_new) return entry->second;
  std::string body;
  protozero::pbf_writer pbf(body);
  pbf.add_uint64(1, entry->second);
  if (call.module >= 0) pbf.add_uint64(2, static_cast<uint64_t>(call.module) + 1);
  if (!is_interpreted(call.module, call.return_address)) {
    pbf.add_uint64(3, call.return_address.value() - 1);
  }
  for (const NamedFrame& frame : frames_of_node(recorded_, tracker_, node)) {
    const ProfileFrame shown = profile_frame(frame);
    const uint64_t id = stream_.function(shown.name, shown.file);
    protozero::pbf_writer line(pbf, 4);
    line.add_uint64(1, id);
    line.add_int64(2, shown.line);
  }
  stream_.message(profile_field::kLocation, body);
  return entry->second;
}

std::vector<uint64_t> CallLocations::path_of(const AllocationSite& site) {
  std::vector<uint64_t> path;
  recorded_.stacks.walk(site.node, [&](uint32_t node) {
    uint64_t& known = location_of_[node];
    if (known == 0) known = location(node);
    path.push_back(known);
  });
  return path;
}

void ProfileStream::write_sample(const std::vector<uint64_t>& path,
                                 const std::vector<int64_t>& values) {
  std::string body;
  protozero::pbf_writer pbf(body);
  pbf.add_packed_uint64(1, path.begin(), path.end());
  pbf.add_packed_int64(2, values.begin(), values.end());
  message(profile_field::kSample, body);
}

void ProfileStream::write_head() {
  value_type(profile_field::kPeriodType, "space", "bytes");
  const int64_t comment = text(snapshot_title(metadata_));
  const int64_t preferred = text("inuse_space");
  std::string body;
  protozero::pbf_writer pbf(body);
  pbf.add_int64(profile_field::kTime, metadata_.process.taken_at_ns);
  const uint64_t recorded_ns = metadata_.tracker ? metadata_.tracker->recorded_ns : 0;
  const uint64_t sample_bytes = metadata_.tracker ? metadata_.tracker->sample_bytes : 0;
  if (recorded_ns != 0) pbf.add_int64(profile_field::kDuration, static_cast<int64_t>(recorded_ns));
  pbf.add_int64(profile_field::kPeriod, sample_bytes == 0 ? 1 : static_cast<int64_t>(sample_bytes));
  pbf.add_int64(profile_field::kComment, comment);
  pbf.add_int64(profile_field::kDefaultType, preferred);
  gzip_.write(body);
}

}  // namespace

void export_pprof(const SnapshotMetadata& metadata, const RecordedStacks& recorded,
                  const StackCensus& census, PprofValues values, Writer& out) {
  ProfileStream profile(metadata, out);
  CallLocations locations(recorded, profile);
  const bool all = values == PprofValues::kAll;
  if (all) profile.write_types({{"alloc_objects", "count"}, {"alloc_space", "bytes"}});
  profile.write_types({{"inuse_objects", "count"}, {"inuse_space", "bytes"}});
  profile.write_head();
  locations.write_mappings();
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
    profile.write_sample(locations.path_of(site), figures_now);
  }
  profile.finish();
}

void export_pprof(const SnapshotMetadata& metadata, const StackProfile& stacks, Writer& out) {
  ProfileStream profile(metadata, out);
  profile.write_types({{"inuse_objects", "count"}, {"inuse_space", "bytes"}});
  profile.write_head();
  for (size_t frame = 0; frame < stacks.frames().size(); ++frame) {
    const ProfileFrame& each = stacks.frames()[frame];
    const uint64_t function = profile.function(each.name, each.file);
    std::string body;
    protozero::pbf_writer pbf(body);
    pbf.add_uint64(1, frame + 1);
    {
      protozero::pbf_writer line(pbf, 4);
      line.add_uint64(1, function);
      line.add_int64(2, each.line);
    }
    profile.message(profile_field::kLocation, body);
  }
  std::vector<uint32_t> frames;
  for (const StackProfile::Sample& sample : stacks.samples()) {
    stacks.path_of(sample.node, frames);
    std::vector<uint64_t> path;
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) path.push_back(*frame + 1);
    profile.write_sample(path,
                         {static_cast<int64_t>(sample.blocks), static_cast<int64_t>(sample.bytes)});
  }
  profile.finish();
}

}  // namespace heapsnap
