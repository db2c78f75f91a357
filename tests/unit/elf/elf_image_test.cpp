#include "elf/elf_image.h"

#include <doctest/doctest.h>
#include <lzma.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "sample_library.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

std::string names_of(const std::vector<ElfSymbol>& symbols) {
  std::string names;
  for (const ElfSymbol& symbol : symbols) names += std::string(symbol.name) + ";";
  return names;
}

bool lies_in(std::span<const std::byte> whole, std::span<const std::byte> part) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

// Calls everything that an image offers; whatever the bytes, no result may leave them.
void use(const Bytes& bytes) {
  try {
    const auto image = ElfImage::from_bytes(bytes, "damaged");
    CHECK(image.segments().size() <= bytes.size());
    CHECK(image.sections().size() <= bytes.size());
    for (const auto* symbols : {&image.dynamic_symbols(), &image.symbols()}) {
      for (const ElfSymbol& symbol : *symbols) {
        CHECK(lies_in(bytes, std::as_bytes(std::span(symbol.name))));
        CHECK(lies_in(bytes, image.bytes_at(symbol.value, symbol.size)));
      }
    }
    for (const ElfRelocation& relocation : image.relocations()) {
      CHECK(lies_in(bytes, image.bytes_at(relocation.offset, 8)));
    }
    CHECK(image.build_id().size() <= 128);
    (void)image.debug_link();
    (void)image.find_symbol("sample_data");
    (void)image.tls_segment();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kBadInput);
  }
}

}  // namespace

TEST_CASE("a small library reads back as it was written") {
  for (const Machine machine : {Machine::kX86_64, Machine::kAarch64, Machine::kI386}) {
    for (const HashStyle style : {HashStyle::kSysV, HashStyle::kGnu}) {
      for (const bool with_sections : {false, true}) {
        CAPTURE(static_cast<int>(machine));
        CAPTURE(static_cast<int>(style));
        CAPTURE(with_sections);
        const auto library = sample_library(machine, style, with_sections);
        const auto image = ElfImage::from_bytes(library.bytes, "sample.so");
        CHECK(image.name() == "sample.so");
        CHECK(image.machine() == machine);
        CHECK(image.type() == ET_DYN);
        CHECK(image.segments().size() == 4);
        CHECK((image.section(".dynsym") != nullptr) == with_sections);
        CHECK_FALSE(image.has_interpreter());
        CHECK(image.build_id() == "303132333435363738396162636465666768696a");
        CHECK_FALSE(image.debug_link());
        REQUIRE(image.tls_segment() != nullptr);
        CHECK(image.tls_segment()->memory_size == 0x90);
        CHECK(image.tls_segment()->alignment == 16);

        CHECK(names_of(image.dynamic_symbols()) == ";undefined_one;sample_data;sample_code;");
        CHECK(image.symbols().empty());
        CHECK(image.find_symbol("undefined_one") == nullptr);
        CHECK(image.find_symbol("") == nullptr);
        const ElfSymbol* data = image.find_symbol("sample_data");
        REQUIRE(data != nullptr);
        CHECK(data->value == library.data_address);
        CHECK(data->size == kSampleRelrOffset + 2 * word_size(machine));
        CHECK(data->type == STT_OBJECT);
        CHECK(data->binding == STB_GLOBAL);
      }
    }
  }
}

