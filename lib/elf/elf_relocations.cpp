#include "elf/elf_relocations.h"

#include <algorithm>
#include <type_traits>

namespace heapsnap {

namespace {

// In <elf.h> of glibc 2.36 on; the values are those of the generic ABI.
constexpr int64_t kDynamicRelrSize = 35;
constexpr int64_t kDynamicRelr = 36;
constexpr uint32_t kSectionRelr = 19;

// Tables of a sparse file may be as long as no memory is; Chromium has half a million.
constexpr uint64_t kMostRelocations = 4U << 20;

uint32_t relative_type(Machine machine) {
  switch (machine) {
    case Machine::kX86_64: return R_X86_64_RELATIVE;
    case Machine::kAarch64: return R_AARCH64_RELATIVE;
    case Machine::kI386: return R_386_RELATIVE;
  }
  return 0;
}

template <typename Records>
class RelocationReader {
 public:
  using Word = typename Records::Word;

  explicit RelocationReader(const ElfHeaders& headers) : headers_(headers) {}

  void read_rela(std::span<const std::byte> table) {
    for_each<typename Records::Rela>(table, [this](const auto& entry) {
      add(entry.r_offset, entry.r_info, static_cast<Word>(entry.r_addend));
    });
  }

  void read_rel(std::span<const std::byte> table) {
    for_each<typename Records::Rel>(table, [this](const auto& entry) {
      add(entry.r_offset, entry.r_info, word_at(entry.r_offset).value_or(0));
    });
  }

  // An even word is an address to relocate; an odd one a bitmap of the (bits - 1) words after the
  // last address or bitmap.
  void read_relr(std::span<const std::byte> table) {
    constexpr uint64_t kBits = sizeof(Word) * 8 - 1;
    const uint32_t type = relative_type(headers_.machine);
    // Each names another word of the file, so more than that many is damage. It is also the only
    // bound: one bitmap word makes up to 63 entries.
    uint64_t budget = std::min<uint64_t>(headers_.bytes.size() / sizeof(Word), kMostRelocations);
    const auto relocate = [&](Word address) {
      const auto addend = word_at(address);
      if (!addend || budget == 0) return;
      --budget;
      relocations_.push_back({.offset = address, .type = type, .symbol = 0, .addend = *addend});
    };
    Word next = 0;
    for_each<Word>(table, [&](Word entry) {
      if ((entry & 1) == 0) {
        relocate(entry);
        next = static_cast<Word>(entry + sizeof(Word));
        return;
      }
      for (uint64_t bit = 0; bit < kBits; ++bit) {
        if ((entry >> (bit + 1) & 1) != 0) relocate(static_cast<Word>(next + bit * sizeof(Word)));
      }
      next = static_cast<Word>(next + kBits * sizeof(Word));
    });
  }

  std::vector<ElfRelocation> take() { return std::move(relocations_); }

 private:
  template <typename Entry, typename Visitor>
  void for_each(std::span<const std::byte> table, Visitor visitor) {
    const uint64_t count = std::min<uint64_t>(table.size() / sizeof(Entry), kMostRelocations);
    for (uint64_t i = 0; i < count && relocations_.size() < kMostRelocations; ++i) {
      visitor(*load_record<Entry>(table, i * sizeof(Entry)));
    }
  }

  std::optional<Word> word_at(uint64_t address) const {
    return load_record<Word>(headers_.bytes_at(address, sizeof(Word)), 0);
  }

  void add(uint64_t offset, uint64_t info, uint64_t addend) {
    relocations_.push_back({.offset = offset,
                            .type = Records::relocation_type(info),
                            .symbol = Records::relocation_symbol(info),
                            .addend = addend});
  }

  const ElfHeaders& headers_;
  std::vector<ElfRelocation> relocations_;
};

}  // namespace

std::vector<ElfRelocation> read_relocations(const ElfHeaders& headers, const ElfDynamic& dynamic) {
  return headers.with_records([&](auto records) {
    RelocationReader<decltype(records)> reader(headers);
    if (!dynamic.is_empty()) {
      reader.read_relr(dynamic.table(headers, kDynamicRelr, kDynamicRelrSize));
      reader.read_rela(dynamic.table(headers, DT_RELA, DT_RELASZ));
      reader.read_rel(dynamic.table(headers, DT_REL, DT_RELSZ));
      const auto plt = dynamic.table(headers, DT_JMPREL, DT_PLTRELSZ);
      dynamic.value(DT_PLTREL) == DT_RELA ? reader.read_rela(plt) : reader.read_rel(plt);
      return reader.take();
    }
    if (!headers.has_segment_contents) return reader.take();
    for (const ElfSection& section : headers.sections) {
      if ((section.flags & SHF_ALLOC) == 0) continue;
      const auto table = headers.contents(section);
      if (section.type == kSectionRelr) reader.read_relr(table);
      if (section.type == SHT_RELA) reader.read_rela(table);
      if (section.type == SHT_REL) reader.read_rel(table);
    }
    return reader.take();
  });
}

}  // namespace heapsnap
