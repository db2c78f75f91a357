// Files that claim more than they are: tables in holes, sections that unpack to more than there is.
#include <doctest/doctest.h>
#include <elf.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "elf/elf_image.h"
#include "elf/unpacked_size.h"
#include "elf_builder.h"
#include "tests/unit/limited_child.h"
#include "tests/unit/temporary_folder.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kContents = 4096;

// An ELF file of one section, of 4 KiB at most, that has `sections` section headers by its own
// word.
Bytes file_with(const Elf64_Shdr& section, uint64_t sections = 2) {
  Bytes bytes;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof section;
  header.e_shnum = 0;  // in the first section header
  put(bytes, header);
  Elf64_Shdr first{};
  first.sh_size = sections;
  put(bytes, first);
  put(bytes, section);
  return bytes;
}

// The same in a file of 4 GiB and a few blocks on disk.
std::string sparse_file(const TemporaryFolder& folder, const Bytes& bytes) {
  const std::string path = folder.write("sparse", bytes);
  REQUIRE(::truncate(path.c_str(), static_cast<off_t>(4 * kGiB + kContents)) == 0);
  return path;
}

Elf64_Shdr section_of(uint32_t type, uint64_t size) {
  Elf64_Shdr section{};
  section.sh_type = type;
  section.sh_offset = kContents;
  section.sh_size = size;
  return section;
}

}  // namespace

TEST_CASE("tables in the holes of a file of 4 GiB take a bounded part of memory") {
  const TemporaryFolder folder;
  // The mapping itself takes 4 GiB of address space.
  constexpr Limits kLimits{.cpu_seconds = 60, .memory = 5 * kGiB};
  for (const uint32_t type : {SHT_DYNSYM, SHT_SYMTAB}) {
    const std::string path = sparse_file(folder, file_with(section_of(type, 4 * kGiB)));
    CHECK(end_within(kLimits, [&] {
            const auto image = ElfImage::from_file(MappedFile::open(path), path);
            const auto& symbols = type == SHT_DYNSYM ? image.dynamic_symbols() : image.symbols();
            if (symbols.empty() || symbols.size() > 4U << 20) throw std::runtime_error("symbols");
          }) == "");
  }
  Elf64_Shdr relocations = section_of(SHT_RELA, 4 * kGiB);
  relocations.sh_flags = SHF_ALLOC;
  const std::string path = sparse_file(folder, file_with(relocations, 60 << 20));
  CHECK(end_within(kLimits, [&] {
          const auto image = ElfImage::from_file(MappedFile::open(path), path);
          if (image.sections().size() > 64 << 10) throw std::runtime_error("sections");
          if (image.relocations().size() > 4U << 20) throw std::runtime_error("relocations");
        }) == "");
}

TEST_CASE("what compressed sections claim is added up before they are unpacked") {
  Elf64_Shdr section = section_of(SHT_PROGBITS, sizeof(Elf64_Chdr) + 10);
  section.sh_flags = SHF_COMPRESSED;
  Bytes bytes = file_with(section);
  put_at(bytes, kContents + 100, uint8_t{0});
  CHECK(unpacked_size(ElfImage::from_bytes(bytes, "none")) == 0);
  Elf64_Chdr header{};
  header.ch_type = ELFCOMPRESS_ZLIB;
  header.ch_size = uint64_t{1} << 40;
  put_at(bytes, kContents, header);
  CHECK(unpacked_size(ElfImage::from_bytes(bytes, "bomb")) == uint64_t{1} << 40);
}
