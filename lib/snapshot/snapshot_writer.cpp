#include "snapshot/snapshot_writer.h"

#include <algorithm>

#include "base/error.h"
#include "snapshot/block_type_column.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/chunk_block.h"
#include "snapshot/container_table.h"
#include "snapshot/contents.h"
#include "snapshot/metadata_tables.h"
#include "snapshot/page_runs.h"
#include "snapshot/reference_block.h"
#include "snapshot/root_tables.h"
#include "snapshot/section_stream.h"
#include "snapshot/slack_words_table.h"
#include "snapshot/slot_column.h"
#include "snapshot/unused_words_table.h"

namespace heapsnap {
namespace {

constexpr size_t kFullTable = 1U << 20;

}  // namespace

struct SnapshotWriter::State {
  explicit State(const SnapshotOutput& output)
      : stream(output.path, output.overwrite, output.folder, output.file) {}

  void flush_mmapped() {
    if (mmapped.rows() == 0) return;
    mmapped.take(format::SectionKind::kMmappedChunks, mmapped_section);
    stream.add(mmapped_section);
  }

  SectionStream stream;
  ChunkBlockBuilder chunks{stream};
  PageRunBuilder pages{stream};
  ContentsBuilder contents{stream};
  SlotPageBuilder slots{stream};
  ReferenceBlockBuilder references{stream};
  RootTableWriter roots{stream};
  BlockTypeBuilder types{stream};
  TableBuilder mmapped{TableOf<MmappedChunk>::kName};
  Section mmapped_section;
  // What the metadata must have for the chunks to make sense.
  size_t arenas = 0;
  size_t segments = 0;
  size_t instances = 0;
};

SnapshotWriter::SnapshotWriter(const SnapshotOutput& output)
    : state_(std::make_unique<State>(output)) {}

SnapshotWriter::~SnapshotWriter() = default;

void SnapshotWriter::set_deferred(bool deferred) {
  state_->stream.set_deferred(deferred);
}

void SnapshotWriter::on_batch(const ChunkBatch& batch) {
  if (batch.sizes.empty()) return;
  if (batch.arena < 0 || batch.states.size() != batch.sizes.size()) {
    throw Error(ErrorKind::kInternal, "cannot write chunks", "the batch is not well formed");
  }
  state_->arenas = std::max(state_->arenas, static_cast<size_t>(batch.arena) + 1);
  state_->segments = std::max(state_->segments, size_t{batch.segment} + 1);
  state_->chunks.add(batch);
}

void SnapshotWriter::on_mmapped(const MmappedChunk& chunk) {
  state_->instances = std::max(state_->instances, size_t{chunk.instance} + 1);
  state_->mmapped.add(chunk);
  if (state_->mmapped.size() >= kFullTable) state_->flush_mmapped();
}

void SnapshotWriter::on_pages(Address first_page, uint64_t page_size,
                              std::span<const PageState> states) {
  state_->pages.add(first_page, page_size, states);
}

void SnapshotWriter::on_page_run(const PageRun& run, uint64_t page_size) {
  state_->pages.add(run, page_size);
}

void SnapshotWriter::on_contents(Address from, std::span<const std::byte> bytes) {
  state_->contents.add(from, bytes);
}

void SnapshotWriter::on_call_stacks(const CallStacks& stacks) {
  write_call_stacks(stacks, state_->stream);
}

void SnapshotWriter::on_symbols(const SourceFrames& symbols) {
  write_symbols(symbols, state_->stream);
}

void SnapshotWriter::on_slots(const SlotPage& page) {
  state_->slots.add(page);
}

void SnapshotWriter::on_references(const ReferenceBatch& batch) {
  if (batch.first != state_->references.blocks() && !state_->references.continues(batch)) {
    throw Error(ErrorKind::kInternal, "cannot write references", "some blocks were left out");
  }
  state_->references.add(batch);
}

uint64_t SnapshotWriter::references() const {
  return state_->references.references();
}

void SnapshotWriter::on_root(const Root& root) {
  state_->roots.add(root);
}

void SnapshotWriter::on_root_places(std::span<const RootPlace> places) {
  state_->roots.finish(places);
}

void SnapshotWriter::on_block_types(std::span<const TypeNumber> types) {
  state_->types.add(types);
}

void SnapshotWriter::on_type_names(std::span<const BlockType> types) {
  state_->types.finish(types);
}

void SnapshotWriter::on_slack_words(std::span<const SlackWords> words) {
  if (!words.empty()) write_slack_words(words, state_->stream);
}

void SnapshotWriter::on_unused_words(std::span<const UnusedWord> words) {
  if (!words.empty()) write_unused_words(words, state_->stream);
}

void SnapshotWriter::on_containers(std::span<const ContainerWords> words) {
  if (!words.empty()) write_containers(words, state_->stream);
}

uint64_t SnapshotWriter::finish(const SnapshotMetadata& metadata) {
  const HeapModel& heap = metadata.heap;
  if (heap.arenas.size() < state_->arenas || heap.segments.size() < state_->segments ||
      heap.instances.size() < state_->instances) {
    throw Error(ErrorKind::kInternal, "cannot finish the snapshot",
                "chunks were written of an arena, segment or malloc that is not in the metadata");
  }
  state_->chunks.flush();
  state_->flush_mmapped();
  state_->pages.flush();
  state_->contents.flush();
  state_->slots.flush();
  state_->references.flush();
  write_metadata(metadata, state_->stream);
  return state_->stream.finish();
}

}  // namespace heapsnap
