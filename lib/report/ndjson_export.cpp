#include "report/ndjson_export.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "report/digits.h"
#include "report/json_writer.h"
#include "report/number_text.h"
#include "report/stack_frames.h"

namespace heapsnap {

namespace {

void write_first_line(const SnapshotMetadata& metadata, Writer& out) {
  const Process& process = metadata.process;
  JsonWriter json(out);
  json.begin_object();
  json.member("kind", "snapshot");
  json.member("version", 1);
  json.member("writer", metadata.writer);
  json.member("pid", process.pid);
  json.member("comm", process.comm);
  json.member("exe", process.exe);
  json.member("host", process.hostname);
  json.member("boot_id", process.boot_id);
  json.member("start_time", process.start_time_ticks);
  std::string version;
  const char* discovery = to_string(DiscoveryStrategy::kNone);
  if (!metadata.heap.instances.empty()) {
    const MallocInstance& first = metadata.heap.instances.front();
    version = version_text(first.version);
    discovery = to_string(first.strategy);
    json.member("build_id", first.build_id);
  }
  json.member("glibc", version);
  json.member("discovery", discovery);
  json.member("freeze", to_string(metadata.freeze.method));
  json.member("pause_us", metadata.freeze.pause_ns / 1000);
  json.member("rss", process.rss);
  json.member("swap", process.swap);
  json.member("taken_at", time_text(process.taken_at_ns));
  json.member("arenas", metadata.heap.arenas.size());
  json.member("corruptions", metadata.heap.corruptions.size());
  json.end_object();
  out.write("\n");
}

class ChunkLines final : public ChunkSink {
 public:
  ChunkLines(unsigned word, const ExplainedBlocks* blocks, Writer& out)
      : word_(word), blocks_(blocks), out_(out) {}

  void on_batch(const ChunkBatch& batch) override {
    make_endings(batch.arena);
    Address chunk = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      const ChunkState state = batch.states[i];
      const uint32_t stack = batch.stacks.empty() ? 0 : batch.stacks[i];
      put_line(chunk, batch.sizes[i], usable_bytes(batch.sizes[i], state, word_), state, stack,
               batch.slacks.empty() ? 0 : batch.slacks[i]);
      chunk += batch.sizes[i];
    }
  }

  void on_mmapped(const MmappedChunk& chunk) override {
    make_endings(-1);
    put_line(chunk.chunk, chunk.size, chunk.usable, chunk.state, chunk.stack, chunk.slack);
  }

 private:
  // What follows the numbers is the same for all chunks of an arena in one state.
  void make_endings(int32_t arena) {
    if (arena == arena_ && !endings_[0].empty()) return;
    arena_ = arena;
    for (int state = 0; state < kChunkStateCount; ++state) {
      endings_[static_cast<size_t>(state)] = std::string(",\"state\":\"") +
                                             to_string(static_cast<ChunkState>(state)) +
                                             "\",\"arena\":" + std::to_string(arena) + "}\n";
    }
  }

  void put_line(Address chunk, uint64_t size, uint64_t usable, ChunkState state, uint32_t stack,
                unsigned slack) {
    const size_t ending = std::min(static_cast<size_t>(state), endings_.size() - 1);
    char* at = out_.reserve(300);  // seven numbers of 20 digits and 120 characters at most
    at = put_text(at, "{\"kind\":\"chunk\",\"addr\":\"0x");
    at = put_hex(at, (chunk + 2 * word_).value());
    at = put_text(at, "\",\"size\":");
    at = put_decimal(at, size);
    at = put_text(at, ",\"usable\":");
    at = put_decimal(at, usable);
    if (stack != 0) {
      at = put_text(at, ",\"stack\":");
      at = put_decimal(at, stack);
      at = put_text(at, ",\"slack\":");
      at = put_decimal(at, slack);
    }
    if (blocks_ != nullptr && is_live(state)) at = put_explanation(at);
    at = put_text(at, endings_[ending]);
    out_.commit(at);
  }

  char* put_explanation(char* at) {
    if (next_ >= blocks_->blocks()) return at;
    const BlockNumber block = next_++;
    if (blocks_->is_mallocs_own(block)) at = put_text(at, ",\"mallocs_own\":true");
    if (const TypeNumber type = blocks_->type_of(block); type != 0) {
      at = put_decimal(put_text(at, ",\"type\":"), type);
    }
    if (const uint32_t owner = blocks_->owner_of(block); owner != 0) {
      at = put_decimal(put_text(at, ",\"owner\":"), owner);
    }
    return blocks_->is_leaked(block) ? put_text(at, ",\"leaked\":true") : at;
  }

  unsigned word_;
  const ExplainedBlocks* blocks_;
  BlockNumber next_ = 0;
  Writer& out_;
  int32_t arena_ = 0;
  std::array<std::string, kChunkStateCount> endings_;
};

void write_stack_line(const RecordedStacks& recorded, const TrackerRecord& tracker, uint32_t id,
                      Writer& out) {
  const AllocationSite& site = recorded.stacks.sites[id];
  JsonWriter json(out);
  json.begin_object();
  json.member("kind", "stack");
  json.member("stack", id);
  json.member("sample_bytes", site.sample_bytes);
  json.member("allocations", site.allocation_count());
  json.member("frees", site.free_count());
  json.member("allocated_bytes", site.allocated_bytes);
  json.member("freed_bytes", site.freed_bytes);
  StackEnd end{};
  const auto frames = named_frames(recorded, tracker, site.node, end);
  json.key("frames");
  json.begin_array();
  for (const NamedFrame& frame : frames) write_json_frame(json, frame);
  json.end_array();
  json.member("end", to_string(end));
  json.end_object();
  out.write("\n");
}

void write_type_and_owner_lines(const std::vector<BlockType>& types,
                                const std::vector<std::string>& owners, Writer& out) {
  for (TypeNumber type = 1; type < types.size(); ++type) {
    JsonWriter json(out);
    json.begin_object();
    json.member("kind", "type");
    json.member("type", type);
    json.member("name", types[type].name);
    json.member("module", types[type].module);
    json.member("source", to_string(types[type].source));
    json.end_object();
    out.write("\n");
  }
  for (size_t owner = 1; owner < owners.size(); ++owner) {
    JsonWriter json(out);
    json.begin_object();
    json.member("kind", "owner");
    json.member("owner", owner);
    json.member("name", owners[owner]);
    json.end_object();
    out.write("\n");
  }
}

}  // namespace

void export_ndjson(const SnapshotStreams& streams, const ExplainedBlocks* blocks, Writer& out) {
  write_first_line(*streams.metadata, out);
  ChunkLines lines(word_size(streams.metadata->process.machine), blocks, out);
  streams.read_chunks(lines);
}

void export_ndjson(const SnapshotReader& reader, Writer& out) {
  const auto& tracker = reader.metadata().tracker;
  RecordedStacks recorded;  // read first: a damaged snapshot is refused before a line is written
  if (tracker) recorded = reader.read_call_stacks();
  std::optional<ReferenceStreams> references;
  std::optional<ExplainedBlocks> blocks;
  if (reader.has_references()) {
    references = references_of(reader);
    blocks.emplace(streams_of(reader), *references, NameScope::kOneBuild);
  }
  export_ndjson(streams_of(reader), blocks ? &*blocks : nullptr, out);
  for (uint32_t id = 1; id < recorded.stacks.sites.size(); ++id) {
    write_stack_line(recorded, *tracker, id, out);
  }
  if (blocks) write_type_and_owner_lines(references->types, blocks->owner_names(), out);
}

}  // namespace heapsnap
