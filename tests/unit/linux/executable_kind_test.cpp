#include "platform/linux/executable_kind.h"

#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>
#include <string>

#include "base/mapped_file.h"

using namespace heapsnap;

namespace {

// A 64-bit ELF file with one program header and the named sections, and nothing in them.
std::vector<std::byte> make_elf(const std::vector<std::string>& section_names, uint32_t segment) {
  std::string names(1, '\0');
  std::vector<Elf64_Shdr> sections(1);
  for (const std::string& name : section_names) {
    Elf64_Shdr section{};
    section.sh_name = static_cast<uint32_t>(names.size());
    sections.push_back(section);
    names += name + '\0';
  }
  Elf64_Phdr program{};
  program.p_type = segment;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = EM_X86_64;
  header.e_phoff = sizeof(header);
  header.e_phnum = 1;
  header.e_shoff = sizeof(header) + sizeof(program) + names.size();
  header.e_shnum = static_cast<uint16_t>(sections.size() + 1);
  header.e_shstrndx = static_cast<uint16_t>(sections.size());
  Elf64_Shdr table{};
  table.sh_offset = sizeof(header) + sizeof(program);
  table.sh_size = names.size();
  sections.push_back(table);

  std::vector<std::byte> file(header.e_shoff + sections.size() * sizeof(Elf64_Shdr));
  std::memcpy(file.data(), &header, sizeof(header));
  std::memcpy(file.data() + header.e_phoff, &program, sizeof(program));
  std::memcpy(file.data() + table.sh_offset, names.data(), names.size());
  std::memcpy(file.data() + header.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr));
  return file;
}

}  // namespace

TEST_CASE("headers tell word size, machine and loader") {
  ExecutableKind kind = recognize_executable(make_elf({".text"}, PT_LOAD));
  CHECK(kind.is_elf);
  CHECK(kind.bits == 64);
  CHECK(kind.machine == EM_X86_64);
  CHECK_FALSE(kind.has_interpreter);
  kind = recognize_executable(make_elf({".text"}, PT_INTERP));
  CHECK(kind.has_interpreter);
}

TEST_CASE("damaged ELF files give what is sound") {
  const std::vector<std::byte> whole = make_elf({".text", ".note.go.buildid"}, PT_INTERP);
  // Every length, and every byte turned over: nothing is read outside (the sanitizers look).
  for (size_t length = 0; length < whole.size(); ++length) {
    const ExecutableKind kind = recognize_executable(std::span(whole).first(length));
    CHECK(kind.is_elf == (length >= EI_NIDENT));
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::vector<std::byte> damaged = whole;
    damaged[i] = ~damaged[i];
    const ExecutableKind kind = recognize_executable(damaged);
    CHECK(kind.is_elf == (i >= 4 && i != EI_DATA));
  }
  CHECK_FALSE(recognize_executable({}).is_elf);
}

TEST_CASE("this program is recognized") {
  const MappedFile file = MappedFile::open("/proc/self/exe");
  const ExecutableKind kind = recognize_executable(file.bytes());
  CHECK(kind.is_elf);
  CHECK(kind.bits == 8 * sizeof(void*));
  CHECK(kind.has_interpreter);
}
