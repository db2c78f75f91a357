#include "core/core_regions.h"

#include <algorithm>

namespace heapsnap {

namespace {

bool lies_lower(const CoreRegion& a, const CoreRegion& b) {
  return a.range.begin < b.range.begin;
}

bool is_valid(AddressRange range) {
  return range.begin < range.end;
}

// Puts what of `more` lies in the gaps of `regions` (disjoint, in order) into them.
void fill_gaps(std::vector<CoreRegion>& regions, std::vector<CoreRegion> more) {
  std::sort(more.begin(), more.end(), lies_lower);
  std::vector<CoreRegion> added;
  auto next = regions.cbegin();
  Address done;
  for (const CoreRegion& region : more) {
    Address begin = std::max(region.range.begin, done);
    while (begin < region.range.end) {
      while (next != regions.cend() && next->range.end <= begin) ++next;
      if (next != regions.cend() && next->range.begin <= begin) {
        begin = next->range.end;
        continue;
      }
      const Address end =
          next == regions.cend() ? region.range.end : std::min(region.range.end, next->range.begin);
      added.push_back(region.slice(begin, end));
      begin = end;
    }
    done = std::max(done, region.range.end);
  }
  const auto middle = static_cast<std::ptrdiff_t>(regions.size());
  regions.insert(regions.end(), added.begin(), added.end());
  std::inplace_merge(regions.begin(), regions.begin() + middle, regions.end(), lies_lower);
}

std::vector<CoreRegion> regions_of(const std::vector<CoreImage>& images) {
  std::vector<CoreRegion> regions;
  for (const CoreImage& image : images) {
    CoreRegion region;
    region.range = {image.base, image.base + image.bytes.size()};
    region.flags = PF_R | PF_W;
    region.claimed = image.bytes.size();
    region.dumped = image.bytes;
    if (is_valid(region.range)) regions.push_back(region);
  }
  return regions;
}

std::vector<CoreRegion> regions_of(const ElfHeaders& core) {
  std::vector<CoreRegion> regions;
  for (const ElfSegment& segment : core.segments) {
    if (segment.type != PT_LOAD) continue;
    CoreRegion region;
    region.range = {Address(segment.address), Address(segment.address) + segment.memory_size};
    region.flags = segment.flags;
    region.claimed = std::min(segment.file_size, segment.memory_size);
    region.dumped = clipped(core.bytes, segment.file_offset, region.claimed);
    if (is_valid(region.range)) regions.push_back(region);
  }
  return regions;
}

std::vector<CoreRegion> regions_of(const std::vector<CoreNotes::File>& files) {
  std::vector<CoreRegion> regions;
  for (const CoreNotes::File& file : files) {
    CoreRegion region;
    region.range = file.range;
    region.flags_known = false;
    region.file = &file;
    region.file_offset = file.offset;
    if (is_valid(region.range)) regions.push_back(region);
  }
  return regions;
}

// Says of each region which of `mapped` (disjoint, in order) it is, cutting it where they end.
std::vector<CoreRegion> joined(const std::vector<CoreRegion>& regions,
                               const std::vector<CoreRegion>& mapped) {
  std::vector<CoreRegion> result;
  auto next = mapped.begin();
  for (const CoreRegion& region : regions) {
    Address begin = region.range.begin;
    while (begin < region.range.end) {
      while (next != mapped.end() && next->range.end <= begin) ++next;
      const bool in_file = next != mapped.end() && next->range.begin <= begin;
      Address end = region.range.end;
      if (in_file) {
        end = std::min(end, next->range.end);
      } else if (next != mapped.end()) {
        end = std::min(end, next->range.begin);
      }
      CoreRegion part = region.slice(begin, end);
      if (in_file) {
        part.file = next->file;
        part.file_offset = next->file_offset + (begin - next->range.begin);
      }
      result.push_back(part);
      begin = end;
    }
  }
  return result;
}

}  // namespace

CoreRegion CoreRegion::slice(Address begin, Address end) const {
  CoreRegion part = *this;
  const uint64_t skipped = begin - range.begin;
  part.range = {begin, end};
  part.claimed = std::min(claimed - std::min(claimed, skipped), end - begin);
  part.dumped = clipped(dumped, skipped, part.claimed);
  part.from_file = clipped(from_file, skipped, end - begin);
  part.file_offset += skipped;
  return part;
}

std::vector<CoreRegion> core_regions(const std::vector<CoreImage>& images, const ElfHeaders* core,
                                     const std::vector<CoreNotes::File>& files) {
  std::vector<CoreRegion> mapped;
  fill_gaps(mapped, regions_of(files));
  std::vector<CoreRegion> regions;
  fill_gaps(regions, regions_of(images));
  if (core != nullptr) fill_gaps(regions, regions_of(*core));
  regions = joined(regions, mapped);
  fill_gaps(regions, mapped);
  return regions;
}

}  // namespace heapsnap
