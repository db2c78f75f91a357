// What a language runtime's garbage collector will free, in place of the program: not leaked.
//
//   slot                 ──►  block of malloc        a list, and its items
//   object in malloc     ──►  block of malloc        one of more than 512 bytes, and its list
//
// Neither a buffer in malloc that no such object leads to nor what else is in malloc is garbage.
#pragma once

#include <string_view>
#include <unordered_set>

#include "analysis/block_set.h"
#include "analysis/reference_graph.h"
#include "analysis/reference_streams.h"
#include "analysis/snapshot_streams.h"
#include "runtime/runtime_model.h"

namespace heapsnap {

// The names of classes of which the collector of a language runtime tracks objects; they live as
// long as `runtimes`.
std::unordered_set<std::string_view> tracked_classes(const RuntimeModel& runtimes);

// Whether there may be garbage: whether there are slots or classes of objects.
bool has_collector(const SnapshotStreams& streams);

// Of the blocks that are not in `reached`, slots of language runtimes, blocks of malloc that are
// objects of them, and what else only they lead to. A block of malloc is an object where its type
// is a class of which the collector tracks objects: buffers are of types of other names, and what
// is not tracked (a large bytes) no collection frees.
BlockSet garbage_of(const SnapshotStreams& streams, const ReferenceStreams& references,
                    const ReferenceGraph& graph, const BlockSet& reached);

}  // namespace heapsnap
