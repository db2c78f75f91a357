#include "heap/malloc_layout.h"

#include <algorithm>

namespace heapsnap {

namespace {

constexpr unsigned kBinWords = 254;  // bins[NBINS * 2 - 2]
constexpr unsigned kBinmapBytes = 16;

// Lays members out one after the other as a C compiler does: each at a multiple of its size.
class StructCursor {
 public:
  uint64_t member(uint64_t size, uint64_t count = 1) {
    const uint64_t offset = aligned(size);
    end_ = offset + size * count;
    return offset;
  }
  uint64_t aligned(uint64_t alignment) const { return (end_ + alignment - 1) & ~(alignment - 1); }

 private:
  uint64_t end_ = 0;
};

MallocLayout::State state_of(GlibcVersion version, unsigned word, unsigned fastbin_count) {
  MallocLayout::State state;
  StructCursor cursor;
  const bool has_fastbins = version < GlibcVersion{2, 43};
  state.has_attached_threads = version >= GlibcVersion{2, 23};
  cursor.member(4);                                                      // mutex
  cursor.member(4);                                                      // flags
  if (has_fastbins && version >= GlibcVersion{2, 27}) cursor.member(4);  // have_fastchunks
  if (has_fastbins) {
    state.fastbin_count = fastbin_count;
    state.fastbins = cursor.member(word, fastbin_count);
  }
  state.top = cursor.member(word);
  cursor.member(word);  // last_remainder
  state.bins = cursor.member(word, kBinWords);
  cursor.member(4, kBinmapBytes / 4);
  state.next = cursor.member(word);
  cursor.member(word);  // next_free
  if (state.has_attached_threads) state.attached_threads = cursor.member(word);
  state.system_mem = cursor.member(word);
  state.max_system_mem = cursor.member(word);
  state.size = cursor.aligned(word);
  return state;
}

MallocLayout::Par par_of(GlibcVersion version, unsigned word) {
  MallocLayout::Par par;
  StructCursor cursor;
  cursor.member(word, 2);  // trim_threshold, top_pad
  par.mmap_threshold = cursor.member(word);
  par.arena_test = cursor.member(word);
  cursor.member(word);                                      // arena_max
  if (version >= GlibcVersion{2, 43}) cursor.member(word);  // thp_mode
  if (version >= GlibcVersion{2, 35}) {
    cursor.member(word);  // thp_pagesize
    par.hp_pagesize = cursor.member(word);
    cursor.member(4);  // hp_flags
  }
  par.n_mmaps = cursor.member(4);
  par.n_mmaps_max = cursor.member(4);
  par.max_n_mmaps = cursor.member(4);
  cursor.member(4);  // no_dyn_threshold
  par.mmapped_mem = cursor.member(word);
  cursor.member(word);                                     // max_mmapped_mem
  if (version < GlibcVersion{2, 24}) cursor.member(word);  // max_total_mem
  par.sbrk_base = cursor.member(word);
  if (version >= GlibcVersion{2, 26}) {
    cursor.member(word, 2);  // tcache_bins, tcache_max_bytes
    par.tcache_count = cursor.member(word);
    if (version < GlibcVersion{2, 44}) cursor.member(word);  // tcache_unsorted_limit
  }
  par.size = cursor.aligned(word);
  return par;
}

MallocLayout::HeapInfo heap_info_of(GlibcVersion version, unsigned word, uint64_t alignment) {
  MallocLayout::HeapInfo info;
  StructCursor cursor;
  info.ar_ptr = cursor.member(word);
  info.prev = cursor.member(word);
  info.size = cursor.member(word);
  cursor.member(word);                                      // mprotect_size
  if (version >= GlibcVersion{2, 35}) cursor.member(word);  // pagesize
  // Padded so that the chunk after it, and thus what malloc gives, is aligned.
  info.total = cursor.aligned(word);
  while ((info.total + 2 * word) % alignment != 0) info.total += word;
  return info;
}

MallocLayout::Tcache tcache_of(GlibcVersion version, unsigned word) {
  MallocLayout::Tcache tcache;
  if (version < GlibcVersion{2, 26}) return tcache;
  tcache.exists = true;
  tcache.counts_down = version >= GlibcVersion{2, 42};
  tcache.bins = tcache.counts_down ? 64 + 12 : 64;
  tcache.count_size = version < GlibcVersion{2, 30} ? 1 : 2;
  StructCursor cursor;
  cursor.member(tcache.count_size, tcache.bins);
  tcache.entries = cursor.member(word, tcache.bins);
  tcache.size = cursor.aligned(word);
  return tcache;
}

// Versions at which something that MallocLayout tells changed, newest first.
constexpr GlibcVersion kChanges[] = {{2, 44}, {2, 43}, {2, 42}, {2, 35}, {2, 32}, {2, 30},
                                     {2, 27}, {2, 26}, {2, 24}, {2, 23}, {2, 17}};

struct Row {
  GlibcVersion since;
  const char* name;
};
constexpr Row kStateRows[] = {{{2, 43}, "L3"}, {{2, 27}, "L2"}, {{2, 23}, "L1b"}, {{2, 17}, "L1a"}};
constexpr Row kParRows[] = {{{2, 44}, "P44"}, {{2, 43}, "P43"}, {{2, 35}, "P35"},
                            {{2, 26}, "P26"}, {{2, 24}, "P24"}, {{2, 17}, "P17"}};

template <size_t kCount>
std::string row_name(const Row (&rows)[kCount], GlibcVersion version) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows),
                                 [version](const Row& each) { return version >= each.since; });
  return row == std::end(rows) ? "?" : row->name;
}

}  // namespace

std::optional<MallocLayout> MallocLayout::for_version(Machine machine, GlibcVersion version) {
  if (version < GlibcVersion{2, 17}) return std::nullopt;
  MallocLayout layout;
  layout.machine = machine;
  layout.version = version;
  layout.word = word_size(machine);
  const bool is_32_bit = layout.word == 4;
  // sysdeps/i386/malloc-alignment.h came with 2.26. It made the largest fastbin chunk 96 bytes
  // where it had been 88, which is one fastbin more.
  const bool has_wide_alignment = !is_32_bit || version >= GlibcVersion{2, 26};
  layout.malloc_alignment = has_wide_alignment ? 16 : 8;
  layout.heap_max_size = is_32_bit ? 1ULL << 20 : 64ULL << 20;
  layout.state = state_of(version, layout.word, is_32_bit && has_wide_alignment ? 11 : 10);
  layout.par = par_of(version, layout.word);
  layout.heap_info = heap_info_of(version, layout.word, layout.malloc_alignment);
  layout.tcache = tcache_of(version, layout.word);
  layout.safe_linking = version >= GlibcVersion{2, 32};
  layout.mmapped_size_less_header = version >= GlibcVersion{2, 43};
  return layout;
}

std::vector<MallocLayout> MallocLayout::all_variants(Machine machine) {
  std::vector<MallocLayout> variants;
  for (const GlibcVersion version : kChanges) variants.push_back(*for_version(machine, version));
  return variants;
}

MallocLayout MallocLayout::without_thread_caches() const {
  MallocLayout layout = *this;
  layout.tcache = {};
  layout.par.tcache_count = 0;
  layout.par.size = layout.par.sbrk_base + word;
  return layout;
}

std::string MallocLayout::table_row() const {
  return row_name(kStateRows, version) + "/" + row_name(kParRows, version);
}

}  // namespace heapsnap
