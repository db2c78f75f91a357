// Gathers the graph of some of a snapshot's references, as a filter before ReferenceGraphSink.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "analysis/reference_graph.h"
#include "analysis/reference_streams.h"

namespace heapsnap {

// `Keeps`: bool(batch, source, i), whether the reference at index `i` of the batch, from the block
// `source`, is kept.
template <typename Keeps>
class SomeReferences final : public ReferenceSink {
 public:
  SomeReferences(ReferenceGraph& graph, Keeps keeps) : sink_(graph), keeps_(std::move(keeps)) {}

  void on_references(const ReferenceBatch& batch) override {
    counts_.clear();
    targets_.clear();
    size_t next = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      const size_t begin = targets_.size();
      for (const size_t end = next + batch.counts[i]; next < end; ++next) {
        if (keeps_(batch, batch.first + i, next)) targets_.push_back(batch.targets[next]);
      }
      counts_.push_back(static_cast<uint32_t>(targets_.size() - begin));
    }
    sink_.on_references({batch.first, counts_, {}, targets_, {}});
  }

 private:
  ReferenceGraphSink sink_;
  Keeps keeps_;
  std::vector<uint32_t> counts_;
  std::vector<BlockNumber> targets_;
};

template <typename Keeps>
ReferenceGraph graph_of_some(const ReferenceStreams& references, Keeps keeps) {
  ReferenceGraph graph;
  SomeReferences sink(graph, std::move(keeps));
  references.read_references(sink);
  graph.finish();
  return graph;
}

}  // namespace heapsnap
