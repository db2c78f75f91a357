#include "elf/dwarf_copy.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/byte_reader.h"
#include "elf/elf_headers.h"
#include "elf/section_unpacker.h"

namespace heapsnap {

namespace {

constexpr uint32_t kLongestUnit = 0xfffffff0;  // what is longer has 64-bit offsets

bool is_debug_section(const ElfSection& section) {
  return section.name.starts_with(".debug_") || section.name.starts_with(".zdebug_");
}

bool is_wanted_section(const ElfSection& section, std::span<const std::string_view> wanted) {
  const std::string_view name = section.name;
  return std::find(wanted.begin(), wanted.end(), name.substr(name.find('_') + 1)) != wanted.end();
}

// A copy of a file's headers, with room behind it, into which sections are put.
template <typename Records>
class CopyBuilder {
 public:
  using Section = typename Records::Section;

  CopyBuilder(const ElfImage& file, uint64_t size) : file_(file), bytes_(file.file_bytes()) {
    if (bytes_.size() < sizeof(typename Records::Header)) return;
    // Memory that is not written to takes none.
    copy_.bytes.reset(static_cast<std::byte*>(std::calloc(size, 1)));
    if (copy_.bytes == nullptr) return;
    copy_.size = size;
    typename Records::Header header;
    std::memcpy(&header, bytes_.data(), sizeof(header));
    table_ = header.e_shoff;
    copy(0, sizeof(header));
    copy(table_, file.sections().size() * sizeof(Section));
  }

  bool is_there() const { return copy_.bytes != nullptr; }
  std::byte* at(uint64_t offset) { return copy_.bytes.get() + offset; }
  void copy(uint64_t offset, uint64_t size) {
    const auto part = clipped(bytes_, offset, size);
    if (!part.empty()) std::memcpy(at(offset), part.data(), part.size());
  }
  // Calls `change` with the header of a section.
  template <typename Change>
  void change_header(size_t number, Change change) {
    const uint64_t place = table_ + number * sizeof(Section);
    Section header;
    std::memcpy(&header, at(place), sizeof(header));
    change(header);
    std::memcpy(at(place), &header, sizeof(header));
  }
  // Copies the sections that are wanted, but for `.debug_info` where it is `own_info`.
  void copy_sections(std::span<const std::string_view> wanted, const ElfSection* own_info) {
    for (size_t i = 0; i < file_.sections().size(); ++i) {
      const ElfSection& section = file_.sections()[i];
      if (section.type == SHT_NOBITS || &section == own_info) continue;
      if (is_debug_section(section) && !is_wanted_section(section, wanted)) {
        change_header(i, [](Section& header) { header.sh_type = SHT_NOBITS; });
      } else if (is_debug_section(section) || section.type == SHT_STRTAB ||
                 section.name == ".gnu_debugaltlink") {
        copy(section.file_offset, section.size);
      }
    }
  }
  DwarfCopy take() { return std::move(copy_); }

