// What a capture does in addition when the process is tracked: read the tracker's tables in the
// same freeze as the heap, give each chunk its stack, and find names for the stacks afterwards.
//
//   before the freeze   find_tracker     are there tables, and where
//   in the freeze       TrackedWalk      tables are copied, chunks get their stacks
//   after it            name_stacks      files are opened, nothing of the target is read any more
//
// A process that is not tracked costs one look at its mappings, before the freeze.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elf/debug_file_search.h"
#include "heap/chunk.h"
#include "target/target.h"
#include "tracking/live_slots.h"
#include "tracking/source_frames.h"
#include "tracking/tracking_reader.h"

namespace heapsnap {

// Where the tracker's tables are. Nothing when the process is not tracked, or by a tracker of
// another version: then a note says so.
std::optional<Address> find_tracker(Target& target, std::vector<std::string>& notes);

// Gives each chunk in use its stack on the way to another sink.
class TrackedWalk final : public ChunkSink {
 public:
  // Reads the tables. `now_ns`: see read_tracking(). Throws as it does.
  TrackedWalk(Target& target, Address directory, uint64_t now_ns, ChunkSink& next);

  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk& chunk) override;

  Tracking& tracking() { return tracking_; }

 private:
  ChunkSink& next_;
  unsigned header_;  // from a chunk to what malloc returned
  Tracking tracking_;
  LiveSlots slots_;
  std::vector<Address> blocks_;  // in use, of a batch
  std::vector<uint32_t> found_;
  std::vector<uint32_t> stacks_;
  std::vector<uint8_t> slacks_;
};

// Opens the file at a path as the target sees it, also one that it has not mapped.
using OpenPath = std::function<std::optional<MappedFile>(const std::string& path)>;

// Those of a process that runs, and those below a folder.
OpenPath paths_of_process(int pid);
OpenPath paths_below(const std::string& sysroot);

// The names of the threads of process `pid` that live, as the kernel has them. The tracker, which
// may be in another pid namespace, knows them by other tids.
void name_threads(const std::vector<Thread>& threads, int pid, TrackerRecord& record);

// The names of all frames. Modules without a path (the program, by old loaders) get that of their
// mapping. A library that was unloaded is looked for by `open_path`, and taken only when its
// build-id says that it is the one.
SourceFrames name_stacks(Target& target, Tracking& tracking, const DebugFileSearch& debug_files,
                         const OpenPath& open_path);
// Those of some stacks of a process that runs, by the files that it has mapped; no debug files of
// servers are asked for. The other frames of `tracking` lose their modules.
SourceFrames names_of_stacks(Target& target, int pid, Tracking& tracking,
                             std::span<const uint32_t> stacks);

}  // namespace heapsnap
