#include "heap/foreign_allocator.h"

#include <elf.h>

#include <algorithm>
#include <string_view>

#include "base/byte_reader.h"
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

// musl's libc is its own loader; distributors name the file ld-musl-ARCH.so.1 or libc.so.
bool is_musl(const ElfImage& image, std::string_view file_name) {
  if (file_name != "libc.so") return false;
  const auto constants = constant_bytes(image);
  return std::any_of(constants.begin(), constants.end(), [](std::string_view text) {
    return find_text(text, "musl libc (") != text.npos;
  });
}

// Above this .strtab (programs of the size of a browser) names are not searched.
constexpr uint64_t kLargestNameTable = 16 << 20;

// A program with an allocator linked in statically names it in .symtab only. Reading that costs too
// much to do in vain, so the names are searched before: one search for each ending.
bool may_define_statically(const ElfImage& image) {
  const ElfSection* names = image.section(".strtab");
  const auto file = image.file_bytes();
  if (names == nullptr || names->size > kLargestNameTable ||
      !fits_within(names->file_offset, names->size, file.size())) {
    return false;
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + names->file_offset,
                              names->size);
  for (const std::string_view ending :
       {"mallctl", "tc_malloc", "TCMallocInternalMalloc", "mi_malloc"}) {
    if (find_text(text, std::string(ending) + '\0') != text.npos) return true;
  }
  return false;
}

bool defines_statically(const ElfImage& image, std::string_view name) {
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
  if (is_musl(image, file_name)) return "musl";
  const bool has_static_names = may_define_statically(image);
  for (const auto& [allocator, file_prefix, symbol] : kSignatures) {
    const std::string_view prefix = file_prefix;
    const std::string_view name = symbol;
    if (!prefix.empty() && file_name.starts_with(prefix)) return allocator;
    if (name.empty()) continue;
    const bool is_defined =
        exports(image, name) || (has_static_names && defines_statically(image, name));
    if (is_defined) return allocator;
  }
  return {};
}

}  // namespace heapsnap
