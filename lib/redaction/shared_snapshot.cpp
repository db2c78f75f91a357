#include "redaction/shared_snapshot.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/block_facts.h"
#include "redaction/address_rebase.h"
#include "redaction/name_cut.h"
#include "redaction/shared_rows.h"
#include "snapshot/metadata_rows.h"
#include "snapshot/metadata_tables.h"
#include "snapshot/runtime_tables.h"
#include "tracker/table_layout.h"

namespace heapsnap {

namespace {

constexpr const char* kSharedWords =
    "reduced by heapsnap share: names of paths, hosts and users are cut, addresses are others than "
    "those of the process";
constexpr uint64_t kLeastPage = 512;  // that a snapshot may have

// A range of so many bytes; of one where they would leave the address space.
AddressRange range_of(Address begin, uint64_t bytes) {
  const Address end = begin + bytes;
  return {begin, end < begin || bytes == 0 ? begin + 1 : end};
}

// Counts the chunks of both times that they are read.
class ChunkProgress {
 public:
  ChunkProgress(uint64_t chunks, const SharingProgress& show) : total_(2 * chunks), show_(show) {}

  void add(size_t chunks) {
    done_ += chunks;
    if (show_) show_(done_, total_);
  }

 private:
  uint64_t done_ = 0;
  uint64_t total_;
  const SharingProgress& show_;
};

// Adds what chunks occupy.
class ChunkPlaces final : public ChunkSink {
 public:
  ChunkPlaces(AddressRebase& rebase, ChunkProgress& progress)
      : rebase_(rebase), progress_(progress) {}

  void on_batch(const ChunkBatch& batch) override {
    progress_.add(batch.sizes.size());
    uint64_t bytes = 0;
    for (const uint64_t size : batch.sizes) bytes += size;
    rebase_.add(range_of(batch.begin, bytes));
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    rebase_.add(range_of(chunk.mapping_begin, chunk.total));
    rebase_.add(range_of(chunk.chunk, chunk.size));
  }

 private:
  AddressRebase& rebase_;
  ChunkProgress& progress_;
};

// Passes chunks on, moved.
class MovedChunks final : public ChunkSink {
 public:
  MovedChunks(const AddressRebase& rebase, SharedRows& rows, ChunkProgress& progress,
              SnapshotWriter& writer)
      : rebase_(rebase), rows_(rows), progress_(progress), writer_(writer) {}

  void on_batch(const ChunkBatch& batch) override {
    progress_.add(batch.sizes.size());
    ChunkBatch moved = batch;
    moved.begin = rebase_(batch.begin);
    writer_.on_batch(moved);
  }
  void on_mmapped(const MmappedChunk& chunk) override { writer_.on_mmapped(rows_.plain(chunk)); }

 private:
  const AddressRebase& rebase_;
  SharedRows& rows_;
  ChunkProgress& progress_;
  SnapshotWriter& writer_;
};

class Sharing {
 public:
  Sharing(const SnapshotReader& snapshot, bool keeps_names, const SharingProgress& progress)
      : snapshot_(snapshot),
        progress_(snapshot.chunk_count(), progress),
        metadata_(snapshot.metadata()),
        recorded_(snapshot.read_call_stacks()),
        rebase_(metadata_.process.page_size),
        names_(keeps_names),
        rows_(rebase_, names_) {
    if (snapshot.has_references()) {
      count_blocks(streams_of(snapshot));  // throws unless the references are of these blocks
      places_ = snapshot.read_root_places();
      types_ = snapshot.read_type_names();
      containers_ = snapshot.read_containers();
    }
    find_modules();
    find_places();
    rebase_.lay_out();
  }

  SharedSnapshot write(const SnapshotOutput& output) {
    SnapshotWriter writer(output);
    MovedChunks chunks(rebase_, rows_, progress_, writer);
    snapshot_.read_chunks(chunks);
    write_pages(writer);
    if (metadata_.tracker) write_stacks(writer);
    if (snapshot_.has_references()) write_references(writer);
    SharedSnapshot shared;
    shared.bytes = writer.finish(shared_metadata());
    shared.pieces = rebase_.pieces();
    shared.folders = names_.folders();
    shared.files = names_.files();
    shared.thread_names = names_.thread_names();
    shared.names = names_.names();
    shared.notes = count_notes();
    shared.had_arguments = metadata_.process.command_line != metadata_.process.exe &&
                           !metadata_.process.command_line.empty();
    shared.had_contents = snapshot_.has_contents();
    return shared;
  }

