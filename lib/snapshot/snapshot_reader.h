// Reads a snapshot: metadata at once, the long columns as streams, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/address.h"
#include "heap/chunk.h"
#include "references/block_type.h"
#include "references/reference.h"
#include "references/root.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata.h"
#include "snapshot/page_runs.h"
#include "snapshot/slot_column.h"

namespace heapsnap {

class SnapshotReader {
 public:
  // Throws Error{kBadInput} when the file is no snapshot, was cut off, needs a newer reader, or its
  // metadata are damaged (checksums). Unknown sections are skipped. The long columns are checked
  // when they are read: the read_ functions throw Error{kBadInput} for damage too.
  //
  // What a reader returns is consistent: indices of arenas, segments and instances are in range,
  // mappings are in order, no chunk leaves the address space, sums of sizes do not overflow.
  static SnapshotReader open(const std::string& path);
  // The same over bytes, which must outlive the reader; for tests and fuzzing.
  static SnapshotReader from_bytes(std::span<const std::byte> bytes, const std::string& name);

  SnapshotReader(SnapshotReader&&) noexcept;
  SnapshotReader& operator=(SnapshotReader&&) noexcept;
  ~SnapshotReader();

  const SnapshotMetadata& metadata() const;
  uint64_t chunk_count() const;  // batches only, without mmapped chunks
  uint64_t file_size() const;

  // Gives each chunk to `sink`: batches in ascending order of address, then mmapped chunks.
  // May be called again. (Where a damaged target made segments overlap, so do the batches.)
  void read_chunks(ChunkSink& sink) const;

  // Runs of pages in the same state, in ascending order of address. Pages of which the snapshot
  // says nothing are in none.
  using PageRun = heapsnap::PageRun;
  void read_pages(const std::function<void(const PageRun&)>& receive) const;

  // Call stacks and their names; empty when the process was not tracked. Ids in them fit together;
  // the stack ids of chunks may be past their end in a damaged snapshot.
  RecordedStacks read_call_stacks() const;

  // Whether there are references, roots and types: metadata().references says why not.
  bool has_references() const;
  // The slots of runtimes that are blocks, page by page in ascending order of address; none where
  // there are no references. Used ones have the numbers behind those of all live chunks.
  void read_slots(const ReceiveSlots& receive) const;
  // The references of all blocks, in ascending order of their numbers; those of a block that has
  // very many may come in several batches, each of which begins with it. Targets are blocks, of
  // which there are metadata().references->blocks: compare that with the live chunks that
  // read_chunks() gives before you use a number for one of these.
  void read_references(ReferenceSink& sink) const;
  std::vector<RootPlace> read_root_places() const;
  // Roots, whose places are below `places`, the number of those.
  void read_roots(size_t places, const std::function<void(const Root&)>& receive) const;
  // What the numbers of types mean; number 0 is the unknown type.
  std::vector<BlockType> read_type_names() const;
  // In ascending order of blocks, each of which is one of the references'. Only those are there in
  // which addresses of blocks were.
  std::vector<SlackWords> read_slack_words() const;
  std::vector<UnusedWord> read_unused_words() const;
  std::vector<ContainerWords> read_containers() const;
  // The types of consecutive blocks, from a block on; those of which nothing is said are unknown.
  // Numbers are below `types`, the number of names.
  using ReceiveTypes = std::function<void(BlockNumber, std::span<const TypeNumber>)>;
  void read_block_types(size_t types, const ReceiveTypes& receive) const;

  // Whether memory was kept.
  bool has_contents() const;
  // Kept memory, in ascending order of address; nothing when the snapshot holds none.
  using ReceiveBytes = std::function<void(Address, std::span<const std::byte>)>;
  void read_contents(const ReceiveBytes& receive) const;
  // What of it lies in `range`, without reading the rest.
  void read_contents(const AddressRange& range, const ReceiveBytes& receive) const;

 private:
  struct State;
  explicit SnapshotReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace heapsnap
