#include "elf/elf_headers.h"

#include <algorithm>

#include "base/error.h"

namespace heapsnap {

namespace {

// Longer names exist in no sane file; copying them for each of many sections would not be bounded.
constexpr size_t kLongestSectionName = 256;

// What a file of a linker has at most (the 16 bits of e_shnum); others are objects. A core has a
// segment a mapping, and says so in sh_info.
constexpr uint64_t kMostSections = 64 << 10;
constexpr uint64_t kMostSegments = 4 << 20;

Machine read_machine(std::span<const std::byte> bytes, const std::string& name) {
  const auto fail = [&name](const std::string& why) -> Machine {
    throw Error(ErrorKind::kBadInput, "cannot read " + name, why);
  };
  // e_machine lies at the same place in both classes.
  const auto identity = load_record<Elf32_Ehdr>(bytes, 0);
  if (!identity || std::memcmp(identity->e_ident, ELFMAG, SELFMAG) != 0) {
    return fail("not an ELF file");
  }
  if (identity->e_ident[EI_DATA] != ELFDATA2LSB) return fail("a big-endian ELF file");
  const auto file_class = identity->e_ident[EI_CLASS];
  if (identity->e_machine == EM_X86_64 && file_class == ELFCLASS64) return Machine::kX86_64;
  if (identity->e_machine == EM_AARCH64 && file_class == ELFCLASS64) return Machine::kAarch64;
  if (identity->e_machine == EM_386 && file_class == ELFCLASS32) return Machine::kI386;
  return fail("an ELF file for machine " + std::to_string(identity->e_machine) + ", class " +
              std::to_string(file_class) + "; x86-64, i386 and aarch64 are supported");
}

template <typename Records>
void read_tables(ElfHeaders& headers) {
  using Segment = typename Records::Segment;
  using Section = typename Records::Section;
  const auto bytes = headers.bytes;
  const auto header = load_record<typename Records::Header>(bytes, 0);
  if (!header) return;
  headers.type = header->e_type;
  headers.entry = header->e_entry;

  // elf(5): counts that do not fit their 16 bits are kept in the first section header.
  const auto first_section = header->e_shoff != 0 ? load_record<Section>(bytes, header->e_shoff)
                                                  : std::optional<Section>();
  uint64_t segment_count = header->e_phnum;
  uint64_t section_count = header->e_shnum;
  uint64_t names_index = header->e_shstrndx;
  if (first_section) {
    if (segment_count == PN_XNUM) segment_count = first_section->sh_info;
    if (section_count == 0) section_count = first_section->sh_size;
    if (names_index == SHN_XINDEX) names_index = first_section->sh_link;
  } else {
    section_count = 0;
  }

  if (header->e_phoff != 0 && header->e_phentsize == sizeof(Segment)) {
    const auto table = clipped(bytes, header->e_phoff, UINT64_MAX);
    const uint64_t count =
        std::min({segment_count, kMostSegments, uint64_t{table.size() / sizeof(Segment)}});
    for (uint64_t i = 0; i < count; ++i) {
      const auto segment = load_record<Segment>(table, i * sizeof(Segment));
      if (segment->p_type == PT_NULL) continue;  // the zeros of a sparse file, too
      headers.segments.push_back({.type = segment->p_type,
                                  .flags = segment->p_flags,
                                  .file_offset = segment->p_offset,
                                  .address = segment->p_vaddr,
                                  .file_size = segment->p_filesz,
                                  .memory_size = segment->p_memsz,
                                  .alignment = segment->p_align});
    }
  }

  if (first_section && header->e_shentsize == sizeof(Section)) {
    const auto table = clipped(bytes, header->e_shoff, UINT64_MAX);
    const uint64_t count =
        std::min({section_count, kMostSections, uint64_t{table.size() / sizeof(Section)}});
    std::span<const std::byte> names;
    if (names_index < count) {
      const auto section = load_record<Section>(table, names_index * sizeof(Section));
      if (section->sh_type == SHT_STRTAB) {
        names = clipped(bytes, section->sh_offset, section->sh_size);
      }
    }
    headers.sections.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      const auto section = load_record<Section>(table, i * sizeof(Section));
      headers.sections.push_back(
          {.name = std::string(text_at(names, section->sh_name, kLongestSectionName)),
           .type = section->sh_type,
           .flags = section->sh_flags,
           .address = section->sh_addr,
           .file_offset = section->sh_offset,
           .size = section->sh_size,
           .link = section->sh_link});
    }
  }
}

}  // namespace

std::span<const std::byte> clipped(std::span<const std::byte> bytes, uint64_t offset,
                                   uint64_t size) {
  if (offset >= bytes.size()) return {};
  return bytes.subspan(offset, std::min<uint64_t>(size, bytes.size() - offset));
}

std::string_view text_at(std::span<const std::byte> bytes, uint64_t offset, size_t limit) {
  const auto rest = clipped(bytes, offset, limit);
  if (rest.empty()) return {};
  const void* end = std::memchr(rest.data(), 0, rest.size());
  if (end == nullptr) return {};
  return {reinterpret_cast<const char*>(rest.data()),
          static_cast<size_t>(static_cast<const std::byte*>(end) - rest.data())};
}

ElfHeaders ElfHeaders::parse(std::span<const std::byte> bytes, const std::string& name) {
  ElfHeaders headers;
  headers.bytes = bytes;
  headers.machine = read_machine(bytes, name);
  headers.with_records([&headers](auto records) { read_tables<decltype(records)>(headers); });
  // objcopy --only-keep-debug and eu-strip -f both turn code into SHT_NOBITS.
  headers.has_segment_contents =
      std::none_of(headers.sections.begin(), headers.sections.end(), [](const ElfSection& section) {
        return section.type == SHT_NOBITS && (section.flags & SHF_EXECINSTR) != 0;
      });
  return headers;
}

std::span<const std::byte> ElfHeaders::contents(const ElfSection& section) const {
  if (section.type == SHT_NOBITS || section.type == SHT_NULL) return {};
  return clipped(bytes, section.file_offset, section.size);
}

std::span<const std::byte> ElfHeaders::contents(const ElfSegment& segment) const {
  return clipped(bytes, segment.file_offset, segment.file_size);
}

const ElfSection* ElfHeaders::section(std::string_view name) const {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [name](const auto& section) { return section.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

const ElfSection* ElfHeaders::section_of_type(uint32_t section_type) const {
  const auto found =
      std::find_if(sections.begin(), sections.end(),
                   [section_type](const auto& section) { return section.type == section_type; });
  return found == sections.end() ? nullptr : &*found;
}

const ElfSegment* ElfHeaders::segment_of_type(uint32_t segment_type) const {
  const auto found =
      std::find_if(segments.begin(), segments.end(),
                   [segment_type](const auto& segment) { return segment.type == segment_type; });
  return found == segments.end() ? nullptr : &*found;
}

const ElfSegment* ElfHeaders::segment_of(uint64_t address) const {
  for (const ElfSegment& segment : segments) {
    if (segment.type == PT_LOAD && address >= segment.address &&
        address - segment.address < segment.memory_size) {
      return &segment;
    }
  }
  return nullptr;
}

std::span<const std::byte> ElfHeaders::bytes_at(uint64_t address, uint64_t size) const {
  const ElfSegment* segment = has_segment_contents ? segment_of(address) : nullptr;
  if (segment == nullptr) return {};
  return clipped(contents(*segment), address - segment->address, size);
}

}  // namespace heapsnap
