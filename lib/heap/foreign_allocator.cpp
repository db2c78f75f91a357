#include "heap/foreign_allocator.h"

#include <elf.h>

#include <algorithm>
#include <string_view>

#include "heap/module_bytes.h"

namespace heapsnap {

namespace {

struct Signature {
  const char* allocator;
  const char* file_prefix;  // of the file's name; empty: none
  const char* symbol;       // empty: none
};

constexpr Signature kSignatures[] = {
    {"jemalloc", "libjemalloc", "mallctl"},
    {"jemalloc", "", "je_mallctl"},
    {"jemalloc", "", "_rjem_mallctl"},  // Rust's tikv-jemallocator
    {"tcmalloc", "libtcmalloc", "tc_malloc"},
    {"tcmalloc", "", "TCMallocInternalMalloc"},  // github.com/google/tcmalloc
    {"mimalloc", "libmimalloc", "mi_malloc"},
    {"musl", "ld-musl-", ""},
    {"musl", "libc.musl-", ""},
};

// Above this .strtab (programs of the size of a browser) names are not searched.
constexpr uint64_t kLargestNameTable = 16 << 20;

// A program with an allocator linked in statically names it in .symtab only.
bool defines_statically(const ElfImage& image, std::string_view name) {
  const ElfSection* names = image.section(".strtab");
  if (names == nullptr || names->size > kLargestNameTable) return false;
  const auto file = image.file_bytes();
  if (names->file_offset > file.size() || names->size > file.size() - names->file_offset) {
    return false;
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + names->file_offset,
                              names->size);
  if (find_text(text, '\0' + std::string(name) + '\0') == text.npos) return false;
  const auto& symbols = image.symbols();
  return std::any_of(symbols.begin(), symbols.end(), [name](const ElfSymbol& symbol) {
    return symbol.is_defined && symbol.type == STT_FUNC && symbol.name == name;
  });
}

}  // namespace

std::string foreign_allocator_in(const ElfImage& image, const std::string& path) {
  if (image.section(".gopclntab") != nullptr || image.section(".go.buildinfo") != nullptr) {
    return "Go";
  }
  const std::string_view file_name = file_name_of(path);
  for (const auto& [allocator, file_prefix, symbol] : kSignatures) {
    const std::string_view prefix = file_prefix;
    const std::string_view name = symbol;
    if (!prefix.empty() && file_name.starts_with(prefix)) return allocator;
    if (name.empty()) continue;
    if (exports(image, name) || defines_statically(image, name)) return allocator;
  }
  return {};
}

}  // namespace heapsnap
