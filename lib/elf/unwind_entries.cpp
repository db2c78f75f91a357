#include "elf/unwind_entries.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "base/byte_reader.h"
#include "base/error.h"
#include "elf/elf_headers.h"

namespace heapsnap {

namespace {

// The largest programs have a million.
constexpr size_t kMostEntries = 8U << 20;

struct FrameSection {
  std::span<const std::byte> bytes;
  uint64_t address = 0;
};

// A number as the lower half of a DW_EH_PE_ encoding says; nothing when it is not known.
std::optional<uint64_t> read_number(ByteReader& bytes, uint8_t encoding, bool is_64_bit) {
  switch (encoding & 0x0f) {
    case DW_EH_PE_absptr: return is_64_bit ? bytes.read<uint64_t>() : bytes.read<uint32_t>();
    case DW_EH_PE_udata2: return bytes.read<uint16_t>();
    case DW_EH_PE_udata4: return bytes.read<uint32_t>();
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8: return bytes.read<uint64_t>();
    case DW_EH_PE_sdata2: return static_cast<uint64_t>(int64_t{bytes.read<int16_t>()});
    case DW_EH_PE_sdata4: return static_cast<uint64_t>(int64_t{bytes.read<int32_t>()});
    default: return std::nullopt;
  }
}

// The same, as an address; the number itself stands at `at`.
std::optional<uint64_t> read_address(ByteReader& bytes, uint8_t encoding, bool is_64_bit,
                                     uint64_t at) {
  const auto number = read_number(bytes, encoding, is_64_bit);
  if (!number) return std::nullopt;
  const uint64_t mask = is_64_bit ? UINT64_MAX : UINT32_MAX;
  switch (encoding & 0xf0) {
    case DW_EH_PE_absptr: return *number & mask;
    case DW_EH_PE_pcrel: return (*number + at) & mask;
    default: return std::nullopt;
  }
}

// .eh_frame by its section, or by PT_GNU_EH_FRAME where there are no section headers.
FrameSection find_frames(const ElfImage& image) {
  if (const ElfSection* const section = image.section(".eh_frame")) {
    return {image.bytes_at(section->address, section->size), section->address};
  }
  const auto header =
      std::find_if(image.segments().begin(), image.segments().end(),
                   [](const ElfSegment& segment) { return segment.type == PT_GNU_EH_FRAME; });
  if (header == image.segments().end()) return {};
  // Version, encodings of the pointer to .eh_frame, of the table's count and of the table.
  constexpr size_t kPointerAt = 4;
  const auto bytes = image.bytes_at(header->address, 64);
  if (bytes.size() <= kPointerAt || bytes[0] != std::byte{1}) return {};
  try {
    ByteReader reader(bytes.subspan(kPointerAt), ".eh_frame_hdr");
    const auto frames =
        read_address(reader, static_cast<uint8_t>(bytes[1]), image.machine() != Machine::kI386,
                     header->address + kPointerAt);
    if (frames) return {image.bytes_at(*frames, UINT64_MAX), *frames};
  } catch (const Error&) {
    // Cut off: as if it were not there.
  }
  return {};
}

class FrameReading {
 public:
  explicit FrameReading(const ElfImage& image)
      : image_(image), section_(find_frames(image)), is_64_bit_(image.machine() != Machine::kI386) {
    // libdw only reads.
    data_.d_buf = const_cast<std::byte*>(section_.bytes.data());
    data_.d_size = section_.bytes.size();
    data_.d_type = ELF_T_BYTE;
    data_.d_version = EV_CURRENT;
    std::memcpy(identity_, image.file_bytes().data(), EI_NIDENT);
  }

  std::vector<CodeStretch> run() {
    std::vector<CodeStretch> entries;
    for (Dwarf_Off offset = 0; entries.size() < kMostEntries;) {
      Dwarf_Off next = 0;
      Dwarf_CFI_Entry entry;
      const int status = dwarf_next_cfi(identity_, &data_, true, offset, &next, &entry);
      if (status == 0) take(offset, entry, entries);
      // A damaged entry whose length makes sense is passed over.
      if (status > 0 || next <= offset || next >= section_.bytes.size()) break;
      offset = next;
    }
    return entries;
  }

