#include "tools/heapsnap/profile_formats.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "analysis/owner_tree.h"
#include "analysis/reference_streams.h"
#include "analysis/ruby_objects.h"
#include "analysis/stack_census.h"
#include "base/error.h"
#include "report/gzip_stream.h"
#include "report/heap_dump_export.h"
#include "report/heapsnapshot_export.h"
#include "report/number_text.h"
#include "report/pprof_export.h"
#include "report/profile_export.h"
#include "report/reference_labels.h"
#include "report/ruby_dump_export.h"
#include "tools/heapsnap/error_output.h"
#include "tools/heapsnap/explained_snapshot.h"
#include "tools/heapsnap/stack_names.h"
#include "tools/heapsnap/tracked_stacks.h"

namespace heapsnap {

namespace {

constexpr std::array<std::string_view, 5> kProfileFormats = {"folded", "pprof", "speedscope",
                                                             "dhat", "heaptrack"};

void write_stacks(const SnapshotMetadata& metadata, const std::string& format,
                  const StackProfile& profile, Writer& out) {
  if (format == "folded") {
    export_folded(profile, out);
  } else if (format == "speedscope") {
    export_speedscope(metadata, profile, out);
  } else if (format == "dhat") {
    export_dhat(metadata, profile, out);
  } else if (format == "heaptrack") {
    GzipStream gzip(out);
    export_heaptrack(metadata, profile, [&gzip](std::string_view text) { gzip.write(text); });
    gzip.finish();
  } else {
    export_pprof(metadata, profile, out);
  }
}

// What a profile by stack leaves out, where that is not little: its reader takes the sum for all.
void tell_what_has_no_stack(const SnapshotReader& snapshot, const StackCensus& census) {
  constexpr uint64_t kMuch = 1 << 20;
  const Tally& missing = census.without_stack;
  // Samples stand for blocks without a stack, too.
  if (snapshot.metadata().tracker->sample_bytes != 0 || missing.bytes < kMuch) return;
  print_notice(
      fmt::format("heapsnap: {} in {} have no call stack and are not in the profile\n"
                  "  why: they were allocated before the tracker was loaded\n{}",
                  size_text(missing.bytes), count_text(missing.count, "block", "blocks"),
                  snapshot.has_references()
                      ? "  do:  for all that is in use, by what keeps it alive: --by owners\n"
                      : ""));
}

void write_by_stack(const SnapshotReader& snapshot, const ProfileRequest& request, Writer& out) {
  const SnapshotMetadata& metadata = snapshot.metadata();
  const RecordedStacks recorded =
      read_tracked_stacks(snapshot, {request.path, false}, stack_debug_files({}, false), {});
  const StackCensus census = take_stack_census(streams_of(snapshot), recorded.stacks);
  tell_what_has_no_stack(snapshot, census);
  if (request.format == "pprof") {
    export_pprof(metadata, recorded, census, PprofValues::kAll, out);
    return;
  }
  write_stacks(metadata, request.format, profile_of_stacks(metadata, recorded, census), out);
}

void write_by_owner(const SnapshotReader& snapshot, const ProfileRequest& request, Writer& out) {
  require_references(snapshot, request.path);
  const ReferenceStreams references = references_of(snapshot);
  const RecordedStacks no_stacks;
  const ReferenceReportInput input{snapshot.metadata(), references, no_stacks, request.path};
  const OwnerTree tree = make_owner_tree(streams_of(snapshot), references);
  write_stacks(snapshot.metadata(), request.format, profile_of_owners(input, tree), out);
}

// A snapshot that says nothing of who allocated, nor of who keeps the memory.
[[noreturn]] void fail_without_either(const SnapshotMetadata& metadata, const std::string& path) {
  throw Error(ErrorKind::kUnsupported, path + " has neither call stacks nor references",
              "the process was not tracked, and the snapshot was taken without references",
              "for owners, take a snapshot with references: " + with_references_command(metadata) +
                  "; for call stacks: heapsnap inject or heapsnap run");
}

// Which Ruby it is whose objects are not there, and why.
[[noreturn]] void fail_without_ruby(const SnapshotMetadata& metadata, const std::string& path) {
  for (const Runtime& runtime : metadata.runtimes.runtimes) {
    if (runtime.kind != RuntimeKind::kRuby || runtime.why_not.empty()) continue;
    throw Error(ErrorKind::kUnsupported, path + " has no objects of Ruby",
                "those of Ruby " + runtime.version + " could not be read: " + runtime.why_not);
  }
  throw Error(ErrorKind::kUnsupported, path + " has no objects of Ruby",
              "no Ruby was found in the process, or the snapshot was taken by an older heapsnap",
              "heapsnap objects says which runtimes a snapshot has");
}

}  // namespace

bool is_profile_format(const std::string& format) {
  for (const std::string_view each : kProfileFormats) {
    if (each == format) return true;
  }
  return false;
}

void write_profile(const SnapshotReader& snapshot, const ProfileRequest& request, Writer& out) {
  const SnapshotMetadata& metadata = snapshot.metadata();
  if (request.by.empty() && !metadata.tracker && !snapshot.has_references()) {
    fail_without_either(metadata, request.path);
  }
  const bool is_by_stack =
      request.by.empty() ? metadata.tracker.has_value() : request.by == "stacks";
  if (is_by_stack) {
    write_by_stack(snapshot, request, out);
  } else {
    write_by_owner(snapshot, request, out);
  }
}

bool is_ruby_format(const std::string& format) {
  return format == "ruby-dump-all" || format == "heap_dump";
}

void write_ruby_objects(const SnapshotReader& snapshot, const std::string& path,
                        const std::string& format, Writer& out) {
  require_references(snapshot, path);
  const ReferenceStreams references = references_of(snapshot);
  RubyObjects objects(streams_of(snapshot), references);
  if (objects.size() == 0) fail_without_ruby(snapshot.metadata(), path);
  if (format == "heap_dump") {
    export_heap_dump(objects, out);
  } else {
    export_ruby_dump(snapshot.metadata(), objects, out);
  }
}

void write_heapsnapshot(const SnapshotReader& snapshot, const std::string& path, Writer& out) {
  require_references(snapshot, path);
  const ReferenceStreams references = references_of(snapshot);
  const RecordedStacks no_stacks;
  export_heapsnapshot(streams_of(snapshot), {snapshot.metadata(), references, no_stacks, path},
                      out);
}

}  // namespace heapsnap
