#include "heap/walk/mmapped_scan.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace heapsnap {
namespace {

// Untouched pages that are read in search of one moved header; absent pages do not count.
constexpr size_t kMostPlainPages = 4096;
constexpr uint64_t kLargestAlignment = 1ULL << 30;  // that anybody asks memalign() for

}  // namespace

MmappedScan::MmappedScan(Target& target, PageCache& cache, const AnonymousMemory& memory,
                         const ChunkFormat& format, bool less_header)
    : cache_(cache),
      memory_reader_(target.memory()),
      residency_(target.residency()),
      memory_(memory),
      format_(format),
      less_header_(less_header),
      page_size_(std::max<uint64_t>(target.process().page_size, 4096)),
      heads_(target) {
  // A mapping begins a page, whatever a core says of it; chunk_at() counts on that.
  for (const auto& place : memory_.places()) {
    searched_to_.push_back(place.range.begin.align_up(page_size_));
  }
}

void MmappedScan::search_begins() {
  Address covered;  // by the chunk found last, which may span several places
  for (size_t i = 0; i < memory_.places().size(); ++i) {
    const auto& place = memory_.places()[i];
    if (place.kind == AnonymousMemory::Kind::kStack) continue;
    if (place.kind == AnonymousMemory::Kind::kUnwritable && !is_there(place.range.begin)) continue;
    Address& at = searched_to_[i];
    at = std::max(at, covered);
    while (place.range.contains(at, page_size_)) {
      const auto head = heads_.at(at);
      const auto chunk = head ? chunk_at(at, *head, place.run_end) : std::nullopt;
      if (!chunk || !take(*chunk)) break;
      at = covered = chunk->mapping_begin + chunk->total;
    }
  }
}

// Of memory that is reserved and was never used, no page is even asked for.
bool MmappedScan::is_there(Address page) {
  PageState state = PageState::kAbsent;
  residency_.read(page.align_up(page_size_), {&state, 1});
  return state != PageState::kAbsent;
}

std::vector<size_t> MmappedScan::places_by_size() const {
  std::vector<size_t> order;
  for (size_t i = 0; i < memory_.places().size(); ++i) {
    if (memory_.places()[i].kind != AnonymousMemory::Kind::kUnwritable) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return memory_.places()[a].range.size() < memory_.places()[b].range.size();
  });
  return order;
}

void MmappedScan::search_place(size_t index) {
  const auto& place = memory_.places()[index];
  const AddressRange rest{std::max(searched_to_[index], place.range.begin), place.range.end};
  if (rest.is_empty()) return;
  heads_.scan(rest, [&](Address page, PageHeads::Head head) {
    const auto chunk = chunk_at(page, head, place.run_end);
    if (!chunk || !take(*chunk)) return page + page_size_;
    const Address end = chunk->mapping_begin + chunk->total;
    return memory_.is_edge(page) || memory_.is_edge(end) ? end : page + page_size_;
  });
  searched_to_[index] = place.range.end;
}

bool MmappedScan::take(const MmappedChunk& chunk) {
  if (found_.size() == kMostChunks) return false;
  if (!found_.empty() && chunk.mapping_begin < found_.back().mapping_begin) is_sorted_ = false;
  found_.push_back(chunk);
  return true;
}

const std::vector<MmappedChunk>& MmappedScan::found() {
  if (is_sorted_) return found_;
  std::sort(found_.begin(), found_.end(), [](const MmappedChunk& a, const MmappedChunk& b) {
    return a.mapping_begin < b.mapping_begin;
  });
  // The search of a place meets a chunk again that reaches into it from the place before.
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  is_sorted_ = true;
  return found_;
}

uint64_t MmappedScan::word(const std::byte* from) const {
  uint64_t value = 0;
  std::memcpy(&value, from, format_.word);
  return value;
}