 private:
  void find_modules() {
    const Process& process = metadata_.process;
    names_.thread(process.pid);
    for (const Thread& thread : metadata_.threads) names_.thread(thread.tid);
    names_.set_program(process.exe, process.comm);
    for (const Mapping& mapping : metadata_.mappings) {
      if (mapping.executable && !mapping.is_anonymous()) names_.add_module(mapping.path);
    }
    for (const MallocInstance& one : metadata_.heap.instances) names_.add_module(one.module);
    for (const Runtime& one : metadata_.runtimes.runtimes) names_.add_module(one.module);
    if (metadata_.tracker) {
      for (const TrackedModule& one : metadata_.tracker->modules) names_.add_module(one.path);
    }
    for (const RootPlace& place : places_) names_.add_module(place.module);
    for (const BlockType& type : types_) names_.add_module(type.module);
  }

  void find_places() {
    for (const Mapping& mapping : metadata_.mappings) rebase_.add(mapping.range);
    const HeapModel& heap = metadata_.heap;
    for (const HeapSegment& segment : heap.segments) rebase_.add(segment.range);
    for (const MallocInstance& one : heap.instances) add({one.main_arena, one.malloc_par});
    for (const Arena& arena : heap.arenas) add({arena.address, arena.top});
    for (const ThreadCache& cache : heap.thread_caches) add({cache.tcache});
    for (const Corruption& corruption : heap.corruptions) add({corruption.where});
    for (const Thread& thread : metadata_.threads) {
      if (!thread.registers) continue;
      add({thread.registers->instruction_pointer, thread.registers->stack_pointer,
           thread.registers->thread_pointer});
    }
    for (const Runtime& one : metadata_.runtimes.runtimes) add({one.place});
    for (const RuntimeArea& one : metadata_.runtimes.areas) rebase_.add(one.range);
    for (const RuntimeContext& one : metadata_.runtimes.contexts) add({one.at});
    if (const auto& tracker = metadata_.tracker) {
      add({tracker->directory});
      for (const TrackedModule& module : tracker->modules) rebase_.add(module.range);
      for (const AddressRange& range : tracker->memory) rebase_.add(range);
    }
    for (const CallNode& node : recorded_.stacks.nodes) {
      if (!is_interpreted(node.module, node.return_address)) add({node.return_address});
    }
    for (const SourceFrames::Place& place : recorded_.symbols.places()) {
      if (!is_interpreted(place.module, place.return_address)) add({place.return_address});
    }
    for (const RootPlace& place : places_) rebase_.add(range_of(place.begin, place.size));
    for (const ContainerWords& one : containers_) add({one.at});
    snapshot_.read_slots([this](const SlotPage& page) {
      rebase_.add(range_of(page.begin, uint64_t{page.slots} * page.slot_bytes));
    });
    ChunkPlaces chunks(rebase_, progress_);
    snapshot_.read_chunks(chunks);
    snapshot_.read_pages([this](const PageRun& run) { rebase_.add(run.range); });
  }

  void add(std::initializer_list<Address> addresses) {
    for (const Address address : addresses) rebase_.add(address);
  }

  void write_pages(SnapshotWriter& writer) const {
    const uint64_t page_size = metadata_.process.page_size;
    snapshot_.read_pages([&](const PageRun& run) {
      const AddressRange moved = rebase_(run.range);
      const bool is_whole = moved.begin.is_aligned(page_size) && moved.end.is_aligned(page_size);
      writer.on_page_run({moved, run.state}, is_whole ? page_size : kLeastPage);
    });
  }

  void write_stacks(SnapshotWriter& writer) {
    CallStacks stacks;
    for (const CallNode& node : recorded_.stacks.nodes) stacks.nodes.push_back(rows_.node(node));
    for (const AllocationSite& site : recorded_.stacks.sites) {
      stacks.sites.push_back(rows_.plain(site));
    }
    writer.on_call_stacks(stacks);
    writer.on_symbols(rows_.symbols(recorded_.symbols));
  }

  void write_references(SnapshotWriter& writer) {
    snapshot_.read_slots([&](const SlotPage& page) {
      SlotPage moved = page;
      moved.begin = rebase_(page.begin);
      writer.on_slots(moved);
    });
    snapshot_.read_references(writer);
    snapshot_.read_roots(places_.size(), [&](const Root& root) { writer.on_root(root); });
    std::vector<RootPlace> places;
    for (const RootPlace& place : places_) places.push_back(rows_.place(place));
    writer.on_root_places(places);
    snapshot_.read_block_types(types_.size(), [&](BlockNumber, std::span<const TypeNumber> types) {
      writer.on_block_types(types);
    });
    std::vector<BlockType> types;
    for (const BlockType& type : types_) types.push_back(rows_.type(type));
    writer.on_type_names(types);
    writer.on_slack_words(snapshot_.read_slack_words());
    writer.on_unused_words(snapshot_.read_unused_words());
    std::vector<ContainerWords> containers = containers_;
    for (ContainerWords& one : containers) one.at = rebase_(one.at);
    writer.on_containers(containers);
  }

