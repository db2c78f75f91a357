#include "heap/walk/heap_walker.h"

#include <algorithm>
#include <map>
#include <set>

#include "heap/thread_tcache.h"
#include "heap/walk/anonymous_memory.h"
#include "heap/walk/arena_list.h"
#include "heap/walk/free_lists.h"
#include "heap/walk/heap_areas.h"
#include "heap/walk/link_protection.h"
#include "heap/walk/mmapped_choice.h"
#include "heap/walk/mmapped_scan.h"
#include "heap/walk/ownerless_tcaches.h"
#include "heap/walk/segment_walk.h"
#include "heap/walk/system_mem_check.h"
#include "heap/walk/thread_heaps.h"
#include "target/page_cache.h"

namespace heapsnap {
namespace {

// Passes a walk on and tells how far it is.
class ProgressSink final : public ChunkSink {
 public:
  ProgressSink(ChunkSink& sink, const WalkOptions& options, uint64_t total)
      : sink_(sink), options_(options), total_(total) {}

  void on_batch(const ChunkBatch& batch) override {
    sink_.on_batch(batch);
    if (!options_.progress) return;
    for (const uint64_t size : batch.sizes) done_ += size;
    if (done_ - told_ < kStep) return;
    told_ = done_;
    options_.progress(std::min(done_, total_), total_);
  }
  void on_mmapped(const MmappedChunk& chunk) override { sink_.on_mmapped(chunk); }

 private:
  static constexpr uint64_t kStep = 64 << 20;

  ChunkSink& sink_;
  const WalkOptions& options_;
  uint64_t total_;
  uint64_t done_ = 0;
  uint64_t told_ = 0;
};

class HeapWalk {
 public:
  HeapWalk(Target& target, std::vector<LocatedMalloc> mallocs)
      : target_(target),
        passes_(passes_over(target)),
        mallocs_(std::move(mallocs)),
        cache_(target.memory()) {}

  HeapModel run(ChunkSink& sink, const WalkOptions& options) {
    find_arenas({});
    find_thread_caches();
    if (const LeftOut left_out = left_out_arenas(); !left_out.empty()) {
      model_ = HeapModel();
      instance_of_cache_.clear();
      log_ = CorruptionLog();
      find_arenas(left_out);
      find_thread_caches();
    }
    settle_link_protection();
    follow_free_lists();
    ProgressSink progress(sink, options, areas_.bytes());
    walk_segments(progress);
    find_mmapped(progress);
    check_system_mem(model_, log_);
    model_.corruptions = log_.take();
    return std::move(model_);
  }

 private:
  using LeftOut = std::map<uint32_t, Address>;  // by malloc, one arena that is not in its ring

  // Arenas that hold the tcache of a thread and were not found: a ring that damage has made shorter
  // closes as a sound one does.
  LeftOut left_out_arenas() {
    LeftOut left_out;
    for (size_t k = 0; k < model_.thread_caches.size(); ++k) {
      const Address tcache = model_.thread_caches[k].tcache;
      const uint32_t i = instance_of_cache_[k];
      if (tcache.is_null() || areas_.find(tcache) != nullptr || left_out.contains(i)) continue;
      const auto heap = ThreadHeaps(cache_, target_, mallocs_[i]).holding(tcache);
      if (heap && arena_index(heap->arena) < 0) left_out[i] = heap->arena;
    }
    return left_out;
  }

  void find_arenas(const LeftOut& left_out) {
    for (uint32_t i = 0; i < mallocs_.size(); ++i) {
      model_.instances.push_back(mallocs_[i].instance);
      const ThreadHeaps heaps(cache_, target_, mallocs_[i]);
      const auto missed = left_out.find(i);
      list_arenas(cache_, mallocs_[i], heaps, i,
                  missed == left_out.end() ? Address() : missed->second, model_.arenas, log_);
    }
    areas_ = find_heap_areas(target_, cache_, mallocs_, model_.arenas, log_);
  }

  int32_t arena_index(Address address) const {
    for (size_t i = 0; i < model_.arenas.size(); ++i) {
      if (model_.arenas[i].address == address) return static_cast<int32_t>(i);
    }
    return -1;
  }

  // Whether the arenas of a malloc are as the library's file has them: nobody has called it yet.
  // (One that was overwritten with zeros is not: attached_threads is 1 from the start.)
  bool is_as_loaded(uint32_t instance) const {
    const MallocInstance& malloc = model_.instances[instance];
    if (malloc.n_mmaps != 0 || malloc.mmapped_mem != 0) return false;
    return std::all_of(model_.arenas.begin(), model_.arenas.end(), [&](const Arena& arena) {
      if (arena.instance != instance) return true;
      return arena.is_main && arena.top.is_null() && arena.system_mem == 0 &&
             arena.max_system_mem == 0 && arena.attached_threads == 1;
    });
  }