TEST_CASE("relocations of all four kinds, with the addend that REL and RELR keep in the word") {
  for (const Machine machine : {Machine::kX86_64, Machine::kAarch64, Machine::kI386}) {
    CAPTURE(static_cast<int>(machine));
    const auto library = sample_library(machine);
    const uint64_t word = word_size(machine);
    const bool is_64_bit = word == 8;
    const auto relocations = ElfImage::from_bytes(library.bytes, "sample.so").relocations();
    REQUIRE(relocations.size() == 4);
    const uint32_t relative = machine == Machine::kAarch64 ? R_AARCH64_RELATIVE : 8;
    CHECK(relocations[0].offset == library.data_address + kSampleRelrOffset);
    CHECK(relocations[0].type == relative);
    CHECK(relocations[0].addend == 0x51);
    CHECK(relocations[1].offset == library.data_address + kSampleRelrOffset + word);
    CHECK(relocations[1].addend == 0x52);
    CHECK(relocations[2].offset == library.data_address);
    CHECK(relocations[2].type == 6);
    CHECK(relocations[2].symbol == 2);
    CHECK(relocations[2].addend == (is_64_bit ? 0x99 : static_cast<uint32_t>(kSampleDataValue)));
    CHECK(relocations[3].type == kSamplePltType);
    CHECK(relocations[3].symbol == 1);
    CHECK(relocations[3].addend == (is_64_bit ? 0 : 0x42));
  }
}

TEST_CASE("counts too large for the header are taken from the first section header") {
  auto bytes = sample_library(Machine::kX86_64, HashStyle::kSysV, true).bytes;
  const auto header = *load_record<Elf64_Ehdr>(bytes, 0);
  auto first = *load_record<Elf64_Shdr>(bytes, header.e_shoff);
  first.sh_info = header.e_phnum;
  first.sh_size = header.e_shnum;
  first.sh_link = header.e_shstrndx;
  put_at(bytes, header.e_shoff, first);
  put_at(bytes, offsetof(Elf64_Ehdr, e_phnum), uint16_t{PN_XNUM});
  put_at(bytes, offsetof(Elf64_Ehdr, e_shnum), uint16_t{0});
  put_at(bytes, offsetof(Elf64_Ehdr, e_shstrndx), uint16_t{SHN_XINDEX});
  const auto image = ElfImage::from_bytes(bytes, "many");
  CHECK(image.segments().size() == 4);
  CHECK(image.sections().size() == 5);
  CHECK(image.section(".dynsym") != nullptr);
}

TEST_CASE("bytes at an address end with the segment's file image") {
  const auto library = sample_library(Machine::kX86_64);
  const auto image = ElfImage::from_bytes(library.bytes, "sample.so");
  const auto word = image.bytes_at(library.data_address, 8);
  REQUIRE(word.size() == 8);
  CHECK(*load_record<uint64_t>(word, 0) == kSampleDataValue);
  const ElfSegment& load = image.segments().front();
  const uint64_t file_end = load.address + load.file_size;
  CHECK(image.bytes_at(file_end - 3, 100).size() == 3);
  CHECK(image.bytes_at(file_end, 1).empty());
  CHECK(image.segment_of(file_end) == &load);
  CHECK(image.segment_of(load.address + load.memory_size) == nullptr);
  CHECK(image.bytes_at(load.address - 1, 8).empty());
  CHECK(image.bytes_at(UINT64_MAX, UINT64_MAX).empty());
}

TEST_CASE("the static symbol table comes first, and names out of bounds are empty") {
  ElfBuilder builder(Machine::kX86_64, ET_DYN);
  Bytes names;
  put_text(names, std::string_view("\0first\0second", 13));  // the last one lacks its NUL
  Bytes symbols;
  for (const uint32_t name : {0U, 1U, 7U, 99U}) {
    put(symbols, Elf64_Sym{.st_name = name,
                           .st_info = 0,
                           .st_other = 0,
                           .st_shndx = 1,
                           .st_value = 0x1000 + name,
                           .st_size = 4});
  }
  symbols.resize(symbols.size() + 5);  // half an entry
  const uint64_t symbols_at = builder.append(symbols);
  const uint64_t names_at = builder.append(names);
  builder.section({.name = ".symtab",
                   .type = SHT_SYMTAB,
                   .file_offset = symbols_at,
                   .size = symbols.size(),
                   .link = 2});
  builder.section(
      {.name = ".strtab", .type = SHT_STRTAB, .file_offset = names_at, .size = names.size()});
  const Bytes bytes = builder.finish();
  const auto image = ElfImage::from_bytes(bytes, "symbols");
  CHECK(names_of(image.symbols()) == ";first;;;");
  REQUIRE(image.find_symbol("first") != nullptr);
  CHECK(image.find_symbol("first")->value == 0x1001);
}

