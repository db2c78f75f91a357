#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/count_text.h"
#include "base/error.h"
#include "report/profile_export.h"

namespace heapsnap {

namespace {

// Numbers are hexadecimal. Strings, instruction pointers and traces are numbered from 1 (0: none),
// allocation infos from 0, each by the order of their lines.
class HeaptrackLines {
 public:
  HeaptrackLines(const StackProfile& profile, const std::function<void(std::string_view)>& put)
      : profile_(profile), put_(put) {}

  void write_frames() {
    for (const ProfileFrame& frame : profile_.frames()) {
      const uint32_t module = text(frame.module);
      const uint32_t function = text(frame.name);
      const uint32_t file = text(frame.file);
      // The address only has to be another one for each: the function is given.
      put_(fmt::format("i {:x} {:x} {:x} {:x} {:x}\n", ++frames_, module, function, file,
                       frame.line));
    }
  }

  void write_traces() {
    // Node 0 is heaptrack's trace 0, and no line.
    for (size_t node = 1; node < profile_.nodes().size(); ++node) {
      const StackProfile::Node& each = profile_.nodes()[node];
      put_(fmt::format("t {:x} {:x}\n", each.frame + 1, each.parent));
    }
  }

  void write_blocks(const StackProfile::Sample& sample) {
    if (sample.blocks == 0) return;
    const uint64_t size = sample.bytes / sample.blocks;
    const uint64_t larger = sample.bytes % sample.blocks;
    write_equal(size + 1, sample.node, larger);
    write_equal(size, sample.node, sample.blocks - larger);
  }

 private:
  uint32_t text(const std::string& what) {
    if (what.empty()) return 0;
    const auto [entry, is_new] = texts_.try_emplace(what, static_cast<uint32_t>(texts_.size() + 1));
    if (is_new) {
      put_(fmt::format("s {:x} {}\n", what.size(), what));
    }
    return entry->second;
  }

  void write_equal(uint64_t size, uint32_t trace, uint64_t count) {
    if (count == 0) return;
    put_(fmt::format("a {:x} {:x}\n", size, trace));
    const std::string line = fmt::format("+ {:x}\n", infos_++);
    for (uint64_t i = 0; i < count; ++i) put_(line);
  }

  const StackProfile& profile_;
  const std::function<void(std::string_view)>& put_;
  std::unordered_map<std::string, uint32_t> texts_;
  uint32_t frames_ = 0;
  uint64_t infos_ = 0;
};

}  // namespace

void export_heaptrack(const SnapshotMetadata& metadata, const StackProfile& profile,
                      const std::function<void(std::string_view)>& put) {
  constexpr uint64_t kBytesOfPage = 4096;
  // Estimates of sampled stacks may be anything in a damaged snapshot.
  constexpr uint64_t kMostBlocks = uint64_t{1} << 27;
  uint64_t left = kMostBlocks;
  for (const StackProfile::Sample& sample : profile.samples()) {
    if (sample.blocks > left) {
      throw Error(
          ErrorKind::kUnsupported, "heaptrack's format",
          "it has a line for each block in use, and these are more than " + count_text(kMostBlocks),
          "choose a format that has sums, for example: --format pprof");
    }
    left -= sample.blocks;
  }
  put("v 10400 3\n");  // as heaptrack 1.4.0 writes
  put(fmt::format("X {}\n", profile_title(metadata, profile)));
  const Process& process = metadata.process;
  const uint64_t page = process.page_size == 0 ? kBytesOfPage : process.page_size;
  put(fmt::format("I {:x} 0\n", page));
  HeaptrackLines lines(profile, put);
  lines.write_frames();
  lines.write_traces();
  put("c 0\n");
  for (const StackProfile::Sample& sample : profile.samples()) lines.write_blocks(sample);
  put(fmt::format("R {:x}\n", process.rss / page));
  const uint64_t recorded_ns = metadata.tracker ? metadata.tracker->recorded_ns : 0;
  put(fmt::format("c {:x}\n", recorded_ns / 1'000'000));
}

}  // namespace heapsnap
