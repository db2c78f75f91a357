#include "report/ndjson_flat.h"

#include <array>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "analysis/block_owners.h"
#include "base/file_name.h"
#include "report/digits.h"
#include "report/json_writer.h"
#include "report/ndjson_export.h"
#include "report/number_text.h"
#include "report/stack_identity.h"
#include "tracker/table_layout.h"

namespace heapsnap {

namespace {

constexpr size_t kDateDigits = 10;  // of a time's text
constexpr int64_t kNanosecondsPerMillisecond = 1'000'000;

std::string json_text(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return quoted;
}

std::string text_or_null(std::string_view text) {
  return text.empty() ? "null" : json_text(text);
}

// What all rows of a snapshot begin with.
std::string row_head(const Process& process) {
  const std::string start =
      process.start_time_ticks == 0 ? "null" : std::to_string(process.start_time_ticks);
  return "{\"date\":" + json_text(time_text(process.taken_at_ns).substr(0, kDateDigits)) +
         ",\"host\":" + json_text(process.hostname) +
         ",\"boot_id\":" + text_or_null(process.boot_id) +
         ",\"pid\":" + std::to_string(process.pid) + ",\"start_time\":" + start +
         ",\"exe\":" + json_text(process.exe) + ",\"build_id\":" + text_or_null(process.build_id) +
         ",\"taken_at_ms\":" + std::to_string(process.taken_at_ns / kNanosecondsPerMillisecond);
}

// Of each stack id.
std::vector<std::string> stack_identities(const SnapshotMetadata& metadata,
                                          const RecordedStacks& recorded) {
  std::vector<std::string> identities(1);
  for (size_t id = 1; id < recorded.stacks.sites.size(); ++id) {
    identities.push_back(
        identity_text(stack_identity(frames_of_stack(recorded, *metadata.tracker, id))));
  }
  return identities;
}

class FlatRows final : public ChunkSink {
 public:
  FlatRows(const SnapshotMetadata& metadata, std::vector<std::string> stacks,
           const ExplainedBlocks* blocks, const std::vector<BlockType>* types, Writer& out)
      : word_(word_size(metadata.process.machine)),
        head_(row_head(metadata.process)),
        stacks_(std::move(stacks)),
        blocks_(blocks),
        out_(out) {
    if (blocks_ == nullptr) return;
    for (const BlockType& type : *types) types_.push_back(text_or_null(type.name));
    for (const std::string& name : blocks_->owner_names()) owners_.push_back(text_or_null(name));
  }

  void on_batch(const ChunkBatch& batch) override {
    Address chunk = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      const ChunkState state = batch.states[i];
      const uint64_t size = batch.sizes[i];
      put({batch.arena, chunk + 2 * word_, size, usable_bytes(size, state, word_), state,
           batch.stacks.empty() ? 0 : batch.stacks[i],
           batch.slacks.empty() ? uint8_t{0} : batch.slacks[i]});
      chunk += size;
    }
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    put({-1, chunk.chunk + 2 * word_, chunk.size, chunk.usable, chunk.state, chunk.stack,
         chunk.slack});
  }

 private:
  struct Row {
    int32_t arena;
    Address address;
    uint64_t size;
    uint64_t usable;
    ChunkState state;
    uint32_t stack;
    uint8_t slack;
  };