  void find_thread_caches() {
    std::vector<Address> arenas;
    for (const Arena& arena : model_.arenas) arenas.push_back(arena.address);
    const auto& threads = target_.threads();
    const bool all_have_registers =
        !threads.empty() && std::all_of(threads.begin(), threads.end(),
                                        [](const Thread& t) { return t.registers.has_value(); });
    for (uint32_t i = 0; i < mallocs_.size(); ++i) {
      // dlmopen() gives a new C library the place in the threads' storage of one that dlclose() has
      // unloaded, and clears that only after it has relocated the library (2.36): until then, words
      // for tcaches in it are those of the other, whose heap is still mapped.
      if (i != 0 && is_as_loaded(i)) continue;
      const auto allocators = find_thread_allocators(target_, mallocs_[i], arenas);
      for (const ThreadAllocator& allocator : allocators) {
        if (!allocator.damaged_tcache.is_null()) {
          log_.add(allocator.damaged_tcache, arena_index(allocator.arena), -1,
                   "the tcache of thread " + std::to_string(allocator.tid) +
                       " is not valid: chunks in it are counted as used");
        }
        // A thread has no part in most of the further mallocs.
        if (i != 0 && allocator.tcache.is_null() && allocator.arena.is_null()) continue;
        add_thread_cache(i, {allocator.tid, allocator.tcache, arena_index(allocator.arena), 0, 0});
      }
      const bool some_are_lost =
          std::any_of(allocators.begin(), allocators.end(),
                      [](const ThreadAllocator& thread) { return thread.storage_is_lost; });
      if (!all_have_registers || allocators.empty() || some_are_lost) search_tcaches(i);
    }
  }

  void add_thread_cache(uint32_t instance, const ThreadCache& thread) {
    model_.thread_caches.push_back(thread);
    instance_of_cache_.push_back(instance);
  }

  void search_tcaches(uint32_t instance) {
    if (!mallocs_[instance].layout.tcache.exists) return;
    TcacheSearch search(cache_, mallocs_[instance], areas_, model_.arenas, instance);
    SortedAddresses nothing;
    nothing.finish();
    std::vector<HeapSegment> segments;
    CorruptionLog log;  // the walk proper will meet the same damage
    walk_areas(nothing, search, segments, log);
    std::set<Address> known;
    for (const ThreadCache& thread : model_.thread_caches) known.insert(thread.tcache);
    for (const ThreadCache& thread : search.found()) {
      if (!known.contains(thread.tcache)) add_thread_cache(instance, thread);
    }
  }

  // Of mallocs without a version: a core whose libc cannot be opened.
  void settle_link_protection() {
    for (uint32_t i = 0; i < mallocs_.size(); ++i) {
      MallocLayout& layout = mallocs_[i].layout;
      if (mallocs_[i].instance.version != GlibcVersion{} || !layout.tcache.exists) continue;
      std::vector<ThreadCache> caches;
      for (size_t k = 0; k < model_.thread_caches.size(); ++k) {
        if (instance_of_cache_[k] == i) caches.push_back(model_.thread_caches[k]);
      }
      const auto is_protected = are_links_protected(cache_, layout, areas_, caches);
      if (!is_protected || *is_protected == layout.safe_linking) continue;
      layout.safe_linking = *is_protected;
      model_.instances[i].notes.push_back(
          *is_protected
              ? "tcaches and fastbins use safe-linking, so this is glibc 2.32 or later"
              : "tcaches and fastbins do not use safe-linking, so this is glibc before 2.32");
    }
  }

  void follow_free_lists() {
    std::vector<FreeLists> lists;
    for (const LocatedMalloc& malloc : mallocs_) {
      lists.emplace_back(target_, passes_.get(), cache_, malloc.layout, areas_, listed_, log_);
    }
    for (size_t i = 0; i < model_.thread_caches.size(); ++i) {
      ThreadCache& thread = model_.thread_caches[i];
      const uint32_t instance = instance_of_cache_[i];
      if (thread.tcache.is_null() || !mallocs_[instance].layout.tcache.exists) continue;
      lists[instance].follow_tcache(thread, mallocs_[instance].instance.tcache_count);
    }
    for (size_t i = 0; i < model_.arenas.size(); ++i) {
      const Arena& arena = model_.arenas[i];
      lists[arena.instance].follow_bins(arena, static_cast<int32_t>(i));
    }
    for (const FreeLists& list : lists) {
      mmapped_in_tcache_.insert(list.mmapped().begin(), list.mmapped().end());
    }
    listed_.finish();
  }

