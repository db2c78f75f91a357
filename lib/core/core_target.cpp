#include "core/core_target.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/most_mapped_bytes.h"
#include "core/core_file.h"
#include "core/core_memory.h"
#include "core/core_modules.h"
#include "core/core_notes.h"
#include "core/core_regions.h"

namespace heapsnap {

namespace {

// Everything that the other parts point into.
struct CoreContents {
  MappedFile file;
  std::optional<ElfHeaders> headers;
  std::vector<MappedFile> image_files;
  std::vector<CoreImage> images;
  CoreNotes notes;
  std::vector<CoreRegion> regions;
  std::optional<CoreModules> modules;
};

class CoreTarget final : public Target {
 public:
  CoreTarget(std::unique_ptr<CoreContents> contents, Process process, AddressSpace address_space)
      : contents_(std::move(contents)),
        process_(std::move(process)),
        address_space_(std::move(address_space)),
        memory_(contents_->regions),
        residency_(address_space_, process_.page_size) {}

  const Process& process() const override { return process_; }
  const AddressSpace& address_space() const override { return address_space_; }
  const std::vector<Thread>& threads() const override { return contents_->notes.threads; }
  MemoryReader& memory() override { return memory_; }
  PageResidency& residency() override { return residency_; }
  bool is_mapped_here() const override { return true; }
  std::span<const std::byte> mapped_bytes(Address address) override {
    return memory_.bytes_at(address);
  }
  std::optional<MappedFile> open_file(const Mapping& mapping) override {
    return contents_->modules->open(mapping.path);
  }

