#include "report/ptmallocdump_export.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "analysis/page_states.h"
#include "report/digits.h"
#include "report/kept_contents.h"

namespace heapsnap {

namespace {

// 1 TiB of 4 KiB pages: longer lists are cut and say so, as the dumper did at 512 MiB.
constexpr uint64_t kMaxPages = uint64_t{1} << 28;
constexpr size_t kPreviewSize = 16;

char page_mark(unsigned column) {
  switch (static_cast<PageState>(column)) {
    case PageState::kAbsent: return '0';
    case PageState::kResident:
    case PageState::kResidentFile:
    case PageState::kResidentHuge:
    case PageState::kSwapped: return '1';
    case PageState::kUnknown: break;
  }
  return '?';
}

class HeapText final : public ChunkSink {
 public:
  HeapText(const SnapshotStreams& streams, DumpedHeaps heaps, Writer& out)
      : streams_(streams),
        metadata_(*streams.metadata),
        heaps_(heaps),
        out_(out),
        word_(word_size(metadata_.process.machine)),
        page_size_(checked_page_size(metadata_.process.page_size)) {
    contents_.emplace(streams);
    has_contents_ = !contents_->is_empty();
  }

  void on_batch(const ChunkBatch& batch) override {
    if (!wants(batch.arena)) return;
    if (segment_ != batch.segment || batch.begin != next_) {
      segment_ = batch.segment;
      put_heap(heap_of(batch));
    }
    next_ = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      put_chunk(next_, batch.sizes[i], batch.states[i]);
      next_ += batch.sizes[i];
    }
  }

  // Kept until the end: they lie between the segments, and contents go forward only.
  void on_mmapped(const MmappedChunk& chunk) override {
    if (heaps_ != DumpedHeaps::kMain) mmapped_.push_back(chunk);
  }

  void finish() {
    if (mmapped_.empty()) return;
    std::sort(mmapped_.begin(), mmapped_.end(),
              [](const MmappedChunk& a, const MmappedChunk& b) { return a.chunk < b.chunk; });
    contents_.emplace(streams_);
    for (const MmappedChunk& chunk : mmapped_) {
      const AddressRange heap{chunk.mapping_begin, chunk.mapping_begin + chunk.total};
      put_heap(heap);
      put_chunk(chunk.chunk, heap.contains(chunk.chunk) ? heap.end - chunk.chunk : chunk.size,
                chunk.state);
    }
  }

 private:
  bool wants(int32_t arena) const {
    if (heaps_ == DumpedHeaps::kAll) return true;
    const bool is_main = arena >= 0 && static_cast<size_t>(arena) < metadata_.heap.arenas.size() &&
                         metadata_.heap.arenas[static_cast<size_t>(arena)].is_main;
    return is_main == (heaps_ == DumpedHeaps::kMain);
  }

  // A thread arena's heap begins with its heap_info, as in the dumper's text.
  AddressRange heap_of(const ChunkBatch& batch) const {
    if (batch.segment >= metadata_.heap.segments.size()) return {batch.begin, batch.begin};
    const HeapSegment& segment = metadata_.heap.segments[batch.segment];
    const bool is_whole = batch.begin == segment.range.begin &&
                          segment.kind == SegmentKind::kThreadHeap &&
                          segment.system_bytes > segment.range.size();
    return {is_whole ? segment.range.end - segment.system_bytes : batch.begin, segment.range.end};
  }

  void put_heap(AddressRange heap) {
    char* at = out_.reserve(128);
    at = put_text(at, "Heap  0x");
    at = put_hex(at, heap.begin.value());
    at = put_text(at, " size ");
    at = put_decimal_padded(at, heap.size(), 10);
    at = put_text(at, " bytes:\n");
    out_.commit(at);
    put_pages({heap.begin.align_down(page_size_), heap.end.align_up(page_size_)});
  }

  void put_pages(AddressRange range) {
    const bool is_cut = range.size() / page_size_ > kMaxPages;
    if (is_cut) range.end = range.begin + kMaxPages * page_size_;
    char* at = out_.reserve(128);
    at = put_text(at, "Pages in use for 0x");
    at = put_hex(at, range.begin.value());
    at = put_text(at, "-0x");
    at = put_hex(at, range.end.value());
    at = put_text(at, ": ");
    out_.commit(at);
    while (range.begin < range.end) {
      const PageStates::Piece piece = piece_at(range.begin);
      const Address end = std::min(range.end, piece.range.end).align_up(page_size_);
      const size_t count =
          std::min<uint64_t>((end - range.begin) / page_size_, Writer::kMaxReserve);
      char* marks = out_.reserve(count);
      std::fill_n(marks, count, page_mark(piece.column));
      out_.commit(marks + count);
      range.begin += count * page_size_;
    }
    out_.write(is_cut ? " (incomplete)\n" : "\n");
  }

  PageStates::Piece piece_at(Address page) {
    if (!pages_ || !pages_->covered().contains(page)) {
      cursor_.reset();
      pages_.emplace(streams_, page);
      cursor_.emplace(*pages_);
    }
    return cursor_->at(page);
  }

  void put_chunk(Address chunk, uint64_t size, ChunkState state) {
    char* at = out_.reserve(160);
    at = put_text(at, "chunk 0x");
    at = put_hex(at, chunk.value());
    at = put_text(at, " size ");
    at = put_decimal_padded(at, size, 10);
    at = put_text(at, " bytes");
    if (state == ChunkState::kTop) {
      at = put_text(at, " (top)  ");
    } else if (state == ChunkState::kFence) {
      at = put_text(at, " (fence)");
    } else if (is_free(state)) {
      at = put_text(at, " [free] ");
    } else {
      at = put_text(at, "          ");
      at = put_preview(at, chunk + 2 * word_, size);
    }
    *at++ = '\n';
    out_.commit(at);
  }

  char* put_preview(char* to, Address pointer, uint64_t size) {
    if (!has_contents_) return put_text(to, "?");
    std::array<std::byte, kPreviewSize> bytes;
    std::array<bool, kPreviewSize> kept;
    const size_t count = std::min<uint64_t>(size, kPreviewSize);
    contents_->read(pointer, std::span(bytes).first(count), std::span(kept).first(count));
    for (size_t i = 0; i < count; ++i) {
      const char byte = static_cast<char>(bytes[i]);
      const bool is_printable = byte >= ' ' && byte <= '~';
      *to++ = !kept[i] ? '?' : byte == '\0' ? '0' : is_printable ? byte : '.';
    }
    return to;
  }

  const SnapshotStreams& streams_;
  const SnapshotMetadata& metadata_;
  DumpedHeaps heaps_;
  Writer& out_;
  unsigned word_;
  uint64_t page_size_;
  std::optional<KeptContents> contents_;
  bool has_contents_ = false;
  std::optional<PageStates> pages_;
  std::optional<PageStates::Cursor> cursor_;
  std::vector<MmappedChunk> mmapped_;
  int64_t segment_ = -1;
  Address next_;
};

}  // namespace

void export_ptmallocdump(const SnapshotStreams& streams, DumpedHeaps heaps, Writer& out) {
  HeapText text(streams, heaps, out);
  streams.read_chunks(text);
  text.finish();
}

void export_ptmallocdump(const SnapshotReader& reader, DumpedHeaps heaps, Writer& out) {
  const SnapshotStreams streams = streams_of(reader);
  export_ptmallocdump(streams, heaps, out);
}

}  // namespace heapsnap