TEST_CASE("a debuglink is a name and a CRC") {
  ElfBuilder builder(Machine::kX86_64, ET_DYN);
  Bytes link;
  put_text(link, std::string_view("ab.debug\0\0\0\0", 12));
  put(link, uint32_t{0xdeadbeef});
  const uint64_t link_at = builder.append(link);
  SUBCASE("whole") {
    builder.section({.name = ".gnu_debuglink",
                     .type = SHT_PROGBITS,
                     .file_offset = link_at,
                     .size = link.size()});
    const Bytes bytes = builder.finish();
    const auto found = ElfImage::from_bytes(bytes, "x").debug_link();
    REQUIRE(found);
    CHECK(found->file_name == "ab.debug");
    CHECK(found->crc == 0xdeadbeef);
  }
  SUBCASE("cut off before the CRC") {
    builder.section({.name = ".gnu_debuglink",
                     .type = SHT_PROGBITS,
                     .file_offset = link_at,
                     .size = link.size() - 1});
    const Bytes bytes = builder.finish();
    CHECK_FALSE(ElfImage::from_bytes(bytes, "x").debug_link());
  }
}

TEST_CASE("symbols of .gnu_debugdata count as static ones") {
  ElfBuilder inner(Machine::kX86_64, ET_DYN);
  Bytes names;
  put_text(names, std::string_view("\0hidden_function\0", 17));
  Bytes symbols;
  put(symbols, Elf64_Sym{.st_name = 1,
                         .st_info = 0,
                         .st_other = 0,
                         .st_shndx = 1,
                         .st_value = 0x4711,
                         .st_size = 4});
  const uint64_t symbols_at = inner.append(symbols);
  const uint64_t names_at = inner.append(names);
  inner.section({.name = ".symtab",
                 .type = SHT_SYMTAB,
                 .file_offset = symbols_at,
                 .size = symbols.size(),
                 .link = 2});
  inner.section(
      {.name = ".strtab", .type = SHT_STRTAB, .file_offset = names_at, .size = names.size()});
  const Bytes plain = inner.finish();

  Bytes packed(lzma_stream_buffer_bound(plain.size()));
  size_t size = 0;
  REQUIRE(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr,
                                  reinterpret_cast<const uint8_t*>(plain.data()), plain.size(),
                                  reinterpret_cast<uint8_t*>(packed.data()), &size,
                                  packed.size()) == LZMA_OK);
  packed.resize(size);
  const auto wrapped = [](const Bytes& content) {
    ElfBuilder builder(Machine::kX86_64, ET_DYN);
    const uint64_t at = builder.append(content);
    builder.section({.name = ".gnu_debugdata",
                     .type = SHT_PROGBITS,
                     .file_offset = at,
                     .size = content.size()});
    return builder.finish();
  };
  const Bytes whole = wrapped(packed);
  const auto image = ElfImage::from_bytes(whole, "mini");
  REQUIRE(image.find_symbol("hidden_function") != nullptr);
  CHECK(image.find_symbol("hidden_function")->value == 0x4711);

  packed.resize(packed.size() / 2);
  const Bytes cut = wrapped(packed);
  CHECK(ElfImage::from_bytes(cut, "mini").symbols().empty());
}

TEST_CASE("a separate debug file has no contents at its segments") {
  ElfBuilder builder(Machine::kX86_64, ET_DYN);
  Bytes notes;
  put_build_id(notes, kSampleBuildId);
  const uint64_t notes_at = builder.append(notes);
  builder.segment({.type = PT_LOAD,
                   .flags = PF_R,
                   .file_offset = 0,
                   .address = 0x1000,
                   .file_size = 0x40,
                   .memory_size = 0x40,
                   .alignment = 0x1000});
  builder.section({.name = ".text",
                   .type = SHT_NOBITS,
                   .flags = SHF_ALLOC | SHF_EXECINSTR,
                   .address = 0x1000,
                   .size = 0x40});
  builder.section({.name = ".note.gnu.build-id",
                   .type = SHT_NOTE,
                   .flags = SHF_ALLOC,
                   .file_offset = notes_at,
                   .size = notes.size()});
  const Bytes bytes = builder.finish();
  const auto image = ElfImage::from_bytes(bytes, "sample.debug");
  CHECK(image.bytes_at(0x1000, 4).empty());
  CHECK(image.build_id() == "303132333435363738396162636465666768696a");
}