  void put(const Row& row) {
    out_.write(head_);
    char* at = out_.reserve(200);  // five numbers of 20 digits and 62 characters at most
    at = put_text(at, ",\"arena\":");
    at = row.arena < 0 ? put_text(at, "-1") : put_decimal(at, static_cast<uint64_t>(row.arena));
    at = put_text(at, ",\"address\":");
    at = put_decimal(at, row.address.value());
    at = put_text(at, ",\"size\":");
    at = put_decimal(at, row.size);
    at = put_text(at, ",\"usable\":");
    at = put_decimal(at, row.usable);
    at = put_text(at, ",\"state\":\"");
    at = put_text(at, to_string(row.state));
    at = put_text(at, "\",\"requested\":");
    const bool has_stack = row.stack != 0 && row.stack < stacks_.size();
    if (has_stack && row.slack < tracker::kSlackUnknown && row.slack <= row.usable) {
      at = put_decimal(at, row.usable - row.slack);
    } else {
      at = put_text(at, "null");
    }
    out_.commit(at);
    out_.write(",\"stack_id\":");
    if (has_stack) {
      out_.write("\"");
      out_.write(stacks_[row.stack]);
      out_.write("\"");
    } else {
      out_.write("null");
    }
    put_explanation(row);
  }

  void put_explanation(const Row& row) {
    if (blocks_ == nullptr || !is_live(row.state) || next_ >= blocks_->blocks()) {
      out_.write(",\"type\":null,\"owner\":null,\"leaked\":null}\n");
      return;
    }
    const BlockNumber block = next_++;
    const TypeNumber type = blocks_->type_of(block);
    out_.write(",\"type\":");
    out_.write(type < types_.size() ? std::string_view(types_[type]) : "null");
    out_.write(",\"owner\":");
    out_.write(owners_[blocks_->owner_of(block)]);
    if (blocks_->is_mallocs_own(block)) {
      out_.write(",\"leaked\":null}\n");  // no block of the program
    } else {
      out_.write(blocks_->is_leaked(block) ? ",\"leaked\":true}\n" : ",\"leaked\":false}\n");
    }
  }

  unsigned word_;
  std::string head_;
  std::vector<std::string> stacks_;
  const ExplainedBlocks* blocks_;
  std::vector<std::string> types_;   // as JSON, by number
  std::vector<std::string> owners_;  // the same
  BlockNumber next_ = 0;
  Writer& out_;
};

}  // namespace

void export_ndjson_flat(const SnapshotStreams& streams, const RecordedStacks* recorded,
                        const ReferenceStreams* references, Writer& out) {
  const SnapshotMetadata& metadata = *streams.metadata;
  std::vector<std::string> stacks;
  if (recorded != nullptr && metadata.tracker) stacks = stack_identities(metadata, *recorded);
  std::optional<ExplainedBlocks> blocks;
  if (references != nullptr) blocks.emplace(streams, *references, NameScope::kSeveralBuilds);
  FlatRows rows(metadata, std::move(stacks), blocks ? &*blocks : nullptr,
                references == nullptr ? nullptr : &references->types, out);
  streams.read_chunks(rows);
}

void export_ndjson_flat(const SnapshotReader& reader, Writer& out) {
  std::optional<RecordedStacks> recorded;
  if (reader.metadata().tracker) recorded = reader.read_call_stacks();
  std::optional<ReferenceStreams> references;
  if (reader.has_references()) references = references_of(reader);
  export_ndjson_flat(streams_of(reader), recorded ? &*recorded : nullptr,
                     references ? &*references : nullptr, out);
}

void export_ndjson_frames(const SnapshotMetadata& metadata, const RecordedStacks& recorded,
                          Writer& out) {
  if (!metadata.tracker) return;
  std::unordered_set<uint64_t> written;
  for (size_t id = 1; id < recorded.stacks.sites.size(); ++id) {
    const std::vector<NamedFrame> frames = frames_of_stack(recorded, *metadata.tracker, id);
    const uint64_t identity = stack_identity(frames);
    if (!written.insert(identity).second) continue;
    const std::string head = "{\"stack_id\":\"" + identity_text(identity) + "\",\"depth\":";
    for (size_t depth = 0; depth < frames.size(); ++depth) {
      out.write(head + std::to_string(depth) +
                ",\"function\":" + json_text(portable_label(frames[depth])) +
                ",\"module\":" + text_or_null(file_name_of(frames[depth].module)) + "}\n");
    }
  }
}

}  // namespace heapsnap
