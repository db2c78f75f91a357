#include "analysis/heap_summary.h"

#include "analysis/chunk_census.h"
#include "analysis/chunk_residency.h"
#include "analysis/page_states.h"

namespace heapsnap {

namespace {

StateFigures sum(const FiguresByState& states, bool (*wanted)(ChunkState)) {
  StateFigures figures;
  for (int i = 0; i < kChunkStateCount; ++i) {
    if (wanted(static_cast<ChunkState>(i))) figures += states[static_cast<size_t>(i)];
  }
  return figures;
}

bool is_any(ChunkState) {
  return true;
}

bool is_idle(ChunkState state) {
  return state >= ChunkState::kFastbin && state <= ChunkState::kLargebin;
}

bool is_binned(ChunkState state) {
  return state >= ChunkState::kUnsorted && state <= ChunkState::kLargebin;
}

// One walk over the chunks feeds both passes while a batch is warm in the cache.
class BothSinks final : public ChunkSink {
 public:
  BothSinks(ChunkSink& first, ChunkSink& second) : first_(first), second_(second) {}
  void on_batch(const ChunkBatch& batch) override {
    first_.on_batch(batch);
    second_.on_batch(batch);
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    first_.on_mmapped(chunk);
    second_.on_mmapped(chunk);
  }

 private:
  ChunkSink& first_;
  ChunkSink& second_;
};

// What stays when all trims are done.
FreeKept kept_after_trim(const SnapshotMetadata& metadata, const HeapSummary& summary) {
  FreeKept kept;
  kept.tcache = figures_of(summary.totals, ChunkState::kTcache).pages.resident;
  kept.bins = idle_figures(summary.totals).pages.resident - summary.trim.bins;
  for (size_t i = 0; i < summary.arenas.size(); ++i) {
    const uint64_t top = figures_of(summary.arenas[i].states, ChunkState::kTop).pages.resident;
    (metadata.heap.arenas[i].is_main ? kept.main_top : kept.other_tops) +=
        top - summary.arenas[i].trim.top;
  }
  return kept;
}

}  // namespace

StateFigures used_figures(const FiguresByState& states) {
  return sum(states, is_live);
}
StateFigures free_figures(const FiguresByState& states) {
  return sum(states, is_free);
}
StateFigures bin_figures(const FiguresByState& states) {
  return sum(states, is_binned);
}
StateFigures idle_figures(const FiguresByState& states) {
  return sum(states, is_idle);
}
StateFigures all_figures(const FiguresByState& states) {
  return sum(states, is_any);
}

double ArenaSummary::free_share() const {
  const uint64_t top = figures_of(states, ChunkState::kTop).chunks.bytes;
  const uint64_t free = free_figures(states).chunks.bytes - top;
  const uint64_t all = all_figures(states).chunks.bytes - top;
  return all == 0 ? 0 : static_cast<double>(free) / static_cast<double>(all);
}

double ArenaSummary::scatter() const {
  const uint64_t free =
      figures_of(states, ChunkState::kFastbin).chunks.bytes + bin_figures(states).chunks.bytes;
  if (free == 0) return 0;
  return 1 - static_cast<double>(largest_free) / static_cast<double>(free);
}

HeapSummary summarize(const SnapshotStreams& streams, size_t max_page_runs) {
  const SnapshotMetadata& metadata = *streams.metadata;
  HeapSummary summary;
  summary.arenas.resize(metadata.heap.arenas.size());
  summary.mmapped.resize(metadata.heap.instances.size());
  summary.shares.resize(metadata.mappings.size());

  ChunkCensus census(word_size(metadata.process.machine), summary.large_runs);
  Address from;
  for (bool is_first = true, is_last = false; !is_last; is_first = false) {
    const PageStates pages(streams, from, max_page_runs);
    ChunkResidency residency(metadata, pages, summary, is_first);
    if (is_first) {
      BothSinks both(census, residency);
      streams.read_chunks(both);
    } else {
      streams.read_chunks(residency);
    }
    residency.finish();
    summary.pages_known |= pages.knows_a_state();
    is_last = pages.is_last();
    from = pages.covered().end;
  }
  std::move(census).finish(summary);

  for (const ArenaSummary& arena : summary.arenas) {
    summary.trim += arena.trim;
    for (size_t state = 0; state < summary.totals.size(); ++state) {
      summary.totals[state] += arena.states[state];
    }
  }
  summary.kept = kept_after_trim(metadata, summary);
  return summary;
}

HeapSummary summarize(const SnapshotReader& reader) {
  return summarize(streams_of(reader));
}

}  // namespace heapsnap
