#include "tools/inject/tracker_presence.h"

#include <elf.h>

#include <algorithm>

#include "base/error.h"
#include "heap/module_bytes.h"

namespace heapsnap {

namespace {

constexpr uint32_t kMostHooks = 64;
constexpr int kMostModules = 65536;

[[noreturn]] void refuse(const Target& target, const std::string& why, const std::string& remedy) {
  throw Error(ErrorKind::kUnsupported,
              "process " + std::to_string(target.process().pid) + " cannot be tracked", why,
              remedy);
}

// The mapping of its ELF header: a memory file by our name, or the installed library.
const Mapping* find_mapping(const AddressSpace& space) {
  for (const Mapping& mapping : space.mappings()) {
    if (mapping.file_offset == 0 && !mapping.is_anonymous() &&
        file_name_of(mapping.path).find("heapsnap_tracker") != std::string_view::npos) {
      return &mapping;
    }
  }
  return nullptr;
}

// Headers, symbols and build-id: the loader changes nothing there.
bool is_same_version(Target& target, const ElfImage& image, const Mapping& mapping) {
  const ElfSegment* const first = image.segment_of(0);
  if (first == nullptr || (first->flags & PF_W) != 0) return false;
  const std::span<const std::byte> wanted = image.bytes_at(0, first->file_size);
  std::vector<std::byte> found(wanted.size());
  return target.memory().read_exact(mapping.range.begin, found) &&
         std::equal(wanted.begin(), wanted.end(), found.begin());
}

// Whether the loader put it before libc among those whose symbols are searched.
//   struct r_debug { int version; link_map* first; }  link_map { bias, name, dynamic, next }
bool precedes_libc(Target& target, const CLibrary& libc, Address tracker_bias) {
  MemoryReader& memory = target.memory();
  const Address debug = libc.find_function("_r_debug");
  if (debug.is_null()) return false;
  uint64_t module = memory.read_value<uint64_t>(debug + 8).value_or(0);
  for (int i = 0; module != 0 && i < kMostModules; ++i) {
    const uint64_t bias = memory.read_value<uint64_t>(Address(module)).value_or(0);
    if (bias == tracker_bias.value()) return true;
    if (bias == libc.libc().load_bias.value()) return false;
    module = memory.read_value<uint64_t>(Address(module) + 24).value_or(0);
  }
  return false;
}

}  // namespace

std::optional<TrackerPresence> find_tracker(Target& target, const CLibrary& libc,
                                            std::span<const std::byte> image_bytes) {
  const Mapping* const mapping = find_mapping(target.address_space());
  if (mapping == nullptr) return std::nullopt;
  const ElfImage image = ElfImage::from_bytes(image_bytes, "libheapsnap_tracker.so");
  if (!is_same_version(target, image, *mapping)) {
    refuse(target, "the tracker of another version of heapsnap is in it (" + mapping->path + ")",
           "use that version, or restart the process");
  }
  TrackerPresence found;
  found.load_bias = mapping->range.begin;
  const auto address = [&](std::string_view name) {
    const ElfSymbol* const symbol = image.find_symbol(name);
    if (symbol == nullptr) {
      throw Error(ErrorKind::kInternal, "libheapsnap_tracker.so", "it has no " + std::string(name));
    }
    return found.load_bias + symbol->value;
  };
  found.start = address("heapsnap_tracker_start");
  found.stop = address("heapsnap_tracker_stop");
  found.directory_word = address("heapsnap_tracker_directory");
  found.is_preloaded = precedes_libc(target, libc, found.load_bias);
  return found;
}

std::optional<tracker::Directory> read_tracker_directory(Target& target,
                                                         const TrackerPresence& tracker) {
  const auto address = target.memory().read_value<uint64_t>(tracker.directory_word);
  if (!address || *address == 0) return std::nullopt;
  const auto directory = target.memory().read_value<tracker::Directory>(Address(*address));
  if (!directory || directory->magic != tracker::kDirectoryMagic ||
      directory->version != tracker::kLayoutVersion || directory->self != *address) {
    refuse(target, "the tables of the tracker in it are damaged", "restart the process");
  }
  return directory;
}

std::vector<tracker::HookEntry> read_hook_table(Target& target,
                                                const tracker::Directory& directory) {
  std::vector<tracker::HookEntry> hooks(std::min(directory.hook_count, kMostHooks));
  const bool fits = directory.hook_entry_size == sizeof(tracker::HookEntry);
  if (!fits || !target.memory().read_exact(Address(directory.hooks),
                                           std::as_writable_bytes(std::span(hooks)))) {
    refuse(target, "the tables of the tracker in it are damaged", "restart the process");
  }
  for (tracker::HookEntry& hook : hooks) hook.name[sizeof hook.name - 1] = '\0';
  return hooks;
}

}  // namespace heapsnap
