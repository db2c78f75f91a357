#include "tracking/tracker_directory.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "elf/elf_image.h"
#include "tracking/tracker_library.h"

namespace heapsnap {

namespace {

// The first words of a Directory: what it takes to recognise one.
struct Head {
  uint64_t magic;
  uint32_t version;
  uint32_t directory_size;
  uint64_t self;
};
static_assert(offsetof(tracker::Directory, self) == offsetof(Head, self));

bool is_directory(const Head& head, Address at) {
  return head.magic == tracker::kDirectoryMagic && head.self == at.value();
}

// Anonymous memory, and files that have no name: a memfd is "/memfd:NAME (deleted)".
bool may_hold_directory(const Mapping& mapping) {
  if (!mapping.readable || mapping.executable) return false;
  return mapping.is_anonymous() || mapping.path.starts_with("/memfd:");
}

std::optional<Address> by_mapping_name(Target& target) {
  for (const Mapping& mapping : target.address_space().mappings()) {
    if (!is_directory_mapping(mapping.path)) continue;
    const auto head = target.memory().read_value<Head>(mapping.range.begin);
    if (head && is_directory(*head, mapping.range.begin)) return mapping.range.begin;
  }
  return std::nullopt;
}

std::optional<Address> by_symbol(Target& target) {
  const Mapping* const mapping = find_tracker_library(target.address_space());
  auto file = mapping != nullptr ? target.open_file(*mapping) : std::nullopt;
  if (!file) return std::nullopt;
  try {
    const ElfImage image = ElfImage::from_file(std::move(*file), mapping->path);
    const auto place = directory_word(image, *mapping);
    const auto word = place ? target.memory().read_value<uint64_t>(*place) : std::nullopt;
    if (!word || *word == 0) return std::nullopt;
    const auto head = target.memory().read_value<Head>(Address(*word));
    if (head && is_directory(*head, Address(*word))) return Address(*word);
  } catch (const Error&) {
    // Not an ELF file: the magic decides.
  }
  return std::nullopt;
}

// The first of these places at which a Directory lies.
std::optional<Address> directory_among(MemoryReader& memory, std::span<const Address> places) {
  std::vector<Head> heads(places.size());
  std::span<Head> into(heads);
  while (!places.empty()) {
    const size_t got = memory.read_pieces(places, sizeof(Head), std::as_writable_bytes(into));
    for (size_t i = 0; i < got; ++i) {
      if (is_directory(into[i], places[i])) return places[i];
    }
    // Past the one that could not be read.
    const size_t next = std::min(places.size(), got + 1);
    places = places.subspan(next);
    into = into.subspan(next);
  }
  return std::nullopt;
}

// Where the library's file cannot be opened (it was a memfd, or this is a core): some word of its
// data leads to the Directory.
std::optional<Address> by_library_data(Target& target) {
  constexpr uint64_t kMostData = 1 << 20;
  const std::vector<Mapping>& mappings = target.address_space().mappings();
  std::vector<Address> places;
  bool is_behind = false;  // .bss is an anonymous mapping behind those of the file
  for (const Mapping& mapping : mappings) {
    const bool is_library = is_tracker_library(mapping.path);
    const bool is_data = is_library || (is_behind && mapping.path.empty());
    is_behind = is_library;
    if (!is_data || !mapping.is_private_writable()) continue;
    std::vector<uint64_t> words(std::min(mapping.range.size(), kMostData) / sizeof(uint64_t));
    const size_t got =
        target.memory().read(mapping.range.begin, std::as_writable_bytes(std::span(words)));
    words.resize(got / sizeof(uint64_t));
    for (const uint64_t word : words) {
      if (word != 0 && word % tracker::kDirectorySize == 0) places.emplace_back(word);
    }
  }
  return directory_among(target.memory(), places);
}

// Of raw images, which name no files, and where the library is known to be there. Of any other
// process nothing is read: a look at a page that was never touched leaves a trace in its page
// table.
std::optional<Address> by_magic(Target& target) {
  const std::vector<Mapping>& mappings = target.address_space().mappings();
  const auto is_named = [](const Mapping& one) { return one.path.starts_with('/'); };
  const auto is_library = [](const Mapping& one) { return is_tracker_library(one.path); };
  const bool has_names = std::any_of(mappings.begin(), mappings.end(), is_named);
  if (has_names && std::none_of(mappings.begin(), mappings.end(), is_library)) return std::nullopt;
  std::vector<Address> places;
  for (const Mapping& mapping : mappings) {
    if (may_hold_directory(mapping) && mapping.range.size() >= tracker::kDirectorySize) {
      places.push_back(mapping.range.begin);
    }
  }
  if (const auto found = directory_among(target.memory(), places)) return found;
  if (has_names) return std::nullopt;
  // Mappings that were merged, or only a part of one: any page.
  constexpr size_t kBatch = 4096;
  places.clear();
  for (const Mapping& mapping : mappings) {
    for (Address at = mapping.range.begin.align_up(tracker::kDirectorySize);
         mapping.range.contains(at, tracker::kDirectorySize); at += tracker::kDirectorySize) {
      const AddressRange readable = target.memory().next_readable({at, mapping.range.end});
      at = std::max(at, readable.begin.align_up(tracker::kDirectorySize));
      if (!mapping.range.contains(at, tracker::kDirectorySize)) break;
      places.push_back(at);
      if (places.size() < kBatch) continue;
      if (const auto found = directory_among(target.memory(), places)) return found;
      places.clear();
    }
  }
  return directory_among(target.memory(), places);
}

// Whether it holds records or not.
std::optional<Address> find_any_directory(Target& target) {
  for (const auto find : {by_mapping_name, by_symbol, by_library_data, by_magic}) {
    if (const std::optional<Address> found = find(target)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<tracker::Directory> read_directory(MemoryReader& memory, Address at) {
  const auto directory = memory.read_value<tracker::Directory>(at);
  if (!directory || directory->magic != tracker::kDirectoryMagic || directory->self != at.value()) {
    return std::nullopt;
  }
  if (directory->version != tracker::kLayoutVersion ||
      directory->directory_size != tracker::kDirectorySize) {
    throw Error(ErrorKind::kUnsupported, "the tracker in the process",
                "its tables have version " + std::to_string(directory->version) +
                    ", and this heapsnap reads version " + std::to_string(tracker::kLayoutVersion),
                "use the heapsnap that it was started with");
  }
  return directory;
}

std::optional<Address> find_tracker_directory(Target& target) {
  const std::optional<Address> found = find_any_directory(target);
  if (!found) return std::nullopt;
  const auto directory = read_directory(target.memory(), *found);
  return directory && holds_records(*directory) ? found : std::nullopt;
}

std::optional<Address> malloc_behind_idle_tracker(Target& target) {
  const std::optional<Address> found = find_any_directory(target);
  if (!found) return std::nullopt;
  const auto directory = read_directory(target.memory(), *found);
  if (!directory || directory->allocator != tracker::kAllocatorForeign) return std::nullopt;
  return Address(directory->malloc_address);
}

bool holds_records(const tracker::Directory& directory) {
  return directory.state == tracker::kStateRecording ||
         directory.stacks.count > tracker::kFirstStack;
}

bool is_shared_memory(const AddressSpace& space, Address directory) {
  const Mapping* const mapping = space.find(directory);
  return mapping != nullptr && mapping->shared;
}

}  // namespace heapsnap
