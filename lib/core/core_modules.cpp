#include "core/core_modules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "elf/elf_notes.h"

namespace heapsnap {

namespace {

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string text = fmt::format(
      "{}",
      fmt::join(names.begin(),
                names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())), ", "));
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

// The PT_LOAD whose pages hold the byte at `offset` from the start of the mapped image. Two
// segments may share a page of the file (rodata and relro do), so only the address tells them
// apart.
const ElfSegment* segment_at(const ElfImage& image, uint64_t offset, uint64_t page_size) {
  const ElfSegment* first = nullptr;
  for (const ElfSegment& segment : image.segments()) {
    if (segment.type != PT_LOAD) continue;
    if (first == nullptr) first = &segment;
    const uint64_t bias = first->address & ~(page_size - 1);
    const uint64_t begin = (segment.address & ~(page_size - 1)) - bias;
    const uint64_t end = segment.address + segment.memory_size - bias;
    if (offset >= begin && offset < end) return &segment;
  }
  return nullptr;
}

}  // namespace

// Paths by what was found about them, for one sentence a kind.
struct CoreModules::Verdicts {
  std::vector<std::string> missing;
  std::vector<std::string> others;
  std::vector<std::string> unproved;

  void tell(std::vector<std::string>& notes) const {
    constexpr const char* kConsequence =
        "only what the core contains of them can be read; pass their root folder as --sysroot";
    if (!missing.empty()) {
      notes.push_back(fmt::format("{} of the mapped files cannot be opened ({}): {}",
                                  missing.size(), listed(missing), kConsequence));
    }
    if (!others.empty()) {
      notes.push_back(fmt::format("{} of the mapped files have changed since ({}): {}",
                                  others.size(), listed(others), kConsequence));
    }
    if (!unproved.empty()) {
      notes.push_back(fmt::format(
          "the core has no build-id of {} of the mapped files ({}): they are taken to be unchanged "
          "because their sizes match",
          unproved.size(), listed(unproved)));
    }
  }
};

CoreModules::CoreModules(const std::vector<CoreRegion>& regions, Options options,
                         uint64_t page_size, std::vector<std::string>& notes)
    : options_(std::move(options)), page_size_(page_size) {
  collect(regions);
  Verdicts verdicts;
  for (auto& [path, module] : modules_) examine(path, module, verdicts);
  verdicts.tell(notes);
}

void CoreModules::collect(const std::vector<CoreRegion>& regions) {
  for (const CoreRegion& region : regions) {
    if (region.file == nullptr || !region.file->path.starts_with('/')) continue;
    Module& module = modules_[region.file->path];
    module.deleted |= region.file->deleted;
    // PROT_NONE mappings fill the gaps between segments and may reach past the end of the file.
    uint64_t end = 0;
    if ((!region.flags_known || (region.flags & PF_R) != 0) &&
        !__builtin_add_overflow(region.file_offset, region.range.size(), &end)) {
      module.mapped_end = std::max(module.mapped_end, end);
    }
    if (region.file_offset != 0 || !module.recorded_build_id.empty()) continue;
    try {
      // A mapping of offset 0 starts with the headers, and the build-id lies right behind them.
      module.recorded_build_id = find_build_id(ElfHeaders::parse(region.dumped, "core"));
    } catch (const Error&) {
      // Not an ELF file, or its first page was not dumped.
    }
  }
}

void CoreModules::examine(const std::string& path, Module& module, Verdicts& verdicts) {
  const bool is_exe = path == options_.exe_path && !options_.exe_override.empty();
  module.local_root = is_exe ? std::string() : options_.sysroot;
  module.local_path = is_exe ? options_.exe_override : path;
  std::optional<MappedFile> found = open(module);
  if (!found) {
    // Not files at all, as far as contents go.
    const bool is_memory = path.starts_with("/dev/") || path.starts_with("/memfd:") ||
                           path.starts_with("/SYSV") || path.starts_with("/anon_hugepage");
    if (!is_memory) verdicts.missing.push_back(path);
    return;
  }
  const uint64_t size = found->bytes().size();
  const uint64_t pages = (size + page_size_ - 1) / page_size_;
  const bool size_fits = pages * page_size_ >= module.mapped_end;
  std::optional<ElfImage> image;
  try {
    image = ElfImage::from_file(std::move(*found), module.local_root + module.local_path);
  } catch (const Error&) {
    // Data of some other kind (a locale archive, a cache): only its size can be compared.
  }
  const bool proved =
      image && !module.recorded_build_id.empty() && image->build_id() == module.recorded_build_id;
  const bool refuted = !size_fits || module.deleted || !module.recorded_build_id.empty();
  if (!proved && refuted) {
    verdicts.others.push_back(path);
    return;
  }
  module.fits = true;
  if (!proved && image) verdicts.unproved.push_back(path);
  module.image = std::move(image);
}

void CoreModules::complete(std::vector<CoreRegion>& regions) const {
  std::map<std::string, Address> bases;  // where the file was mapped last, going up
  for (CoreRegion& region : regions) {
    if (region.file == nullptr) continue;
    const std::string& path = region.file->path;
    const auto found = modules_.find(path);
    if (found == modules_.end() || !found->second.image) continue;
    const ElfImage& image = *found->second.image;
    if (region.file_offset == 0) bases[path] = region.range.begin;
    if (!region.flags_known) {
      // gcore leaves out what is unchanged, program header and all.
      const ElfSegment* segment = segment_at(image, region.range.begin - bases[path], page_size_);
      region.flags = segment == nullptr ? 0 : segment->flags;
    }
    if ((region.flags & PF_R) != 0 && (region.flags & PF_W) == 0) {
      region.from_file = clipped(image.file_bytes(), region.file_offset, region.range.size());
    }
  }
}

std::string CoreModules::build_id(const std::string& path) const {
  const auto found = modules_.find(path);
  if (found == modules_.end()) return {};
  const Module& module = found->second;
  if (!module.recorded_build_id.empty() || !module.image) return module.recorded_build_id;
  return module.image->build_id();
}

std::optional<MappedFile> CoreModules::open(const std::string& path) const {
  const auto found = modules_.find(path);
  return found == modules_.end() || !found->second.fits ? std::nullopt : open(found->second);
}

std::optional<MappedFile> CoreModules::open(const Module& module) {
  try {
    return MappedFile::open_in(module.local_root, module.local_path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace heapsnap
