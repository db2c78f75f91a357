// A walk over a heap that the input damages. It ends, and gives chunks that lie end to end inside
// segments that do not overlap, whatever the memory holds.
//
//   byte 0      version and machine
//   byte 1      1: pages are not known to be resident  2: main arena not contiguous  4: no mp_
//               8: threads without registers  16: counters of mmapped chunks that match nothing
//               32: memory that begins inside of a page, as a damaged core may say
//   then        strokes of 10 bytes: place (1 byte), word in it (2), what the rest means (1), 6
//   bytes
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "heap/walk/heap_walker.h"
#include "tests/unit/heap/flat_target.h"
#include "tests/unit/heap/synthetic_heap.h"

namespace {

using namespace heapsnap;

constexpr uint64_t kPage = 4096;

void require(bool condition) {
  if (!condition) std::abort();
}

class CheckingSink final : public ChunkSink {
 public:
  void on_batch(const ChunkBatch& batch) override {
    require(!batch.sizes.empty() && batch.sizes.size() == batch.states.size());
    if (batch.segment == segment_) {
      require(batch.begin == end_);
    } else {
      require(segment_ == ~0U || batch.segment > segment_);
      require(batch.begin >= end_);
      begins.resize(batch.segment + 1);
      ends.resize(batch.segment + 1);
      begins[batch.segment] = batch.begin;
    }
    end_ = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      require(batch.sizes[i] != 0 && batch.states[i] <= ChunkState::kUnknown);
      require(batch.sizes[i] <= ~0ULL - end_.value());
      mix(batch.sizes[i]);
      mix(static_cast<uint64_t>(batch.states[i]));
      end_ += batch.sizes[i];
    }
    segment_ = batch.segment;
    ends[batch.segment] = end_;
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    require(chunk.mapping_begin >= mapped_to_);
    require(chunk.total != 0 && chunk.total % kPage == 0);
    require(chunk.chunk >= chunk.mapping_begin && chunk.usable < chunk.total);
    mix(chunk.chunk.value());
    mapped_to_ = chunk.mapping_begin + chunk.total;
  }

  std::vector<Address> begins;  // of what each segment's batches cover
  std::vector<Address> ends;
  uint64_t digest = 0;  // of all that was given

 private:
  void mix(uint64_t value) { digest = (digest ^ value) * 0x9e3779b97f4a7c15 + 1; }

  uint32_t segment_ = ~0U;
  Address end_;
  Address mapped_to_;
};

struct Variant {
  Machine machine;
  int minor;
};
constexpr Variant kVariants[] = {{Machine::kX86_64, 36}, {Machine::kX86_64, 43},
                                 {Machine::kX86_64, 31}, {Machine::kI386, 23},
                                 {Machine::kI386, 36},   {Machine::kAarch64, 23}};

// A sound heap with something of everything in it.
std::vector<AddressRange> build(SyntheticHeap& heap, uint8_t options) {
  const bool has_tcache = heap.layout.tcache.exists;
  const bool is_narrow = heap.layout.machine == Machine::kI386;
  const Address mapped(is_narrow ? 0xe0000000 : 0x7f4000000000);
  SyntheticArena& main = heap.brk_arena(8);
  if (has_tcache) heap.thread(main, 1, (options & 8) == 0);
  for (unsigned i = 0; i < 60; ++i) {
    main.add(0x40, i % 4 == 1 ? ChunkState::kUnsorted : ChunkState::kUsed);
    if (has_tcache && i % 20 == 2) main.add(0x50, ChunkState::kTcache);
    if (heap.layout.state.fastbin_count != 0 && i % 8 == 2) main.add(0x60, ChunkState::kFastbin);
  }
  main.add(0x50, ChunkState::kUnsorted);
  main.fence();
  main.go_to(heap.format.align_up(main.cursor() + 0x310));
  for (unsigned i = 0; i < 20; ++i) main.add(0x90, ChunkState::kUsed);
  main.top(heap.heap_begin() + 8 * kPage - main.cursor());
  main.system_mem = 8 * kPage;

  SyntheticArena& other = heap.thread_arena(heap.heaps_begin(), 4);
  for (unsigned i = 0; i < 30; ++i) {
    other.add(0x70, i % 3 == 0 ? ChunkState::kSmallbin : ChunkState::kUsed);
  }
  other.top(heap.heaps_begin() + 4 * kPage - other.cursor());

  heap.target.map(mapped, 32 * kPage);
  main.is_noncontiguous = (options & 2) != 0;
  if (main.is_noncontiguous) {
    const Address top = main.cursor();
    main.go_to(heap.format.align_up(mapped + 16 * kPage));
    for (unsigned i = 0; i < 20; ++i) main.add(0xc0, ChunkState::kUsed);
    const uint64_t room = mapped + 17 * kPage - main.cursor() - 2 * heap.format.header;
    main.add(room & ~(heap.format.alignment - 1), ChunkState::kUsed);
    main.fence();
    main.system_mem += kPage;
    main.go_to(top);
  }
  heap.mmapped(mapped, 4 * kPage);
  heap.mmapped(mapped + 8 * kPage, 2 * kPage, 0x40 - heap.format.header);
  heap.put_mmapped_header(mapped + 8 * kPage, 4 * kPage, heap.format.align_up(mapped) - mapped);
  if ((options & 16) != 0) heap.n_mmaps += 5;
  if ((options & 1) != 0) heap.target.forget_residency();
  heap.finish();
  std::vector<AddressRange> places = {
      {heap.heap_begin(), heap.heap_begin() + 8 * kPage},
      {heap.heaps_begin(), heap.heaps_begin() + 4 * kPage},
      {mapped, mapped + 32 * kPage},
      {heap.main().state(), heap.main().state() + heap.layout.state.size},
      {heap.par(), heap.par() + heap.layout.par.size}};
  if ((options & 32) != 0) {
    const AddressRange odd{mapped + 64 * kPage + 7, mapped + 68 * kPage};
    heap.target.map(odd.begin, odd.size());
    heap.target.put_bytes(odd.begin, std::vector<std::byte>(odd.size(), std::byte{0x5a}));
    places.push_back(odd);
  }
  return places;
}