 private:
  void take(Dwarf_Off offset, const Dwarf_CFI_Entry& entry, std::vector<CodeStretch>& entries) {
    if (dwarf_cfi_cie_p(&entry)) {
      if (const auto encoding = encoding_of(entry.cie)) encodings_.emplace(offset, *encoding);
    } else if (const auto stretch = stretch_of(entry.fde)) {
      entries.push_back(*stretch);
    }
  }

  std::optional<CodeStretch> stretch_of(const Dwarf_FDE& entry) const {
    // A CIE stands before the entries that refer to it.
    const auto encoding = encodings_.find(entry.CIE_pointer);
    if (encoding == encodings_.end() || entry.end < entry.start) return std::nullopt;
    const auto* const begin = reinterpret_cast<const std::byte*>(entry.start);
    const uint64_t at = section_.address + static_cast<uint64_t>(begin - section_.bytes.data());
    try {
      ByteReader bytes({begin, static_cast<size_t>(entry.end - entry.start)}, ".eh_frame");
      const auto function = read_address(bytes, encoding->second, is_64_bit_, at);
      const auto size = read_number(bytes, encoding->second, is_64_bit_);
      if (!function || !size || *size == 0) return std::nullopt;
      const ElfSegment* const segment = image_.segment_of(*function);
      if (segment == nullptr || (segment->flags & PF_X) == 0 ||
          !fits_within(*function - segment->address, *size, segment->memory_size) ||
          *size > UINT64_MAX - *function) {
        return std::nullopt;
      }
      return CodeStretch{*function, *function + *size};
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // Of the addresses in the entries that refer to the CIE; nothing when that is not known.
  std::optional<uint8_t> encoding_of(const Dwarf_CIE& cie) const {
    const std::string_view letters(cie.augmentation);
    if (letters.empty()) return uint8_t{DW_EH_PE_absptr};
    if (letters.front() != 'z') return std::nullopt;
    try {
      ByteReader data({reinterpret_cast<const std::byte*>(cie.augmentation_data),
                       static_cast<size_t>(cie.augmentation_data_size)},
                      ".eh_frame");
      for (const char letter : letters.substr(1)) {
        if (letter == 'R') return data.read<uint8_t>();
        if (letter == 'L') data.skip(1);
        if (letter == 'P' && !read_number(data, data.read<uint8_t>(), is_64_bit_)) {
          return std::nullopt;
        }
      }
    } catch (const Error&) {
      return std::nullopt;
    }
    return uint8_t{DW_EH_PE_absptr};
  }

  const ElfImage& image_;
  FrameSection section_;
  bool is_64_bit_;
  Elf_Data data_{};
  unsigned char identity_[EI_NIDENT];
  std::map<Dwarf_Off, uint8_t> encodings_;  // of each CIE, by its offset
};

}  // namespace

UnwindEntries::UnwindEntries(const ElfImage& image) : entries_(FrameReading(image).run()) {
  std::sort(entries_.begin(), entries_.end(), [](const CodeStretch& a, const CodeStretch& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
}

std::optional<CodeStretch> UnwindEntries::entry_at(uint64_t address) const {
  auto at = std::upper_bound(
      entries_.begin(), entries_.end(), address,
      [](uint64_t wanted, const CodeStretch& entry) { return wanted < entry.begin; });
  // Entries of sound files do not overlap, but for those of functions that the linker dropped.
  constexpr int kOverlaps = 8;
  for (int i = 0; i < kOverlaps && at != entries_.begin(); ++i) {
    --at;
    if (at->contains(address)) return *at;
  }
  return std::nullopt;
}

CodeStretch UnwindEntries::gap_at(uint64_t address) const {
  const auto next = std::upper_bound(
      entries_.begin(), entries_.end(), address,
      [](uint64_t wanted, const CodeStretch& entry) { return wanted < entry.begin; });
  return {next == entries_.begin() ? 0 : std::min(std::prev(next)->end, address),
          next == entries_.end() ? UINT64_MAX : next->begin};
}

}  // namespace heapsnap
