// A small shared library of known contents, for any of the machines.
#pragma once

#include "elf_builder.h"

namespace heapsnap::test {

enum class HashStyle { kSysV, kGnu };

// Virtual addresses are file offsets plus kSampleBase. It exports kSampleSymbols: "undefined_one",
// "sample_data" and "sample_code", has one RELA (REL on i386) relocation, two by RELR and one of
// the PLT, and a build-id of kSampleBuildId's letters.
constexpr uint64_t kSampleBase = 0x10000;
constexpr std::string_view kSampleBuildId = "0123456789abcdefghij";
constexpr uint64_t kSampleDataValue = 0x1122334455667788;
constexpr uint64_t kSampleRelrOffset = 16;  // of the two words from the start of the data
constexpr uint32_t kSamplePltType = 7;

struct SampleLibrary {
  Bytes bytes;
  uint64_t data_address = 0;  // what sample_data names; 4 words
  uint64_t code_address = 0;
};

template <typename Records>
SampleLibrary make_sample_library(Machine machine, HashStyle hash_style, bool with_sections) {
  using Word = typename Records::Word;
  using Symbol = typename Records::Symbol;
  constexpr bool kIs64 = sizeof(Word) == 8;
  ElfBuilder builder(machine, ET_DYN);
  SampleLibrary library;

  Bytes data;
  put(data, static_cast<Word>(kSampleDataValue));
  put(data, static_cast<Word>(0x42));
  data.resize(kSampleRelrOffset);
  put(data, static_cast<Word>(0x51));
  put(data, static_cast<Word>(0x52));
  const uint64_t data_at = builder.append(data);
  library.data_address = kSampleBase + data_at;

  Bytes code(16, std::byte{0xc3});
  const uint64_t code_at = builder.append(code);
  library.code_address = kSampleBase + code_at;

  Bytes notes;
  put_build_id(notes, kSampleBuildId);
  const uint64_t notes_at = builder.append(notes);

  Bytes names;
  names.push_back(std::byte{0});
  const auto add_name = [&names](std::string_view name) {
    const auto offset = static_cast<uint32_t>(names.size());
    put_text(names, name);
    names.push_back(std::byte{0});
    return offset;
  };
  Bytes symbols;
  put(symbols, Symbol{});
  const auto add_symbol = [&](std::string_view name, uint64_t value, uint64_t size, unsigned type,
                              uint16_t section) {
    Symbol symbol = {};
    symbol.st_name = add_name(name);
    symbol.st_value = static_cast<Word>(value);
    symbol.st_size = static_cast<Word>(size);
    symbol.st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_GLOBAL, type));
    symbol.st_shndx = section;
    put(symbols, symbol);
  };
  add_symbol("undefined_one", 0, 0, STT_FUNC, SHN_UNDEF);
  add_symbol("sample_data", library.data_address, data.size(), STT_OBJECT, 1);
  add_symbol("sample_code", library.code_address, code.size(), STT_FUNC, 1);
  const uint64_t symbols_at = builder.append(symbols);
  const uint64_t names_at = builder.append(names);

  Bytes hash;
  if (hash_style == HashStyle::kSysV) {
    for (const uint32_t word : {1U, 4U, 1U, 0U, 2U, 3U, 0U}) put(hash, word);
  } else {
    // Two buckets, symbols from 2 on; symbol 2 is alone in bucket 0, symbol 3 in bucket 1.
    for (const uint32_t word : {2U, 2U, 1U, 0U}) put(hash, word);
    put(hash, static_cast<Word>(~uint64_t{0}));
    for (const uint32_t word : {2U, 3U, 0x10U | 1U, 0x20U | 1U}) put(hash, word);
  }
  const uint64_t hash_at = builder.append(hash);

  Bytes relocations;
  const uint64_t info = kIs64 ? ELF64_R_INFO(uint64_t{2}, 6) : ELF32_R_INFO(2, 6);
  put(relocations, static_cast<Word>(library.data_address));
  put(relocations, static_cast<Word>(info));
  if constexpr (kIs64) put(relocations, uint64_t{0x99});
  const uint64_t relocations_at = builder.append(relocations);

  Bytes plt;
  const uint64_t plt_info =
      kIs64 ? ELF64_R_INFO(uint64_t{1}, kSamplePltType) : ELF32_R_INFO(1, kSamplePltType);
  put(plt, static_cast<Word>(library.data_address + sizeof(Word)));
  put(plt, static_cast<Word>(plt_info));
  if constexpr (kIs64) put(plt, uint64_t{0});
  const uint64_t plt_at = builder.append(plt);

  // One address, then a bitmap whose first bit means the word after it.
  Bytes relr;
  put(relr, static_cast<Word>(library.data_address + kSampleRelrOffset));
  put(relr, static_cast<Word>(0b11));
  const uint64_t relr_at = builder.append(relr);

  using Dynamic = typename Records::Dynamic;
  Bytes dynamic;
  const auto add_dynamic = [&dynamic](int64_t tag, uint64_t value) {
    Dynamic entry = {};
    entry.d_tag = static_cast<decltype(entry.d_tag)>(tag);
    entry.d_un.d_val = static_cast<Word>(value);
    put(dynamic, entry);
  };
  add_dynamic(hash_style == HashStyle::kSysV ? DT_HASH : DT_GNU_HASH, kSampleBase + hash_at);
  add_dynamic(DT_SYMTAB, kSampleBase + symbols_at);
  add_dynamic(DT_STRTAB, kSampleBase + names_at);
  add_dynamic(DT_STRSZ, names.size());
  add_dynamic(kIs64 ? DT_RELA : DT_REL, kSampleBase + relocations_at);
  add_dynamic(kIs64 ? DT_RELASZ : DT_RELSZ, relocations.size());
  add_dynamic(DT_JMPREL, kSampleBase + plt_at);
  add_dynamic(DT_PLTRELSZ, plt.size());
  add_dynamic(DT_PLTREL, kIs64 ? DT_RELA : DT_REL);
  add_dynamic(36, kSampleBase + relr_at);  // DT_RELR
  add_dynamic(35, relr.size());            // DT_RELRSZ
  add_dynamic(DT_NULL, 0);
  const uint64_t dynamic_at = builder.append(dynamic);
  const uint64_t end = dynamic_at + dynamic.size();

  builder.segment({.type = PT_LOAD,
                   .flags = PF_R | PF_W | PF_X,
                   .file_offset = 0,
                   .address = kSampleBase,
                   .file_size = end,
                   .memory_size = end + 0x100,
                   .alignment = 0x1000});
  builder.segment({.type = PT_DYNAMIC,
                   .flags = PF_R,
                   .file_offset = dynamic_at,
                   .address = kSampleBase + dynamic_at,
                   .file_size = dynamic.size(),
                   .memory_size = dynamic.size(),
                   .alignment = 8});
  builder.segment({.type = PT_NOTE,
                   .flags = PF_R,
                   .file_offset = notes_at,
                   .address = kSampleBase + notes_at,
                   .file_size = notes.size(),
                   .memory_size = notes.size(),
                   .alignment = 4});
  builder.segment({.type = PT_TLS,
                   .flags = PF_R,
                   .file_offset = data_at,
                   .address = kSampleBase + data_at,
                   .file_size = 8,
                   .memory_size = 0x90,
                   .alignment = 16});
  if (with_sections) {
    builder.section({.name = ".text",
                     .type = SHT_PROGBITS,
                     .flags = SHF_ALLOC | SHF_EXECINSTR,
                     .address = kSampleBase + code_at,
                     .file_offset = code_at,
                     .size = code.size()});
    builder.section({.name = ".dynsym",
                     .type = SHT_DYNSYM,
                     .flags = SHF_ALLOC,
                     .address = kSampleBase + symbols_at,
                     .file_offset = symbols_at,
                     .size = symbols.size(),
                     .link = 3});
    builder.section({.name = ".dynstr",
                     .type = SHT_STRTAB,
                     .flags = SHF_ALLOC,
                     .address = kSampleBase + names_at,
                     .file_offset = names_at,
                     .size = names.size()});
  }
  library.bytes = builder.finish();
  return library;
}

inline SampleLibrary sample_library(Machine machine, HashStyle hash_style = HashStyle::kSysV,
                                    bool with_sections = false) {
  return machine == Machine::kI386
             ? make_sample_library<Elf32Records>(machine, hash_style, with_sections)
             : make_sample_library<Elf64Records>(machine, hash_style, with_sections);
}

}  // namespace heapsnap::test
