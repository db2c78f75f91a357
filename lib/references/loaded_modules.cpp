#include "references/loaded_modules.h"

#include <elf.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "heap/discovery/loaded_files.h"

namespace heapsnap {

namespace {

// Headers and dynamic symbols of most libraries; libLLVM has 6 MB of them.
constexpr uint64_t kMostFromMemory = 8 << 20;

std::shared_ptr<const ModuleFile> open_module_file(Target& target, const Mapping& mapping) {
  try {
    auto file = target.open_file(mapping);
    if (!file) return nullptr;
    return std::make_shared<const ModuleFile>(
        ModuleFile{mapping.path,
                   mapping.inode,
                   false,
                   {},
                   ElfImage::from_file(std::move(*file), mapping.path)});
  } catch (const Error&) {
    return nullptr;  // not an ELF file, or not of a machine that we know
  }
}

std::shared_ptr<const ModuleFile> read_module_memory(Target& target, const Mapping& mapping) {
  std::vector<std::byte> bytes(std::min(mapping.range.size(), kMostFromMemory));
  bytes.resize(target.memory().read(mapping.range.begin, bytes));
  try {
    ElfImage image = ElfImage::from_bytes(bytes, mapping.path);
    return std::make_shared<const ModuleFile>(
        ModuleFile{mapping.path, mapping.inode, true, std::move(bytes), std::move(image)});
  } catch (const Error&) {
    return nullptr;
  }
}

std::shared_ptr<const ModuleFile> file_behind(Target& target, const LoadedFile& file,
                                              const LoadedModules* known) {
  const Mapping& first = file.mappings.front();
  if (known != nullptr) {
    for (const LoadedModule& module : known->all()) {
      const ModuleFile& other = *module.file;
      if (other.path == first.path && other.inode == first.inode && !other.is_from_memory) {
        return module.file;
      }
    }
  }
  if (auto opened = open_module_file(target, first)) return opened;
  const auto head = std::find_if(
      file.mappings.begin(), file.mappings.end(),
      [](const Mapping& mapping) { return mapping.file_offset == 0 && mapping.readable; });
  return head == file.mappings.end() ? nullptr : read_module_memory(target, *head);
}

}  // namespace

AddressRange range_in_memory(Address bias, uint64_t address, uint64_t size) {
  const Address begin = bias + address;
  return {begin, begin + std::min(size, ~begin.value())};
}

LoadedModules::LoadedModules(Target& target, const LoadedModules* known) {
  for (const LoadedFile& loaded : files_with_code(target.address_space())) {
    const auto file = file_behind(target, loaded, known);
    if (file == nullptr || file->image.machine() != target.process().machine) continue;
    for (const Address bias : load_biases(file->image, loaded)) {
      LoadedModule module{bias, {}, file};
      for (const ElfSegment& segment : file->image.segments()) {
        if (segment.type != PT_LOAD || segment.memory_size == 0) continue;
        const AddressRange part = range_in_memory(bias, segment.address, segment.memory_size);
        module.range.begin =
            module.range.is_empty() ? part.begin : std::min(module.range.begin, part.begin);
        module.range.end = std::max(module.range.end, part.end);
      }
      if (!module.range.is_empty()) modules_.push_back(std::move(module));
    }
  }
  std::sort(modules_.begin(), modules_.end(), [](const LoadedModule& a, const LoadedModule& b) {
    return a.range.begin < b.range.begin;
  });
  for (uint32_t i = 0; i < modules_.size(); ++i) {
    for (const AddressRange& range : segments(i, 0, 0)) parts_.push_back({range, i});
  }
  std::sort(parts_.begin(), parts_.end(),
            [](const Part& a, const Part& b) { return a.range < b.range; });
}

uint32_t LoadedModules::find(Address address) const {
  const auto behind =
      std::upper_bound(parts_.begin(), parts_.end(), address,
                       [](Address wanted, const Part& part) { return wanted < part.range.begin; });
  if (behind == parts_.begin()) return kNone;
  const Part& part = *std::prev(behind);
  return part.range.contains(address) ? part.module : kNone;
}

std::vector<AddressRange> LoadedModules::segments(uint32_t number, uint32_t mask,
                                                  uint32_t flags) const {
  std::vector<AddressRange> ranges;
  const LoadedModule& module = modules_[number];
  for (const ElfSegment& segment : module.image().segments()) {
    if (segment.type != PT_LOAD || (segment.flags & mask) != flags) continue;
    const AddressRange range = range_in_memory(module.bias, segment.address, segment.memory_size);
    if (!range.is_empty()) ranges.push_back(range);
  }
  return ranges;
}

}  // namespace heapsnap