void damage(SyntheticHeap& heap, const std::vector<AddressRange>& places,
            std::span<const uint8_t> stroke) {
  const AddressRange& place = places[stroke[0] % places.size()];
  const unsigned word = heap.layout.word;
  const uint64_t words = place.size() / word;
  uint16_t index = 0;
  uint64_t value = 0;
  std::memcpy(&index, stroke.data() + 1, sizeof(index));
  std::memcpy(&value, stroke.data() + 4, 6);
  switch (stroke[3] % 4) {
    case 0: break;                   // the value as it is
    case 1: value &= 0xffff; break;  // a size or flags
    case 2: value = ~value; break;   // a very large one
    case 3: {                        // an address that means something
      const AddressRange& target = places[value % places.size()];
      value = (target.begin + (value >> 8) % target.size()).value();
      break;
    }
  }
  heap.target.put_word(place.begin + index % words * word, value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kStroke = 10;
  constexpr size_t kMostStrokes = 400;
  if (size < 2) return 0;
  const Variant& variant = kVariants[data[0] % std::size(kVariants)];
  SyntheticHeap heap(variant.machine, variant.minor);
  const auto places = build(heap, data[1]);
  std::span<const uint8_t> rest(data + 2, size - 2);
  for (size_t i = 0; i < kMostStrokes && rest.size() >= kStroke; ++i) {
    damage(heap, places, rest.first(kStroke));
    rest = rest.subspan(kStroke);
  }
  LocatedMalloc located = heap.located();
  if ((data[1] & 4) != 0) located.instance.malloc_par = Address();

  CheckingSink sink;
  const HeapModel model = walk_heaps(heap.target, {located}, sink);
  require(!model.arenas.empty() && model.arenas[0].is_main);
  require(sink.begins.size() <= model.segments.size());
  for (size_t i = 0; i < model.segments.size(); ++i) {
    const HeapSegment& segment = model.segments[i];
    require(segment.arena >= 0 && static_cast<size_t>(segment.arena) < model.arenas.size());
    require(i == 0 || model.segments[i - 1].range.end <= segment.range.begin);
    if (i >= sink.begins.size() || sink.begins[i].is_null()) {
      require(segment.range.is_empty());
    } else {
      require(segment.range == AddressRange{sink.begins[i], sink.ends[i]});
    }
  }
  require(model.corruptions.size() <= 1001);

  // Passes over the memory tell the same as reading it.
  FlatTarget flat(heap.target);
  CheckingSink by_passes;
  const HeapModel same = walk_heaps(flat, {located}, by_passes);
  require(by_passes.digest == sink.digest && same.segments.size() == model.segments.size());
  require(same.corruptions.size() == model.corruptions.size());
  if (rest.size() == size - 2 && (data[1] & (4 | 16)) == 0) require(model.corruptions.empty());
  return 0;
}
