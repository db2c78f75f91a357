// The passes that look at every word of the target's memory for addresses of blocks: references,
// roots and types.
//
//   before the freeze   its modules are opened
//   in the freeze       each chunk of the walk goes into a map of blocks; take() looks at all words
//   after it            finish() finds names of variables, functions and classes in files
//
// They take longest, and what the snapshot holds without them is already written, so they are left
// out where they would cost too much, and given up when they do:
//
//   asked for   auto: where they are estimated to take less than a second, and the target runs
//               meanwhile; yes; no
//   memory      each page that the target writes to while its copy lives takes one more, and the
//               passes need some, too. When free memory has fallen by the budget, they are given
//               up; who owns the copy may know earlier what was copied (give_up()).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "elf/debug_file_search.h"
#include "heap/chunk.h"
#include "heap/heap_model.h"
#include "heap/located_malloc.h"
#include "references/apart_scan.h"
#include "references/block_edges.h"
#include "references/block_map.h"
#include "references/container_storage.h"
#include "references/loaded_modules.h"
#include "references/object_references.h"
#include "references/reference_record.h"
#include "references/reference_scan.h"
#include "references/root_names.h"
#include "references/root_regions.h"
#include "references/runtime_objects.h"
#include "references/side_work.h"
#include "references/stack_frames.h"
#include "snapshot/snapshot_writer.h"
#include "target/target.h"
#include "tools/capture/capture_choice.h"
#include "tools/capture/debug_type_capture.h"
#include "tools/capture/memory_budget.h"
#include "tools/capture/type_entries.h"

namespace heapsnap {

struct ReferenceOptions {
  CaptureChoice choice = CaptureChoice::kAuto;
  std::optional<uint64_t> memory_budget;  // bytes; none: a tenth of what is free
  // Bytes of blocks that were looked at and that there are; may be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

class ReferenceCapture final : public ChunkSink {
 public:
  // `pid`: of the process whose limits count; 0 for a core.
  ReferenceCapture(const ReferenceOptions& options, int pid, const DebugFileSearch& debug_files);
  ~ReferenceCapture() override;

  // Opens the modules of the process, if references may be wanted. Reads files.
  void prepare(Target& running);
  // Those that prepare() opened: none, or all.
  const LoadedModules& modules() const { return modules_; }
  // From now on `target` is read, which outlives this. `is_held`: it stands still meanwhile.
  void begin(Target& target, bool is_held);

  // Each chunk of the walk.
  void on_batch(const ChunkBatch& batch) override {
    if (!map_) return;
    try {
      map_->on_batch(batch);
    } catch (const std::bad_alloc&) {
      return lack_memory();
    }
    counted_ += static_cast<uint64_t>(std::ranges::count_if(batch.states, is_live));
    if (counted_ > most_blocks_) leave_out();
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    try {
      if (map_) map_->on_mmapped(chunk);
    } catch (const std::bad_alloc&) {
      lack_memory();
    }
  }

  // Where the walks of language runtimes put what references need; null: nothing will be taken.
  RuntimeObjects* objects() { return map_ ? &objects_ : nullptr; }
  // Bytes that may be spent, from begin() on; none: nothing will be taken.
  std::optional<uint64_t> budget() const;
  // After the walk. Throws only if the target is gone; then, or after a return, give_up() may
  // follow: what was taken is void.
  void take(const HeapModel& heap, const MemoryTaken& taken, SnapshotWriter& writer);
  // `why`: one clause.
  void give_up(std::string why);
  // Writes what has names, and gives what was done. Reads files, and nothing of the target but what
  // it is. `notes` gets what was left out meanwhile. May give up.
  ReferenceRecord finish(SnapshotWriter& writer, std::vector<std::string>& notes);

 private:
  // Gives up, and all memory back that is not needed for the rest.
  void lack_memory();

  void check_budget();
  void decide(bool is_held);
  void check_estimate() const;
  void leave_out();
  // Whether a second thread can help.
  bool has_work_for_two() const;
  void scan(const HeapModel& heap, const MemoryTaken& taken, SnapshotWriter& writer);
  void scan_roots();
  void find_outer_variables();
  // Whether the word is a variable's: then it is that one's root.
  bool is_variable(const FoundWord& word);
  void add_objects(SnapshotWriter& writer);
  void add_destroyed_objects();
  void leave_out_objects_at_work();
  void look_for_debug_types();
  RootContext root_context() const;
  void write_block_types(std::vector<BlockType> names, SnapshotWriter& writer);
  void count(const ScannedMemory& scanned);
  void write_roots(SnapshotWriter& writer);

  ReferenceOptions options_;
  int pid_;
  const DebugFileSearch& debug_files_;
  Target* target_ = nullptr;
  std::optional<MemoryBudget> budget_;
  std::optional<BlockMap> map_;  // none: nothing is taken
  uint64_t counted_ = 0;         // blocks of the walk so far, without mmapped ones
  uint64_t most_blocks_ = 0;     // that are taken
  ReferenceRecord record_;

  LoadedModules modules_;
  RootRegions regions_;
  std::vector<ThreadFrames> stacks_;
  std::vector<RegisterWord> registers_;  // those that hold addresses in blocks
  std::vector<Root> roots_;              // of the words, then of the registers; without places
  std::vector<RootWord> words_;

  RuntimeObjects objects_;
  std::unique_ptr<ObjectReferences> object_references_;  // null: there are no objects
  // Words of local variables that lie in no block; ascending, with indices into those.
  std::vector<std::pair<Address, uint32_t>> outer_variables_;
  std::vector<Root> variables_;  // of the runtimes: `place` is an index into objects_.variables

  TypeEntries types_;
  LargeArray<TypeNumber> entry_of_block_;
  std::vector<BlockNumber> destroyed_;    // blocks whose objects are
  std::vector<std::string> left_out_;     // a line each
  LargeArray<uint8_t> storage_of_block_;  // StorageKind; empty: not looked for
  std::vector<SlackWords> slack_words_;
  std::vector<UnusedWord> unused_words_;
  std::vector<ContainerWords> containers_;
  std::optional<BlockEdges> edges_;  // none: nobody asks for them
  std::unique_ptr<DebugTypeCapture> debug_types_;
  std::unique_ptr<ContainerStorage> storage_;  // null: not looked for
  std::optional<SideWork> sizes_;              // of blocks: takes edges_ and map_ until it ends
};

}  // namespace heapsnap
