// What the passes of this folder read: a snapshot's metadata at once and its long columns as
// streams.
//
// A SnapshotReader is one source of them; tests construct their own. Each stream may be read more
// than once and hands its elements to a callback, so nobody ever holds a whole column.
#pragma once

#include <functional>

#include "heap/chunk.h"
#include "snapshot/metadata.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

using PageRun = SnapshotReader::PageRun;
using ReceivePages = std::function<void(const PageRun&)>;
using ReceiveContents = std::function<void(Address, std::span<const std::byte>)>;

struct SnapshotStreams {
  const SnapshotMetadata* metadata = nullptr;
  // Batches in ascending order of address, then mmapped chunks.
  std::function<void(ChunkSink&)> read_chunks;
  // Ascending, without overlap. Pages in no run are in an unknown state.
  std::function<void(const ReceivePages&)> read_pages;
  // Pages of runtimes whose used slots are blocks, ascending; empty where there are none.
  std::function<void(const ReceiveSlots&)> read_slots;
  // Ascending, without overlap; empty when no memory was kept.
  std::function<void(const ReceiveContents&)> read_contents;
};

// `reader` must outlive the result.
SnapshotStreams streams_of(const SnapshotReader& reader);

}  // namespace heapsnap
