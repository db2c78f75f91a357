#include "heap/discovery/foreign_allocator.h"

#include <elf.h>

#include <algorithm>
#include <string_view>

#include "base/byte_reader.h"
#include "base/file_name.h"
#include "heap/discovery/module_bytes.h"

namespace heapsnap {

namespace {

// What gives an allocator away: the name of its file, functions that only it defines, exported or,
// in a program that it is linked into, in .symtab; and, where a file answers malloc that no name
// gives away, a text of it.
struct Signature {
  const char* allocator;
  const char* file_prefix;  // empty: none
  const char* symbol;       // empty: none
  const char* text;         // empty: none
};

constexpr Signature kSignatures[] = {
    {"jemalloc", "libjemalloc", "mallctl", "<jemalloc>: "},
    {"jemalloc", "", "je_mallctl", ""},
    {"jemalloc", "", "_rjem_mallctl", ""},  // Rust's tikv-jemallocator
    {"tcmalloc", "libtcmalloc", "tc_malloc", "tcmalloc: large alloc"},
    {"tcmalloc", "", "TCMallocInternalMalloc", ""},  // github.com/google/tcmalloc
    {"mimalloc", "libmimalloc", "mi_malloc", "mimalloc: "},
    {"AddressSanitizer", "libasan.", "__asan_init", ""},
    {"AddressSanitizer", "libclang_rt.asan", "", ""},
    {"HWAddressSanitizer", "libhwasan.", "__hwasan_init", ""},
    {"LeakSanitizer", "liblsan.", "__lsan_init", ""},
    {"MemorySanitizer", "", "__msan_init", ""},
    {"ThreadSanitizer", "libtsan.", "__tsan_init", ""},
    {"PartitionAlloc", "", "", "partition_alloc"},  // Chromium, Electron
    {"hardened_malloc", "libhardened_malloc", "malloc_object_size_fast", "fatal allocator error: "},
    {"snmalloc", "libsnmalloc", "sn_rust_alloc", ""},
    {"Scudo", "libscudo", "__scudo_print_stats", "Scudo ERROR: "},
    {"Scudo", "libclang_rt.scudo", "", ""},
    {"rpmalloc", "librpmalloc", "rpmalloc", ""},
    {"Hoard", "libhoard", "", ""},
    {"TBB malloc", "libtbbmalloc_proxy", "", ""},
    {"musl", "ld-musl-", "", ""},
    {"musl", "libc.musl-", "", ""},
};

bool contains_text(const ElfImage& image, std::string_view wanted) {
  const auto constants = constant_bytes(image);
  return std::any_of(constants.begin(), constants.end(), [wanted](std::string_view text) {
    return find_text(text, wanted) != text.npos;
  });
}

// musl's libc is its own loader; distributors name the file ld-musl-ARCH.so.1 or libc.so. A program
// that is linked with it statically has its message of errno 0, which glibc calls "Success".
bool is_musl(const ElfImage& image, std::string_view file_name) {
  if (file_name == "libc.so") return contains_text(image, "musl libc (");
  return is_static_executable(image) && contains_text(image, "No error information") &&
         !contains_text(image, "free(): invalid pointer");
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
  return std::any_of(std::begin(kSignatures), std::end(kSignatures), [text](const Signature& each) {
    const std::string_view name = each.symbol;
    return !name.empty() && find_text(text, std::string(name) + '\0') != text.npos;
  });
}

bool defines_statically(const ElfImage& image, std::string_view name) {
  const auto& symbols = image.symbols();
  return std::any_of(symbols.begin(), symbols.end(), [name](const ElfSymbol& symbol) {
    return symbol.is_defined && symbol.type == STT_FUNC && symbol.name == name;
  });
}

// CPython since 3.13 has mimalloc linked in, which only builds without the global interpreter lock
// use; these alone have _Py_DecRefShared (and others do when PYTHONMALLOC=mimalloc asks for it).
bool is_python_with_lock(const ElfImage& image) {
  return exports(image, "PyObject_Malloc") && !exports(image, "_Py_DecRefShared");
}

}  // namespace

// Without an interpreter nobody loads a libc: the malloc is linked in. (ld.so has none either.)
bool is_static_executable(const ElfImage& image) {
  if (image.has_interpreter()) return false;
  if (image.type() == ET_EXEC) return true;
  return (dynamic_value(image, DT_FLAGS_1).value_or(0) & DF_1_PIE) != 0;
}

std::string foreign_allocator_in(const ElfImage& image, const std::string& path) {
  if (image.section(".gopclntab") != nullptr || image.section(".go.buildinfo") != nullptr) {
    return "Go";
  }
  const std::string_view file_name = file_name_of(path);
  if (is_musl(image, file_name)) return "musl";
  if (file_name == "libc.so" && path.find("/bionic/") != std::string::npos) return "bionic";
  const bool has_static_names = may_define_statically(image);
  for (const Signature& each : kSignatures) {
    const std::string_view prefix = each.file_prefix;
    const std::string_view name = each.symbol;
    if (std::string_view(each.allocator) == "mimalloc" && is_python_with_lock(image)) continue;
    if (!prefix.empty() && file_name.starts_with(prefix)) return each.allocator;
    if (name.empty()) continue;
    const bool is_defined =
        exports(image, name) || (has_static_names && defines_statically(image, name));
    if (is_defined) return each.allocator;
  }
  // libc itself exports malloc.
  if (!exports(image, "malloc") || exports(image, "malloc_info")) return {};
  for (const Signature& each : kSignatures) {
    const std::string_view text = each.text;
    if (!text.empty() && contains_text(image, text)) return each.allocator;
  }
  return {};
}

}  // namespace heapsnap