 private:
  std::unique_ptr<CoreContents> contents_;
  Process process_;
  AddressSpace address_space_;
  CoreMemory memory_;
  CoreResidency residency_;
};

ElfHeaders parse_core(std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.size() < SELFMAG || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) {
    throw Error(ErrorKind::kBadInput, "cannot read " + path, "not an ELF file, as a core is",
                "give a core, as gcore(1) writes one; for a snapshot: heapsnap report FILE");
  }
  auto headers = ElfHeaders::parse(bytes, path);
  if (headers.type != ET_CORE) {
    throw Error(ErrorKind::kBadInput, "cannot read " + path,
                "an ELF file, but a program or library, not a core",
                "give the core file; pass the program with --exe");
  }
  return headers;
}

// Path of the file that holds the program's entry point; empty when the core does not tell.
std::string executable_path(const CoreNotes& notes) {
  for (const uint64_t type : {uint64_t{AT_ENTRY}, uint64_t{AT_PHDR}}) {
    const auto address = notes.auxiliary(type);
    if (!address) continue;
    for (const CoreNotes::File& file : notes.files) {
      if (file.range.contains(Address(*address))) return file.path;
    }
  }
  return {};
}

// What the kernel's own names in /proc/PID/maps would be, as far as the auxiliary vector tells.
std::string special_name(const CoreNotes& notes, AddressRange range) {
  const auto holds = [&](uint64_t type) {
    const auto address = notes.auxiliary(type);
    return address && range.contains(Address(*address));
  };
  if (holds(AT_SYSINFO_EHDR)) return "[vdso]";
  if (holds(AT_RANDOM) || holds(AT_EXECFN)) return "[stack]";
  return {};
}

AddressSpace address_space_of(const CoreContents& contents) {
  std::map<std::string, uint64_t> inodes;
  std::vector<Mapping> mappings;
  mappings.reserve(contents.regions.size());
  for (const CoreRegion& region : contents.regions) {
    Mapping mapping;
    mapping.range = region.range;
    mapping.readable = (region.flags & PF_R) != 0;
    mapping.writable = (region.flags & PF_W) != 0;
    mapping.executable = (region.flags & PF_X) != 0;
    if (region.file != nullptr) {
      mapping.path = region.file->path;
      mapping.deleted = region.file->deleted;
      mapping.file_offset = region.file_offset;
      // A core has no inode numbers; any will do that tells files from each other.
      mapping.inode = inodes.emplace(mapping.path, inodes.size() + 1).first->second;
      // Nor does it say what was shared; these are never private memory of a heap.
      mapping.shared = mapping.path.starts_with("/SYSV") || mapping.path.starts_with("/dev/zero") ||
                       mapping.path.starts_with("/dev/shm/");
    } else {
      mapping.path = special_name(contents.notes, region.range);
    }
    mappings.push_back(std::move(mapping));
  }
  return AddressSpace(std::move(mappings));
}

// Disjoint as regions are, their sizes cannot overflow the sum.
void check_sizes(const std::vector<CoreRegion>& regions, const std::string& path) {
  uint64_t sum = 0;
  for (const CoreRegion& region : regions) {
    sum += region.range.size();
    if (sum <= kMostMappedBytes) continue;
    throw Error(ErrorKind::kBadInput, path + " is damaged",
                fmt::format("the memory that it lists is larger than an address space: {} bytes at "
                            "{:#x} alone",
                            region.range.size(), region.range.begin.value()),
                "copy it again, or take another core");
  }
}

void tell_what_is_missing(const CoreContents& contents, const std::string& path,
                          std::vector<std::string>& notes) {
  uint64_t claimed = 0;
  uint64_t dumped = 0;
  bool has_writable = false;
  bool has_writable_contents = false;
  for (const CoreRegion& region : contents.regions) {
    claimed += region.claimed;
    dumped += region.dumped.size();
    if ((region.flags & PF_W) == 0) continue;
    has_writable = true;
    has_writable_contents |= !region.dumped.empty();
  }
  if (dumped < claimed) {
    notes.push_back(
        fmt::format("{} is truncated: it contains {} of the {} bytes of memory that it lists", path,
                    dumped, claimed));
  }
  if (has_writable && !has_writable_contents) {
    notes.push_back(fmt::format(
        "{} contains no writable memory, so no heap: see coredump_filter in core(5) and ulimit -c",
        path));
  }
  const auto& threads = contents.notes.threads;
  if (contents.headers && threads.empty()) {
    notes.push_back(fmt::format("{} lists no threads: per-thread caches cannot be found", path));
  } else if (!threads.empty() &&
             std::all_of(threads.begin(), threads.end(), [](const Thread& thread) {
               return thread.registers->thread_pointer.is_null();
             })) {
    // gcore writes no NT_386_TLS.
    notes.push_back(
        fmt::format("{} has no thread pointers: per-thread caches cannot be found", path));
  }
}

int64_t modification_time_ns(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

std::unique_ptr<Target> open_core(const CoreOptions& options, std::vector<std::string>& notes) {
  if (options.core_path.empty() && options.images.empty()) {
    throw Error(ErrorKind::kUsage, "nothing to read",
                "neither a core nor a memory image was given");
  }
  auto contents = std::make_unique<CoreContents>();
  if (!options.core_path.empty()) {
    contents->file = open_core_file(options.core_path, notes);
    contents->headers = parse_core(contents->file.bytes(), options.core_path);
    contents->notes = read_core_notes(*contents->headers);
  } else if (!options.exe.empty()) {
    const auto exe = ElfImage::from_file(MappedFile::open(options.exe), options.exe);
    contents->notes.process.machine = exe.machine();
  }
  for (const CoreOptions::Image& image : options.images) {
    contents->image_files.push_back(MappedFile::open(image.path));
    contents->images.push_back({image.base, contents->image_files.back().bytes()});
  }

  Process process = contents->notes.process;
  process.exe = executable_path(contents->notes);
  process.taken_at_ns = modification_time_ns(options.core_path.empty() ? options.images.front().path
                                                                       : options.core_path);
  if (!options.exe.empty() && options.core_path.empty()) process.exe = options.exe;
  if (!options.exe.empty() && process.exe.empty()) {
    notes.push_back("the core does not say which of its files is the program: --exe is not used");
  }

  contents->regions = core_regions(
      contents->images, contents->headers ? &*contents->headers : nullptr, contents->notes.files);
  check_sizes(contents->regions, options.core_path);
  contents->modules.emplace(
      contents->regions,
      CoreModules::Options{
          .sysroot = options.sysroot, .exe_path = process.exe, .exe_override = options.exe},
      process.page_size, notes);
  process.build_id = contents->modules->build_id(process.exe);
  contents->modules->complete(contents->regions);
  tell_what_is_missing(*contents, options.core_path, notes);
  auto address_space = address_space_of(*contents);
  return std::make_unique<CoreTarget>(std::move(contents), std::move(process),
                                      std::move(address_space));
}

}  // namespace heapsnap