TEST_CASE("what is no ELF file of a known machine is refused with the reason") {
  const auto why_refused = [](const Bytes& bytes) -> std::string {
    try {
      (void)ElfImage::from_bytes(bytes, "x");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kBadInput);
      return error.why();
    }
    return "accepted";
  };
  Bytes text;
  put_text(text, "#!/bin/sh\nexec true # something long enough for an ELF header to fit\n");
  CHECK(why_refused({}) == "not an ELF file");
  CHECK(why_refused(text) == "not an ELF file");
  Bytes bytes = sample_library(Machine::kX86_64).bytes;
  bytes[EI_DATA] = std::byte{ELFDATA2MSB};
  CHECK(why_refused(bytes) == "a big-endian ELF file");
  bytes = sample_library(Machine::kX86_64).bytes;
  put_at(bytes, offsetof(Elf64_Ehdr, e_machine), uint16_t{EM_PPC64});
  CHECK(why_refused(bytes).find("machine 21") != std::string::npos);
  // x32: the 64-bit machine with 32-bit records.
  bytes = sample_library(Machine::kX86_64).bytes;
  bytes[EI_CLASS] = std::byte{ELFCLASS32};
  CHECK(why_refused(bytes).find("class 1") != std::string::npos);
}

TEST_CASE("damaged files give what is sound and never leave their bytes") {
  for (const Machine machine : {Machine::kX86_64, Machine::kI386}) {
    for (const HashStyle style : {HashStyle::kSysV, HashStyle::kGnu}) {
      const Bytes whole = sample_library(machine, style, style == HashStyle::kGnu).bytes;
      for (size_t size = 0; size < whole.size(); size += 3) {
        use(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
      }
      for (size_t i = 0; i < whole.size(); ++i) {
        for (const unsigned value : {0x00U, 0x7fU, 0x80U, 0xffU}) {
          Bytes damaged = whole;
          damaged[i] = static_cast<std::byte>(value);
          use(damaged);
        }
      }
    }
  }
}

TEST_CASE("a bitmap of relative relocations cannot multiply without bound") {
  // The same full bitmap over and over: 32 entries a word if each were believed.
  ElfBuilder builder(Machine::kX86_64, ET_DYN);
  Bytes relr;
  for (int i = 0; i < 2000; ++i) {
    put(relr, kSampleBase);
    put(relr, ~uint64_t{0});
  }
  const uint64_t relr_at = builder.append(relr);
  Bytes dynamic;
  put(dynamic, Elf64_Dyn{.d_tag = 36, .d_un = {kSampleBase + relr_at}});
  put(dynamic, Elf64_Dyn{.d_tag = 35, .d_un = {relr.size()}});
  const uint64_t dynamic_at = builder.append(dynamic);
  builder.segment({.type = PT_LOAD,
                   .flags = PF_R,
                   .file_offset = 0,
                   .address = kSampleBase,
                   .file_size = dynamic_at + dynamic.size(),
                   .memory_size = dynamic_at + dynamic.size(),
                   .alignment = 0x1000});
  builder.segment({.type = PT_DYNAMIC,
                   .flags = PF_R,
                   .file_offset = dynamic_at,
                   .address = kSampleBase + dynamic_at,
                   .file_size = dynamic.size(),
                   .memory_size = dynamic.size(),
                   .alignment = 8});
  const Bytes bytes = builder.finish();
  const auto relocations = ElfImage::from_bytes(bytes, "x").relocations();
  CHECK(relocations.size() <= bytes.size() / 8);
  CHECK(relocations.size() > 4000);
}