  SnapshotMetadata shared_metadata() {
    SnapshotMetadata shared;
    CaptureRow capture{metadata_.writer, metadata_.heap.foreign_allocator,
                       metadata_.heap.foreign_answers_malloc};
    capture = rows_.plain(capture);
    shared.writer = capture.writer;
    shared.process = rows_.process(metadata_.process);
    if (metadata_.memory_left) shared.memory_left = rows_.plain(*metadata_.memory_left);
    shared.freeze = rows_.freeze(metadata_.freeze);
    for (const Thread& thread : metadata_.threads) {
      const ThreadRow row =
          rows_.plain(ThreadRow{thread.tid, thread.name, thread.registers.has_value(),
                                thread.registers.value_or(Registers{})});
      shared.threads.push_back({row.tid, row.name, std::nullopt});
      if (thread.registers) shared.threads.back().registers = row.registers;
    }
    for (const Mapping& mapping : metadata_.mappings) {
      shared.mappings.push_back(rows_.mapping(mapping));
    }
    shared.usage = metadata_.usage;
    shared.heap = shared_heap();
    shared.heap.foreign_allocator = capture.foreign_allocator;
    shared.heap.foreign_answers_malloc = capture.foreign_answers_malloc;
    shared.runtimes = shared_runtimes();
    if (metadata_.references) {
      shared.references = rows_.plain(ReferenceRow(*metadata_.references)).record();
    }
    if (metadata_.tracker) shared.tracker = rows_.tracker(*metadata_.tracker);
    shared.notes = {kSharedWords};
    return shared;
  }

  RuntimeModel shared_runtimes() {
    const RuntimeModel& model = metadata_.runtimes;
    RuntimeModel shared;
    for (const Runtime& one : model.runtimes) shared.runtimes.push_back(rows_.plain(one));
    for (const RuntimeClass& one : model.classes) shared.classes.push_back(rows_.plain(one));
    for (const RuntimeType& one : model.types) shared.types.push_back(rows_.plain(one));
    for (const RuntimePages& one : model.pages) shared.pages.push_back(rows_.plain(one));
    for (const RuntimeArea& one : model.areas) {
      shared.areas.push_back(rows_.plain(one));
      shared.areas.back().range = rebase_(one.range);
    }
    for (const RuntimeContext& one : model.contexts) shared.contexts.push_back(rows_.plain(one));
    return shared;
  }

  HeapModel shared_heap() {
    const HeapModel& heap = metadata_.heap;
    HeapModel shared;
    for (const MallocInstance& one : heap.instances) {
      shared.instances.push_back(rows_.plain(one));
      shared.instances.back().notes.clear();
    }
    for (const Arena& one : heap.arenas) shared.arenas.push_back(rows_.plain(one));
    for (const HeapSegment& one : heap.segments) {
      shared.segments.push_back(rows_.plain(one));
      shared.segments.back().range = rebase_(one.range);
    }
    for (const ThreadCache& one : heap.thread_caches) {
      shared.thread_caches.push_back(rows_.plain(one));
    }
    for (const Corruption& one : heap.corruptions) shared.corruptions.push_back(rows_.plain(one));
    return shared;
  }

  size_t count_notes() const {
    size_t notes = metadata_.notes.size() + metadata_.freeze.notes.size();
    for (const MallocInstance& one : metadata_.heap.instances) notes += one.notes.size();
    if (metadata_.tracker) notes += metadata_.tracker->notes.size();
    return notes;
  }

  const SnapshotReader& snapshot_;
  ChunkProgress progress_;
  const SnapshotMetadata& metadata_;
  RecordedStacks recorded_;
  std::vector<RootPlace> places_;
  std::vector<BlockType> types_;
  std::vector<ContainerWords> containers_;
  AddressRebase rebase_;
  NameCut names_;
  SharedRows rows_;
};

}  // namespace

SharedSnapshot share_snapshot(const SnapshotReader& snapshot, const SnapshotOutput& output,
                              bool keeps_names, const SharingProgress& progress) {
  return Sharing(snapshot, keeps_names, progress).write(output);
}

}  // namespace heapsnap
