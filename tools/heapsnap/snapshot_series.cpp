#include "tools/heapsnap/snapshot_series.h"

#include <algorithm>
#include <optional>

#include "analysis/growth_history.h"
#include "base/error.h"
#include "snapshot/snapshot_reader.h"
#include "tools/heapsnap/stack_names.h"

namespace heapsnap {

namespace {

// What is wrong with a snapshot names its file.
template <typename Work>
void of_file(const std::string& path, Work work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput || error.subject().find(path) != std::string::npos) {
      throw;
    }
    throw Error(error.kind(), path + ": " + error.subject(), error.why(), error.remedy());
  }
}

// What the snapshots allow that can be read.
NameScope scope_of_files(const std::vector<std::string>& paths) {
  std::vector<Process> processes;
  for (const std::string& path : paths) {
    try {
      processes.push_back(SnapshotReader::open(path).metadata().process);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kBadInput) throw;
    }
  }
  return scope_of(processes);
}

}  // namespace

std::vector<DiffBy> all_sums() {
  std::vector<DiffBy> all;
  for (int i = 0; i < kDiffByCount; ++i) all.push_back(static_cast<DiffBy>(i));
  return all;
}

SnapshotDiff read_diff(const std::vector<std::string>& paths, std::vector<DiffBy> wanted,
                       const PassedFrames& passed, const std::string& sysroot) {
  // Names are compared as all of the snapshots allow.
  std::vector<Process> processes;
  bool has_objects = false;
  bool has_contexts = false;
  for (const std::string& path : paths) {
    const SnapshotReader snapshot = SnapshotReader::open(path);
    processes.push_back(snapshot.metadata().process);
    has_objects |= !snapshot.metadata().runtimes.classes.empty();
    has_contexts |= !snapshot.metadata().runtimes.contexts.empty();
  }
  if (wanted.size() > 1 && !has_objects) std::erase(wanted, DiffBy::kClass);
  if (wanted.size() > 1 && !has_contexts) std::erase(wanted, DiffBy::kContext);
  SnapshotDiffBuilder builder(wanted, scope_of(processes), passed);
  const DebugFileSearch debug_files = stack_debug_files(sysroot, false);
  const bool wants_stacks = std::any_of(wanted.begin(), wanted.end(), [](DiffBy by) {
    return by == DiffBy::kStack || by == DiffBy::kLeak;
  });
  for (const std::string& path : paths) {
    of_file(path, [&] {
      const SnapshotReader snapshot = SnapshotReader::open(path);
      std::optional<ReferenceStreams> references;
      if (snapshot.has_references()) references = references_of(snapshot);
      std::optional<RecordedStacks> recorded;
      if (wants_stacks && snapshot.metadata().tracker) {
        recorded = snapshot.read_call_stacks();
        add_missing_names(snapshot.metadata(), *recorded, debug_files, sysroot);
      }
      builder.add({streams_of(snapshot), references ? &*references : nullptr,
                   recorded ? &*recorded : nullptr});
    });
  }
  return builder.finish();
}

NamedHistory read_history(const HistoryFiles& files, const TrendBounds& bounds) {
  GrowthHistoryBuilder builder(scope_of_files(files.paths));
  std::string why;
  for (const std::string& each : files.passed_over) builder.add_unread(each);
  for (const std::string& path : files.paths) {
    try {
      builder.add(SnapshotReader::open(path), path);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kBadInput) throw;
      why = error.subject() + ": " + error.why();
      builder.add_unread(why);
    }
  }
  if (builder.size() == 0) {
    throw Error(ErrorKind::kBadInput,
                "history" + (files.name.empty() ? std::string() : " of " + files.name),
                files.paths.empty() ? "there are no snapshots" : "no snapshot can be read: " + why,
                "collect some: heapsnap collect, or heapsnap attach PID");
  }
  NamedHistory named{files.name, builder.finish(bounds)};
  if (named.name.empty()) named.name = named.history.comm;
  return named;
}

}  // namespace heapsnap
