#include "platform/linux/freeze/missing_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace heapsnap {

namespace {

// Files up to this size are kept with the pages that no page table of the target maps yet.
constexpr uint64_t kSmallFile = 16 << 20;
constexpr uint64_t kPagesAtOnce = 4096;
constexpr uint64_t kMostPages = 16 << 20;

}  // namespace

void MissingMemory::reserve(uint64_t bytes) {
  bytes_.resize(std::min(bytes, kMost));  // writes to them, so that they are resident
}

bool MissingMemory::keep(const Mapping& mapping, PageMap& pages, MemoryReader& memory) {
  page_size_ = pages.page_size();
  Part part{mapping, {}, {}};
  if (!look_at_pages(pages, part)) return false;
  const bool is_whole = !mapping.is_anonymous() && mapping.range.size() <= kSmallFile;
  const auto is_wanted = [&](const PageRun& run) {
    return is_whole || run.state != PageState::kAbsent;
  };
  for (auto run = part.pages.begin(); run != part.pages.end();) {
    const bool wanted = is_wanted(*run);
    const Address begin = run->begin;
    while (run != part.pages.end() && is_wanted(*run) == wanted) ++run;
    const Address end = run == part.pages.end() ? mapping.range.end : run->begin;
    if (wanted && !keep_run({begin, end}, memory, part)) return false;
  }
  parts_.push_back(std::move(part));
  return true;
}

bool MissingMemory::look_at_pages(PageMap& pages, Part& part) {
  const AddressRange& range = part.mapping.range;
  std::vector<PageState> states(std::min(range.size() / page_size_, kPagesAtOnce));
  const auto add = [&part](Address begin, PageState state) {
    if (part.pages.empty() || part.pages.back().state != state) {
      part.pages.push_back({begin, state});
    }
  };
  for (Address at = range.begin; at < range.end;) {
    const Address present = pages.absent_until({at, range.end});
    if (present > at) add(at, PageState::kAbsent);
    at = present;
    const size_t count = std::min<uint64_t>(states.size(), (range.end - at) / page_size_);
    if (count > kMostPages - pages_looked_at_) return false;
    pages_looked_at_ += count;
    pages.read(at, std::span(states).first(count));
    for (size_t i = 0; i < count; ++i) add(at + i * page_size_, states[i]);
    at += count * page_size_;
  }
  return true;
}

bool MissingMemory::keep_run(AddressRange range, MemoryReader& memory, Part& part) {
  if (range.size() > kMost - used_) return false;
  if (bytes_.size() < used_ + range.size()) bytes_.resize(used_ + range.size());
  const size_t got = memory.read(range.begin, std::span(bytes_).subspan(used_, range.size()));
  if (got != 0) part.runs.push_back({{range.begin, range.begin + got}, used_});
  used_ += got;
  return true;
}

const MissingMemory::Part* MissingMemory::find(Address address) const {
  const auto part = std::lower_bound(
      parts_.begin(), parts_.end(), address,
      [](const Part& candidate, Address at) { return candidate.mapping.range.end <= at; });
  return part != parts_.end() && part->mapping.range.contains(address) ? &*part : nullptr;
}

Address MissingMemory::next_begin(Address address) const {
  for (const Part& part : parts_) {
    if (address < part.mapping.range.begin) return part.mapping.range.begin;
  }
  return Address(~uint64_t{0});
}

size_t MissingMemory::read(Address from, std::span<std::byte> out) const {
  const Part* const part = find(from);
  if (part == nullptr) return 0;
  const uint64_t size = std::min<uint64_t>(out.size(), part->mapping.range.end - from);
  size_t done = 0;
  auto run =
      std::lower_bound(part->runs.begin(), part->runs.end(), from,
                       [](const Run& candidate, Address at) { return candidate.range.end <= at; });
  while (done < size) {
    const Address at = from + done;
    const bool is_in_run = run != part->runs.end() && run->range.begin <= at;
    if (!is_in_run && !part->mapping.is_anonymous()) break;
    const Address end = is_in_run                 ? run->range.end
                        : run != part->runs.end() ? run->range.begin
                                                  : part->mapping.range.end;
    const size_t count = std::min<uint64_t>(size - done, end - at);
    if (is_in_run) {
      std::memcpy(out.data() + done, bytes_.data() + run->offset + (at - run->range.begin), count);
      if (at + count == run->range.end) ++run;
    } else {
      std::memset(out.data() + done, 0, count);
    }
    done += count;
  }
  return done;
}

std::vector<MissingMemory::PageRun>::const_iterator MissingMemory::run_behind(const Part& part,
                                                                              Address page) {
  return std::upper_bound(part.pages.begin(), part.pages.end(), page,
                          [](Address at, const PageRun& run) { return at < run.begin; });
}

size_t MissingMemory::states(Address page, std::span<PageState> out) const {
  const Part* const part = find(page);
  if (part == nullptr) return 0;
  const size_t count =
      std::min<uint64_t>(out.size(), (part->mapping.range.end - page) / page_size_);
  auto next = run_behind(*part, page);
  for (size_t i = 0; i < count; ++i) {
    if (next != part->pages.end() && page + i * page_size_ >= next->begin) ++next;
    out[i] = std::prev(next)->state;
  }
  return count;
}

Address MissingMemory::absent_until(AddressRange range) const {
  const Part* const part = find(range.begin);
  if (part == nullptr) return range.begin;
  range.end = std::min(range.end, part->mapping.range.end);
  auto run = std::prev(run_behind(*part, range.begin));
  if (run->state != PageState::kAbsent) return range.begin;
  return ++run == part->pages.end() ? range.end : std::min(range.end, run->begin);
}

std::optional<PageMap::Bytes> MissingMemory::bytes_of(const Mapping& mapping) const {
  const Part* const part = find(mapping.range.begin);
  if (part == nullptr) return std::nullopt;
  PageMap::Bytes bytes;
  for (size_t i = 0; i < part->pages.size(); ++i) {
    const auto& [begin, state] = part->pages[i];
    const Address end =
        i + 1 < part->pages.size() ? part->pages[i + 1].begin : part->mapping.range.end;
    const uint64_t size = end - begin;
    if (state == PageState::kSwapped) bytes.swapped += size;
    if (state == PageState::kResident || state == PageState::kResidentHuge) bytes.resident += size;
    if (state == PageState::kResidentHuge) bytes.huge += size;
  }
  return bytes;
}

std::vector<AddressRange> MissingMemory::ranges() const {
  std::vector<AddressRange> ranges;
  for (const Part& part : parts_) {
    const AddressRange& range = part.mapping.range;
    if (!ranges.empty() && ranges.back().end == range.begin) {
      ranges.back().end = range.end;
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

std::vector<Mapping> MissingMemory::completed(const std::vector<Mapping>& of_copy) const {
  std::vector<Mapping> kept;
  kept.reserve(parts_.size());
  for (const Part& part : parts_) kept.push_back(part.mapping);
  return overlaid(of_copy, kept);
}

}  // namespace heapsnap
