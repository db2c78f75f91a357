#include "tracking/tracker_library.h"

#include <elf.h>

#include "base/file_name.h"
#include "tracker/table_layout.h"

namespace heapsnap {

namespace {

constexpr std::string_view kMemoryFile = "/memfd:";
constexpr std::string_view kNamedMemory = "[anon:";

// "name" of "[anon:name]".
std::string_view anonymous_name(std::string_view path) {
  if (!path.starts_with(kNamedMemory) || !path.ends_with(']')) return {};
  path.remove_suffix(1);
  return path.substr(kNamedMemory.size());
}

}  // namespace

bool is_tracker_library(std::string_view path) {
  return file_name_of(path).find("heapsnap_tracker") != std::string_view::npos;
}

bool is_injected_tracker(std::string_view path) {
  return path.starts_with(kMemoryFile) && is_tracker_library(path);
}

bool is_directory_mapping(std::string_view path) {
  return anonymous_name(path) == tracker::kDirectoryMapping;
}

bool is_tracker_table(std::string_view path) {
  return is_directory_mapping(path) || anonymous_name(path) == tracker::kTableMapping;
}

const Mapping* find_tracker_library(const AddressSpace& space) {
  for (const Mapping& mapping : space.mappings()) {
    if (mapping.file_offset == 0 && !mapping.is_anonymous() && is_tracker_library(mapping.path)) {
      return &mapping;
    }
  }
  return nullptr;
}

std::optional<Address> directory_word(const ElfImage& library, const Mapping& header) {
  const ElfSymbol* const symbol = library.find_symbol(tracker::kDirectorySymbol);
  if (symbol == nullptr) return std::nullopt;
  for (const ElfSegment& segment : library.segments()) {
    if (segment.type != PT_LOAD) continue;
    const uint64_t bias =
        header.range.begin.value() + (segment.file_offset - header.file_offset) - segment.address;
    return Address(bias + symbol->value);
  }
  return std::nullopt;
}

}  // namespace heapsnap
