// One chunk of a snapshot: what it is, who allocated it, and its bytes where they were kept.
#pragma once

#include <functional>
#include <string>

#include "analysis/chunk_lookup.h"
#include "report/text_report.h"
#include "report/writer.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata.h"

namespace heapsnap {

struct ChunkReportInput {
  const SnapshotMetadata& metadata;
  const RecordedStacks& recorded;
  FoundChunk chunk;
  Address at;                 // what was asked for; `chunk` holds it
  std::string snapshot_path;  // empty: not said
  uint64_t byte_limit = 0;    // how much of the contents is printed
  // Gives the kept bytes of a range, ascending. Null: the snapshot has none.
  std::function<void(const AddressRange&, const ReceiveContents&)> read_contents;
  // The function that probably allocated it (analysis/old_blocks.h); empty: nothing is known.
  std::string probable_owner = {};

  // The part of the block that is printed: its begin, or, where `at` would not be in that, the
  // bytes from the 16 that `at` is among on.
  AddressRange shown() const;
};

void print_chunk(Writer& out, const ChunkReportInput& input, const TextStyle& style);
// {"kind":"chunk-contents","version":1,...}: the same facts, exact; keys are only ever added.
void print_json_chunk(Writer& out, const ChunkReportInput& input);

}  // namespace heapsnap