  // Gives the bytes of each arena that the walk could not tell.
  std::vector<uint64_t> walk_areas(const SortedAddresses& listed, ChunkSink& sink,
                                   std::vector<HeapSegment>& segments, CorruptionLog& log) {
    std::vector<uint64_t> unknown(model_.arenas.size());
    SegmentWalk walk(target_, passes_.get(), cache_, SortedAddresses::Cursor(listed), sink,
                     segments, unknown, log);
    for (const HeapArea& area : areas_.all()) {
      const Arena& arena = model_.arenas[static_cast<size_t>(area.arena)];
      walk.walk(area, ChunkFormat(mallocs_[arena.instance].layout), arena.is_main);
    }
    walk.finish();
    return unknown;
  }

  void walk_segments(ChunkSink& sink) {
    const auto unknown = walk_areas(listed_, sink, model_.segments, log_);
    settle_foreign_holes(model_);
    for (const HeapSegment& segment : model_.segments) {
      model_.arenas[static_cast<size_t>(segment.arena)].walked += segment.system_bytes;
    }
    for (size_t i = 0; i < unknown.size(); ++i) model_.arenas[i].walked -= unknown[i];
  }

  void find_mmapped(ChunkSink& sink) {
    const AnonymousMemory memory(target_, areas_.all());
    for (const bool less_header : {false, true}) {
      std::vector<uint32_t> instances;
      for (uint32_t i = 0; i < mallocs_.size(); ++i) {
        if (mallocs_[i].layout.mmapped_size_less_header == less_header) instances.push_back(i);
      }
      if (!instances.empty()) find_mmapped_of(instances, memory, sink);
    }
    for (const Address chunk : mmapped_in_tcache_) {
      log_.add(chunk, -1, -1, "a tcache lists " + hex(chunk) + ", which is not an mmapped chunk");
    }
  }

  // `instances` write their headers in the same way, so one search finds the chunks of all.
  void find_mmapped_of(const std::vector<uint32_t>& instances, const AnonymousMemory& memory,
                       ChunkSink& sink) {
    const MallocLayout& layout = mallocs_[instances.front()].layout;
    const ChunkFormat format(layout);
    MmappedCounts counters;
    counters.drift_step = layout.mmapped_size_less_header ? format.header : 0;
    uint32_t owner = instances.front();
    unsigned owners = 0;
    for (const uint32_t i : instances) {
      const MallocInstance& instance = model_.instances[i];
      if (instance.malloc_par.is_null()) continue;
      counters.is_known = true;
      counters.count += instance.n_mmaps;
      counters.bytes += instance.mmapped_mem;
      if (instance.n_mmaps != 0) ++owners;
      if (instance.n_mmaps > model_.instances[owner].n_mmaps) owner = i;
    }
    if (owners > 1) {
      model_.instances[owner].notes.push_back(
          "all mmapped chunks are listed under this malloc, although some belong to another");
    }

    MmappedScan scan(target_, cache_, memory, format, layout.mmapped_size_less_header);
    uint64_t judged = 0;
    bool is_enough = false;
    const auto is_complete = [&] {
      if (scan.count() < counters.count) return false;
      if (scan.count() != judged) is_enough = is_settled(scan.found(), memory, counters);
      judged = scan.count();
      return is_enough;
    };
    const bool has_any = !counters.is_known || counters.count != 0;
    if (has_any) scan.search_begins();
    if (has_any && !is_complete()) scan.search_pages(counters.count, is_complete);

    const MmappedChoice choice = believed_chunks(scan.found(), memory, counters);
    for (MmappedChunk chunk : choice.chunks) {
      chunk.instance = owner;
      if (mmapped_in_tcache_.erase(chunk.chunk) != 0) chunk.state = ChunkState::kTcache;
      sink.on_mmapped(chunk);
    }
    if (!choice.doubt.empty()) model_.instances[owner].notes.push_back(choice.doubt);
    if (!choice.complaint.empty()) {
      log_.add(model_.instances[owner].malloc_par, -1, -1, choice.complaint);
    }
  }

  Target& target_;
  std::unique_ptr<HeapPasses> passes_;  // none where they cannot be made
  std::vector<LocatedMalloc> mallocs_;
  PageCache cache_;
  CorruptionLog log_;
  HeapModel model_;
  HeapAreas areas_;
  SortedAddresses listed_;
  std::vector<uint32_t> instance_of_cache_;  // for each of model_.thread_caches
  std::set<Address> mmapped_in_tcache_;
};

}  // namespace

HeapModel walk_heaps(Target& target, const std::vector<LocatedMalloc>& mallocs, ChunkSink& sink,
                     const WalkOptions& options) {
  return HeapWalk(target, mallocs).run(sink, options);
}

bool is_idle(const HeapModel& heap, uint64_t rss) {
  uint64_t walked = 0;
  for (const Arena& arena : heap.arenas) walked += arena.system_mem;
  constexpr uint64_t kIdle = 1 << 20;
  return walked < std::max(kIdle, rss / 20);
}

}  // namespace heapsnap
