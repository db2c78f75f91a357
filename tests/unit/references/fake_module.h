// An ELF file for a FakeTarget, without sections but for those of a symbol table.
//
//   file and memory:  0x0000 r-xp headers, code   0x1000 r--p RELRO   0x2000 rw-p .data
//                     0x3000 rw-p .bss, in memory only
#pragma once

#include <string>
#include <vector>

#include "tests/unit/elf/elf_builder.h"
#include "tests/unit/heap/fake_target.h"

namespace heapsnap::test {

struct FakeSymbol {
  std::string name;
  uint64_t value = 0;
  uint64_t size = 0;
  uint8_t type = STT_OBJECT;
  uint8_t binding = STB_GLOBAL;
  uint16_t section = 1;  // SHN_UNDEF: not defined here
};

struct FakeModule {
  static constexpr uint64_t kCode = 0x1000;  // bytes
  static constexpr uint64_t kData = 0x1000;  // where its writable segment begins
  static constexpr uint64_t kFileEnd = 0x3000;
  static constexpr uint64_t kEnd = 0x4000;

  Machine machine = Machine::kX86_64;
  uint16_t type = ET_DYN;
  std::vector<FakeSymbol> symbols = {};
  ElfSegment tls = {};  // of type PT_TLS where there is one

  Bytes bytes() const {
    ElfBuilder builder(machine, type);
    builder.segment({PT_LOAD, PF_R | PF_X, 0, 0, kCode, kCode, 0x1000})
        .segment({PT_LOAD, PF_R | PF_W, kData, kData, kFileEnd - kData, kEnd - kData, 0x1000});
    if (tls.type == PT_TLS) builder.segment(tls);
    if (!symbols.empty()) add_symbols(builder);
    Bytes file = builder.finish();
    // Sections may begin before the end of the writable segment's file image: nobody reads that.
    if (file.size() < kFileEnd) file.resize(kFileEnd);
    return file;
  }

  // Maps it at `base` of `target`: code, RELRO, .data, and .bss as one page of anonymous memory.
  void load(FakeTarget& target, Address base, const std::string& path) const {
    const auto line = [&](uint64_t begin, uint64_t end, const char* flags, bool is_file) {
      char text[128];
      std::snprintf(text, sizeof text, "%lx-%lx %s %08lx %s ", base.value() + begin,
                    base.value() + end, flags, is_file ? begin : 0,
                    is_file ? "08:01 4711" : "00:00 0");
      target.map(text + (is_file ? path : std::string()));
    };
    line(0, 0x1000, "r-xp", true);
    line(0x1000, 0x2000, "r--p", true);
    line(0x2000, 0x3000, "rw-p", true);
    line(0x3000, 0x4000, "rw-p", false);
    target.add_file(path, bytes());
  }

 private:
  void add_symbols(ElfBuilder& builder) const {
    Bytes names(1);
    Bytes table(machine == Machine::kI386 ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym));
    for (const FakeSymbol& symbol : symbols) {
      const auto name = static_cast<uint32_t>(names.size());
      put_text(names, symbol.name);
      names.push_back(std::byte{0});
      const auto info = static_cast<unsigned char>(ELF64_ST_INFO(symbol.binding, symbol.type));
      if (machine == Machine::kI386) {
        put(table, Elf32_Sym{name, static_cast<uint32_t>(symbol.value),
                             static_cast<uint32_t>(symbol.size), info, 0, symbol.section});
      } else {
        put(table, Elf64_Sym{name, info, 0, symbol.section, symbol.value, symbol.size});
      }
    }
    builder.section({".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 0x2000, 0x2000, 0x1000, 0});
    builder.section({".bss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 0x3000, 0x3000, 0x1000, 0});
    const uint64_t at = builder.append(table);
    builder.section({".symtab", SHT_SYMTAB, 0, 0, at, table.size(), 4});
    const uint64_t names_at = builder.append(names);
    builder.section({".strtab", SHT_STRTAB, 0, 0, names_at, names.size(), 0});
  }
};

}  // namespace heapsnap::test