std::optional<MmappedChunk> MmappedScan::chunk_at(Address page, PageHeads::Head head,
                                                  Address run_end) {
  const uint64_t first = format_.align_up(page) - page;
  const uint64_t huge_bit = less_header_ ? 1 : 0;
  const uint64_t size_field = word(head.data() + first + format_.word);
  if ((word(head.data() + first) & ~huge_bit) != first ||
      (size_field & ChunkFormat::kFlags) != ChunkFormat::kMmapped) {
    return std::nullopt;
  }
  // Stale or not, it once was the size of a mapping.
  const uint64_t total = first + format_.size_of(size_field) + (less_header_ ? format_.header : 0);
  if (total == 0 || total % page_size_ != 0) return std::nullopt;
  // A moved header wins: the first one is stale then, whether or not its size still fits.
  const uint64_t room = std::min({total, run_end - page, kLargestAlignment + page_size_});
  if (const auto offset = moved_header(page, room)) {
    if (const auto moved = header_at(page, *offset, run_end)) return moved;
  }
  return header_at(page, first, run_end);
}

// `value` when all its bytes are the same, else 0.
uint64_t MmappedScan::repeated_byte(uint64_t value) const {
  const uint64_t all = format_.word == 8 ? ~uint64_t{0} : ~uint32_t{0};
  return value == (value & 0xff) * (all / 0xff) ? value : 0;
}

// The chunk whose header is `offset` bytes into the mapping at `page`, if that is one.
std::optional<MmappedChunk> MmappedScan::header_at(Address page, uint64_t offset, Address end) {
  const Address header = page + offset;
  const auto previous = cache_.word(header, format_.word);
  const auto field = cache_.word(header + format_.word, format_.word);
  if (!previous || !field || (*field & ChunkFormat::kFlags) != ChunkFormat::kMmapped) {
    return std::nullopt;
  }
  const uint64_t huge_bit = less_header_ ? 1 : 0;
  if ((*previous & ~huge_bit) != offset) return std::nullopt;
  MmappedChunk chunk;
  chunk.mapping_begin = page;
  chunk.chunk = header;
  chunk.size = format_.size_of(*field);
  const uint64_t behind = less_header_ ? format_.header : 0;
  const AddressRange room{page, end};
  if (!room.contains(header, chunk.size) || !room.contains(header + chunk.size, behind)) {
    return std::nullopt;
  }
  chunk.total = offset + chunk.size + behind;
  if (chunk.total % page_size_ != 0 || chunk.size < format_.header) return std::nullopt;
  chunk.usable = chunk.size - (less_header_ ? format_.word : format_.header);
  return chunk;
}

// What memalign() gives back has an alignment of at least 32 that is a power of two, and a mapping
// begins a page: inside the first page it lies at a power of two, further up at a page's begin,
// with the header before it. Memory between both headers was never handed out and is zero, or what
// alloc_perturb() made of it: the same byte all over.
std::optional<uint64_t> MmappedScan::moved_header(Address page, uint64_t room) {
  const uint64_t first = format_.align_up(page) - page;
  const uint64_t plain =
      repeated_byte(cache_.word(page + first + format_.header, format_.word).value_or(0));
  for (uint64_t offset = first + format_.header; offset + format_.header <= page_size_;
       offset += format_.header) {
    const auto previous = cache_.word(page + offset, format_.word);
    const auto size = cache_.word(page + offset + format_.word, format_.word);
    if (!previous || !size) return std::nullopt;
    if (*previous == plain && *size == plain) continue;
    return std::has_single_bit(offset + format_.header) ? std::optional(offset) : std::nullopt;
  }

  constexpr size_t kPagesAtOnce = 512;
  std::vector<PageState> states(kPagesAtOnce);
  size_t plain_pages = 0;
  for (uint64_t begin = page_size_; begin + page_size_ <= room;
       begin += states.size() * page_size_) {
    const size_t count = std::min<uint64_t>(kPagesAtOnce, (room - begin) / page_size_);
    if (pages_budget_ < count) return std::nullopt;
    pages_budget_ -= count;
    states.resize(count);
    residency_.read(page + begin, states);
    for (size_t i = 0; i < count; ++i) {
      if (states[i] == PageState::kAbsent) continue;
      const uint64_t offset = begin + (i + 1) * page_size_ - format_.header;
      std::array<std::byte, 16> tail;
      if (!memory_reader_.read_exact(page + offset, std::span(tail).first(format_.header))) {
        return std::nullopt;
      }
      if (word(tail.data()) != plain || word(tail.data() + format_.word) != plain) return offset;
      if (++plain_pages == kMostPlainPages) return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace heapsnap
