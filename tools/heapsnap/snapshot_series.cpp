#include "tools/heapsnap/snapshot_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analysis/growth_history.h"
#include "analysis/program_build.h"
#include "analysis/program_groups.h"
#include "base/error.h"
#include "report/shell_word.h"
#include "target/shared_process.h"
#include "tools/heapsnap/snapshot_argument.h"
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

struct ReadProcesses {
  std::vector<Process> processes;
  std::vector<std::string> paths;   // of the snapshots, as `processes`
  std::vector<std::string> unread;  // paths of those that cannot be read
};

ReadProcesses processes_in(const std::vector<std::string>& paths) {
  ReadProcesses read;
  for (const std::string& path : paths) {
    try {
      read.processes.push_back(SnapshotReader::open(path).metadata().process);
      read.paths.push_back(path);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kBadInput) throw;
      read.unread.push_back(path);
    }
  }
  return read;
}

void refuse_shared(const SnapshotReader& snapshot, const std::string& path) {
  if (!is_shared(snapshot.metadata().process)) return;
  throw Error(ErrorKind::kUnsupported, path,
              "heapsnap share has replaced its addresses, in each snapshot by others: they say "
              "nothing about age",
              "give the snapshots that were not reduced, or see what grew: heapsnap diff");
}

// Throws Error unless the addresses of both tell how old a block of the second is.
void require_series(const SnapshotReader& before, const std::string& path_before,
                    const SnapshotReader& after, const std::string& path_after) {
  const std::string both = fmt::format("{} and {}", path_before, path_after);
  const auto refuse = [&](const char* why, const char* purpose) {
    throw Error(ErrorKind::kUnsupported, both, why,
                fmt::format("{}: heapsnap diff {} {}", purpose, shell_word(path_before, "FILE"),
                            shell_word(path_after, "FILE")));
  };
  const SnapshotMetadata& first = before.metadata();
  const SnapshotMetadata& then = after.metadata();
  if (!is_same_process(first.process, then.process)) {
    refuse("they are not of the same process: addresses say nothing about age",
           "to see what grew from one process to the other");
  }
  if (is_started_anew(then.process.exe, first.mappings, then.mappings)) {
    refuse(
        "the program was started anew in between, at other addresses: these say nothing about age",
        "to see what grew all the same");
  }
  if (then.process.taken_at_ns < first.process.taken_at_ns) {
    throw Error(ErrorKind::kUsage, both, "the second was taken before the first",
                "name the oldest snapshot first");
  }
}

}  // namespace

std::vector<SnapshotReader> open_series(const std::vector<std::string>& paths,
                                        const std::string& command) {
  std::vector<SnapshotReader> snapshots;
  for (const std::string& path : paths) {
    snapshots.push_back(open_snapshot(path, command));
    if (paths.size() > 1) refuse_shared(snapshots.back(), path);
  }
  for (size_t i = 1; i < paths.size(); ++i) {
    require_series(snapshots[i - 1], paths[i - 1], snapshots[i], paths[i]);
  }
  return snapshots;
}

std::vector<DiffBy> all_sums() {
  std::vector<DiffBy> all;
  for (int i = 0; i < kDiffByCount; ++i) all.push_back(static_cast<DiffBy>(i));
  return all;
}

SnapshotDiff read_diff(const std::vector<std::string>& paths, std::vector<DiffBy> wanted,
                       const PassedFrames& passed, const std::string& sysroot) {
  // Names are compared as all of the snapshots allow.
  std::vector<Process> processes;
  ThreadNames threads = ThreadNames::kKnown;
  bool has_objects = false;
  bool has_contexts = false;
  for (const std::string& path : paths) {
    const SnapshotReader snapshot = SnapshotReader::open(path);
    processes.push_back(snapshot.metadata().process);
    if (thread_names_of(snapshot.metadata()) == ThreadNames::kUnknown) {
      threads = ThreadNames::kUnknown;
    }
    has_objects |= !snapshot.metadata().runtimes.classes.empty();
    has_contexts |= !snapshot.metadata().runtimes.contexts.empty();
  }
  if (wanted.size() > 1 && !has_objects) std::erase(wanted, DiffBy::kClass);
  if (wanted.size() > 1 && !has_contexts) std::erase(wanted, DiffBy::kContext);
  SnapshotDiffBuilder builder(wanted, scope_of(processes), passed, threads);
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

std::vector<HistoryFiles> split_by_program(const HistoryFiles& files) {
  const ReadProcesses read = processes_in(files.paths);
  const std::vector<size_t> groups = group_by_program(read.processes);
  if (groups.empty()) return {files};
  std::vector<HistoryFiles> result(*std::max_element(groups.begin(), groups.end()) + 1);
  for (size_t i = 0; i < groups.size(); ++i) result[groups[i]].paths.push_back(read.paths[i]);
  auto& last = result.back();
  last.paths.insert(last.paths.end(), read.unread.begin(), read.unread.end());
  last.passed_over = files.passed_over;
  return result;
}

NamedHistory read_history(const HistoryFiles& files, const TrendBounds& bounds) {
  GrowthHistoryBuilder builder(scope_of(processes_in(files.paths).processes));
  std::string why;
  std::string remedy;
  for (const std::string& each : files.passed_over) builder.add_unread(why = each);
  for (const std::string& path : files.paths) {
    try {
      builder.add(SnapshotReader::open(path), path);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kBadInput) throw;
      why = error.subject() + ": " + error.why();
      remedy = error.remedy();
      builder.add_unread(why);
    }
  }
  if (builder.size() == 0) {
    throw Error(ErrorKind::kBadInput,
                "history" + (files.name.empty() ? std::string() : " of " + files.name),
                why.empty() ? "there are no snapshots" : "no snapshot can be read: " + why,
                remedy.empty() ? "collect some: heapsnap collect, or heapsnap attach PID" : remedy);
  }
  NamedHistory named{files.name, builder.finish(bounds)};
  if (named.name.empty()) named.name = named.history.comm;
  return named;
}

}  // namespace heapsnap