 private:
  const ElfImage& file_;
  std::span<const std::byte> bytes_;
  uint64_t table_ = 0;
  DwarfCopy copy_;
};

// Where in .debug_info the unit of the code at `address` begins, by .debug_aranges.
std::optional<uint64_t> unit_of_code(const ElfImage& file, uint64_t address) {
  const ElfSection* const section = file.section(".debug_aranges");
  if (section == nullptr) return std::nullopt;
  const unsigned word = word_size(file.machine());
  SectionUnpacker sets(file, *section);
  std::vector<std::byte> tuples;
  std::array<std::byte, 12> header;
  constexpr uint32_t kHeaderRest = 8;  // behind the length
  constexpr uint32_t kLongestSet = 16 << 20;
  while (sets.read(header)) {
    ByteReader reader(header, {});
    const auto length = reader.read<uint32_t>();
    const auto version = reader.read<uint16_t>();
    const auto unit = reader.read<uint32_t>();
    const auto address_size = reader.read<uint8_t>();
    const auto segment_size = reader.read<uint8_t>();
    if (length < kHeaderRest || length > kLongestSet || version != 2 || address_size != word ||
        segment_size != 0) {
      return std::nullopt;
    }
    tuples.resize(length - kHeaderRest);
    if (!sets.read(tuples)) return std::nullopt;
    // A tuple lies at a multiple of its size from the set's begin on.
    constexpr size_t kFirst = 4;
    for (size_t at = kFirst; fits_within(at, size_t{2} * word, tuples.size());
         at += size_t{2} * word) {
      uint64_t begin = 0;
      uint64_t size = 0;
      std::memcpy(&begin, tuples.data() + at, word);
      std::memcpy(&size, tuples.data() + at + word, word);
      if (address >= begin && address - begin < size) return unit;
    }
  }
  return std::nullopt;
}

// A unit with no entry, of `size` bytes.
bool put_filler(std::byte* to, uint64_t size, unsigned word) {
  constexpr size_t kLeast = 12;  // with the code 0, for no entry
  if (size < kLeast || size - 4 >= kLongestUnit) return size == 0;
  const auto length = static_cast<uint32_t>(size - 4);
  const uint16_t version = 4;
  std::memcpy(to, &length, sizeof(length));
  std::memcpy(to + 4, &version, sizeof(version));
  to[10] = static_cast<std::byte>(word);
  return true;
}

template <typename Records>
DwarfCopy copy_unit(const ElfImage& file, std::span<const std::string_view> wanted,
                    const ElfSection& info, uint64_t begin) {
  SectionUnpacker unpacker(file, info);
  uint32_t length = 0;
  if (!unpacker.skip(begin) || !unpacker.read(std::as_writable_bytes(std::span(&length, 1))) ||
      length >= kLongestUnit || length > unpacker.left()) {
    return {};
  }
  const uint64_t place = (file.file_bytes().size() + 15) / 16 * 16;
  const uint64_t size = begin + sizeof(length) + length;
  CopyBuilder<Records> builder(file, place + size);
  if (!builder.is_there() || !put_filler(builder.at(place), begin, word_size(file.machine()))) {
    return {};
  }
  builder.copy_sections(wanted, &info);
  std::byte* const unit = builder.at(place + begin);
  std::memcpy(unit, &length, sizeof(length));
  if (!unpacker.read({unit + sizeof(length), length})) return {};
  builder.change_header(static_cast<size_t>(&info - file.sections().data()),
                        [&](typename Records::Section& header) {
                          using Size = decltype(header.sh_size);
                          header.sh_flags &= ~static_cast<Size>(SHF_COMPRESSED);
                          header.sh_offset = static_cast<Size>(place);
                          header.sh_size = static_cast<Size>(size);
                          header.sh_addralign = 1;
                        });
  return builder.take();
}

template <typename Visitor>
auto with_records(const ElfImage& file, Visitor visitor) {
  return file.machine() == Machine::kI386 ? visitor(Elf32Records{}) : visitor(Elf64Records{});
}

}  // namespace

DwarfCopy copy_for_dwarf(const ElfImage& file, std::span<const std::string_view> wanted) {
  return with_records(file, [&](auto records) {
    CopyBuilder<decltype(records)> builder(file, file.file_bytes().size());
    if (builder.is_there()) builder.copy_sections(wanted, nullptr);
    return builder.take();
  });
}

DwarfCopy copy_unit_for_dwarf(const ElfImage& file, std::span<const std::string_view> wanted,
                              uint64_t address) {
  const ElfSection* const info = file.section(".debug_info");
  const auto begin = info == nullptr ? std::nullopt : unit_of_code(file, address);
  if (!begin) return {};
  return with_records(file, [&](auto records) {
    return copy_unit<decltype(records)>(file, wanted, *info, *begin);
  });
}

}  // namespace heapsnap
