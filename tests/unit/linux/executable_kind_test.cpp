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

Mapping mapping_of(const std::string& path, bool deleted = false) {
  Mapping mapping;
  mapping.inode = 1;
  mapping.path = path;
  mapping.deleted = deleted;
  return mapping;
}

AllocatorGuess::Kind kind_of(const std::string& path) {
  const std::vector<Mapping> mappings{mapping_of("/app"), mapping_of(path)};
  return guess_allocator(mappings, {}).kind;
}

}  // namespace

TEST_CASE("section names tell Go and a static glibc apart") {
  ExecutableKind kind = recognize_executable(make_elf({".text", ".note.go.buildid"}, PT_LOAD));
  CHECK(kind.is_elf);
  CHECK(kind.bits == 64);
  CHECK(kind.machine == EM_X86_64);
  CHECK(kind.is_go);
  CHECK_FALSE(kind.has_static_glibc);
  CHECK_FALSE(kind.has_interpreter);
  CHECK(guess_allocator({}, kind).kind == AllocatorGuess::Kind::kGo);

  kind = recognize_executable(make_elf({".text", "__libc_IO_vtables"}, PT_INTERP));
  CHECK(kind.has_static_glibc);
  CHECK(kind.has_interpreter);
  CHECK(guess_allocator({}, kind).kind == AllocatorGuess::Kind::kStaticGlibc);

  kind = recognize_executable(make_elf({".text"}, PT_LOAD));
  CHECK(guess_allocator({}, kind).kind == AllocatorGuess::Kind::kUnknown);
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
  CHECK_FALSE(kind.is_go);
}

TEST_CASE("C libraries by the names of their files") {
  CHECK(kind_of("/usr/lib/x86_64-linux-gnu/libc.so.6") == AllocatorGuess::Kind::kGlibc);
  CHECK(kind_of("/lib/libc-2.31.so") == AllocatorGuess::Kind::kGlibc);
  CHECK(kind_of("/lib/ld-musl-x86_64.so.1") == AllocatorGuess::Kind::kMusl);
  CHECK(kind_of("/apex/com.android.runtime/lib64/bionic/libc.so") == AllocatorGuess::Kind::kBionic);
  CHECK(kind_of("/usr/lib/libc.so.6.1") == AllocatorGuess::Kind::kUnknown);
  CHECK(kind_of("/usr/lib/libcap.so.2") == AllocatorGuess::Kind::kUnknown);
}

TEST_CASE("libraries that replace malloc are named once") {
  const std::vector<Mapping> mappings{
      mapping_of("/usr/lib/libjemalloc.so.2"), mapping_of("/usr/lib/libjemalloc.so.2"),
      mapping_of("/usr/lib/libtcmalloc_minimal.so.4"), mapping_of("/usr/lib/libc.so.6", true)};
  const AllocatorGuess guess = guess_allocator(mappings, {});
  CHECK(guess.replacements == std::vector<std::string>{"jemalloc", "tcmalloc"});
  CHECK(guess.kind == AllocatorGuess::Kind::kGlibc);
  CHECK(guess.library_deleted);
  // Go with cgo has glibc's heap as well.
  ExecutableKind go;
  go.is_go = true;
  CHECK(guess_allocator(mappings, go).kind == AllocatorGuess::Kind::kGlibc);
}
