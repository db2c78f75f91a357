// What the analyses of references read: places, types and names at once, references, roots and
// types of blocks as streams, as SnapshotStreams.
//
// A SnapshotReader is one source of them; tests construct their own.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "analysis/reference_graph.h"
#include "references/block_type.h"
#include "references/reference.h"
#include "references/root.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

struct ReferenceStreams {
  std::vector<RootPlace> places;
  std::vector<BlockType> types;  // the first one is the unknown type
  std::function<void(ReferenceSink&)> read_references;
  std::function<void(const std::function<void(const Root&)>&)> read_roots;
  // Types of consecutive blocks, from a block on; of the others nothing is known.
  using ReceiveTypes = std::function<void(BlockNumber, std::span<const TypeNumber>)>;
  std::function<void(const ReceiveTypes&)> read_block_types;
  std::vector<SlackWords> slack_words = {};     // ascending by block
  std::vector<UnusedWord> unused_words = {};    // ascending
  std::vector<ContainerWords> containers = {};  // ascending
};

// `reader`, which must outlive the result, has references.
ReferenceStreams references_of(const SnapshotReader& reader);

// All of the references, in memory.
ReferenceGraph read_graph(const ReferenceStreams& references);

}  // namespace heapsnap
