#include "tools/inject/tracker_presence.h"

#include <elf.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "tracking/tracker_directory.h"
#include "tracking/tracker_library.h"

namespace heapsnap {

namespace {

constexpr uint32_t kMostHooks = 64;
constexpr int kMostModules = 65536;
constexpr size_t kLongestName = 4096;
constexpr std::chrono::seconds kLoadPatience{20};

[[noreturn]] void refuse(const Target& target, const std::string& why, const std::string& remedy) {
  throw Error(ErrorKind::kUnsupported,
              "process " + std::to_string(target.process().pid) + " cannot be tracked", why,
              remedy);
}

// Program headers, symbols and build-id: the loader changes nothing there. An installed library has
// other sections than ours, which the ELF header in front of them tells.
bool is_same_version(Target& target, const ElfImage& image, const Mapping& mapping) {
  const ElfSegment* const first = image.segment_of(0);
  if (first == nullptr || (first->flags & PF_W) != 0) return false;
  constexpr uint64_t kElfHeader = 64;
  if (first->file_size < kElfHeader) return false;
  const std::span<const std::byte> wanted =
      image.bytes_at(kElfHeader, first->file_size - kElfHeader);
  std::vector<std::byte> found(wanted.size());
  return target.memory().read_exact(mapping.range.begin + kElfHeader, found) &&
         std::equal(wanted.begin(), wanted.end(), found.begin());
}

struct LoaderEntry {
  std::string name;
  bool precedes_libc = false;
};

std::string read_text(MemoryReader& memory, Address from) {
  std::string text;
  while (text.size() < kLongestName) {
    const auto character = memory.read_value<char>(from + text.size());
    if (!character || *character == '\0') break;
    text.push_back(*character);
  }
  return text;
}

// Its entry in the loader's list: nothing while it is not there yet.
//   struct r_debug { int version; link_map* first; }  link_map { bias, name, dynamic, next }
std::optional<LoaderEntry> find_in_loader(Target& target, const CLibrary& libc,
                                          Address tracker_bias) {
  MemoryReader& memory = target.memory();
  const Address debug = libc.function("_r_debug");
  uint64_t module = memory.read_value<uint64_t>(debug + 8).value_or(0);
  LoaderEntry entry;
  entry.precedes_libc = true;
  for (int i = 0; module != 0 && i < kMostModules; ++i) {
    const uint64_t bias = memory.read_value<uint64_t>(Address(module)).value_or(0);
    if (bias == tracker_bias.value()) {
      entry.name =
          read_text(memory, Address(memory.read_value<uint64_t>(Address(module) + 8).value_or(0)));
      return entry;
    }
    if (bias == libc.libc().load_bias.value()) entry.precedes_libc = false;
    module = memory.read_value<uint64_t>(Address(module) + 24).value_or(0);
  }
  return std::nullopt;
}

// The loader maps a library before it lists it, and somebody else may be about to load it.
LoaderEntry await_in_loader(Target& target, const CLibrary& libc, Address tracker_bias) {
  const auto deadline = std::chrono::steady_clock::now() + kLoadPatience;
  while (true) {
    if (auto entry = find_in_loader(target, libc, tracker_bias)) return *entry;
    if (std::chrono::steady_clock::now() >= deadline) {
      refuse(target, "the tracker is being loaded into it, and loading does not finish",
             "try again later");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

std::optional<TrackerPresence> find_tracker(Target& target, const CLibrary& libc,
                                            std::span<const std::byte> image_bytes) {
  const Mapping* const mapping = find_tracker_library(target.address_space());
  if (mapping == nullptr) return std::nullopt;
  const ElfImage image = ElfImage::from_bytes(image_bytes, "libheapsnap_tracker.so");
  if (!is_same_version(target, image, *mapping)) {
    refuse(target, "it has the tracker of another version of heapsnap (" + mapping->path + ")",
           "use that version, or restart the process");
  }
  TrackerPresence found;
  found.load_bias = mapping->range.begin;
  const auto word = directory_word(image, *mapping);
  if (!word) throw Error(ErrorKind::kInternal, "libheapsnap_tracker.so", "it has no directory");
  found.directory_word = *word;
  const LoaderEntry entry = await_in_loader(target, libc, found.load_bias);
  found.loader_name = entry.name;
  found.is_preloaded = entry.precedes_libc;
  return found;
}

std::optional<tracker::Directory> read_tracker_directory(Target& target,
                                                         const TrackerPresence& tracker) {
  const auto address = target.memory().read_value<uint64_t>(tracker.directory_word);
  if (!address || *address == 0) return std::nullopt;
  auto directory = read_directory(target.memory(), Address(*address));
  if (!directory) {
    refuse(target, "the tracker's tables in it are damaged", "restart the process");
  }
  return directory;
}

std::vector<tracker::HookEntry> read_hook_table(Target& target,
                                                const tracker::Directory& directory) {
  std::vector<tracker::HookEntry> hooks(std::min(directory.hook_count, kMostHooks));
  const bool fits = directory.hook_entry_size == sizeof(tracker::HookEntry);
  if (!fits || !target.memory().read_exact(Address(directory.hooks),
                                           std::as_writable_bytes(std::span(hooks)))) {
    refuse(target, "the tracker's tables in it are damaged", "restart the process");
  }
  for (tracker::HookEntry& hook : hooks) hook.name[sizeof hook.name - 1] = '\0';
  return hooks;
}

}  // namespace heapsnap
