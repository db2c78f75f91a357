#include "heap/discovery/loaded_files.h"

#include <elf.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

namespace heapsnap {

namespace {

bool is_of_file(const Mapping& mapping) {
  return mapping.path.starts_with('/') && !mapping.is_anonymous_hugetlb();
}

// The segment that the loader mapped there. A mapping begins on a page, a segment need not.
const ElfSegment* segment_behind(const ElfImage& image, const Mapping& mapping) {
  const uint64_t mapping_end = mapping.file_offset + mapping.range.size();
  for (const ElfSegment& segment : image.segments()) {
    if (segment.type == PT_LOAD && ((segment.flags & PF_X) != 0) == mapping.executable &&
        mapping.file_offset < segment.file_offset + segment.file_size &&
        segment.file_offset < mapping_end) {
      return &segment;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<LoadedFile> files_with_code(const AddressSpace& space) {
  using Identity = std::tuple<uint32_t, uint32_t, uint64_t, std::string>;
  std::map<Identity, size_t> index_of;
  std::vector<LoadedFile> files;
  for (const Mapping& mapping : space.mappings()) {
    if (!is_of_file(mapping)) continue;
    const auto [place, is_new] = index_of.try_emplace(
        {mapping.device_major, mapping.device_minor, mapping.inode, mapping.path}, files.size());
    if (is_new) files.push_back({mapping.path, {}});
    files[place->second].mappings.push_back(mapping);
  }
  std::erase_if(files, [](const LoadedFile& file) {
    return std::none_of(file.mappings.begin(), file.mappings.end(),
                        [](const Mapping& mapping) { return mapping.executable; });
  });
  return files;
}

std::vector<Address> load_biases(const ElfImage& image, const LoadedFile& file) {
  std::vector<Address> biases;
  std::unordered_set<Address> seen;
  for (const Mapping& mapping : file.mappings) {
    if (!mapping.executable) continue;
    const ElfSegment* segment = segment_behind(image, mapping);
    if (segment == nullptr) continue;
    // Address of the mapping's first byte in the file's own terms; wraps like the machine's.
    const uint64_t address = segment->address - segment->file_offset + mapping.file_offset;
    const Address bias = mapping.range.begin - address;
    if (seen.insert(bias).second) biases.push_back(bias);
  }
  return biases;
}

std::vector<AddressRange> writable_ranges(const ElfImage& image, Address load_bias,
                                          const AddressSpace& space) {
  std::vector<AddressRange> ranges;
  for (const ElfSegment& segment : image.segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_W) == 0) continue;
    const Address begin = load_bias + segment.address;
    const AddressRange whole = {begin, begin + segment.memory_size};
    const auto& mappings = space.mappings();
    auto next = std::partition_point(mappings.begin(), mappings.end(), [&](const Mapping& each) {
      return each.range.end <= whole.begin;
    });
    for (; next != mappings.end() && next->range.begin < whole.end; ++next) {
      const Mapping& mapping = *next;
      if (!mapping.is_private_writable()) continue;
      const AddressRange part = {std::max(whole.begin, mapping.range.begin),
                                 std::min(whole.end, mapping.range.end)};
      if (!ranges.empty() && ranges.back().end == part.begin) {
        ranges.back().end = part.end;
      } else {
        ranges.push_back(part);
      }
    }
  }
  return ranges;
}

std::vector<AddressRange> all_module_data(const AddressSpace& space) {
  std::vector<AddressRange> ranges;
  bool follows_file = false;
  Address end;
  for (const Mapping& mapping : space.mappings()) {
    const bool is_next = mapping.range.begin == end;
    const bool is_bss = follows_file && is_next && mapping.path.empty() && mapping.is_anonymous();
    const bool belongs = is_of_file(mapping) || is_bss;
    if (belongs && mapping.is_private_writable()) {
      if (is_next && !ranges.empty() && ranges.back().end == end) {
        ranges.back().end = mapping.range.end;
      } else {
        ranges.push_back(mapping.range);
      }
    }
    // Only the mapping right behind a writable one of the file is its .bss.
    follows_file = is_of_file(mapping);
    end = mapping.range.end;
  }
  return ranges;
}

}  // namespace heapsnap
