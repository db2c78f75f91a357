// Writes a snapshot front to back; see docs/snapshot-format.md for the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/address.h"
#include "heap/chunk.h"
#include "references/block_type.h"
#include "references/reference.h"
#include "references/root.h"
#include "references/slot_map.h"
#include "snapshot/metadata.h"
#include "snapshot/page_runs.h"
#include "target/page_residency.h"
#include "tracking/call_stacks.h"
#include "tracking/source_frames.h"

namespace heapsnap {

struct SnapshotOutput {
  std::string path;        // "-": standard output
  bool overwrite = false;  // replace an existing file
  int folder = -1;         // a descriptor of the folder, if not by `path`; see OutputFile
  int file = -1;           // a file to be written to; `path` is then its folder; see OutputFile
};

class SnapshotWriter final : public ChunkSink, public ReferenceSink {
 public:
  // Creates a temporary file beside `path`, mode 0600, O_EXCL | O_NOFOLLOW. Throws Error{kUsage}
  // when `path` exists and may not be overwritten or is a symlink, Error{kOutput} when the folder
  // cannot be written.
  explicit SnapshotWriter(const SnapshotOutput& output);
  ~SnapshotWriter() override;  // without finish(): the temporary file is removed

  // While deferred, blocks are kept raw (in memory, past 16 MiB in an unlinked temporary file) and
  // nothing is compressed: for the time in which the target is stopped. Leaving compresses them.
  void set_deferred(bool deferred);

  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk& chunk) override;
  // Page states of consecutive pages, in ascending order of address over all calls.
  void on_pages(Address first_page, uint64_t page_size, std::span<const PageState> states);
  // The same of pages that are all in one state, by a reader's runs.
  void on_page_run(const PageRun& run, uint64_t page_size);
  // Memory contents, in ascending order of address over all calls.
  void on_contents(Address from, std::span<const std::byte> bytes);

  // The call stacks that chunks name by their ids, of a tracked process. Once.
  void on_call_stacks(const CallStacks& stacks);
  // What they mean in the source, where that is known already. Once.
  void on_symbols(const SourceFrames& symbols);

  // The slots of runtimes that are blocks, behind those of malloc: pages in ascending order.
  void on_slots(const SlotPage& page);
  // References of all blocks, in ascending order of their numbers. A block may come in several
  // batches, as from a reader: the next one begins with it again.
  void on_references(const ReferenceBatch& batch) override;
  uint64_t references() const;  // so far
  // Their roots, and then, once, the places that these name.
  void on_root(const Root& root);
  void on_root_places(std::span<const RootPlace> places);
  // The types of the next blocks, and then, once, what their numbers mean.
  void on_block_types(std::span<const TypeNumber> types);
  void on_type_names(std::span<const BlockType> types);
  // Ascending, each block once; more than 4 million are cut off.
  void on_slack_words(std::span<const SlackWords> words);
  void on_unused_words(std::span<const UnusedWord> words);
  // Ascending, each once; none of more than 4 million is kept.
  void on_containers(std::span<const ContainerWords> words);

  // Writes metadata and index, syncs, and puts the file under its final name. Returns its size in
  // bytes. Throws Error{kOutput} (disk full) and leaves nothing behind.
  uint64_t finish(const SnapshotMetadata& metadata);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heapsnap
