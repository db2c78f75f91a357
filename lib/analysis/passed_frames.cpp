#include "analysis/passed_frames.h"

#include <algorithm>

#include "tracking/function_name.h"

namespace heapsnap {

namespace {

// Sorted, for binary search.
constexpr std::string_view kNames[] = {
    "AllocSetAlloc",
    "AllocateHeap",
    "CRYPTO_calloc",
    "CRYPTO_malloc",
    "CRYPTO_memdup",
    "CRYPTO_realloc",
    "CRYPTO_strdup",
    "CRYPTO_strndup",
    "CRYPTO_zalloc",
    "GenerationAlloc",
    "PyObject_Calloc",
    "PyObject_Malloc",
    "PyObject_Realloc",
    "PyType_GenericAlloc",
    "SlabAlloc",
    "_PyObject_Calloc",
    "_PyObject_GC_New",
    "_PyObject_GC_NewVar",
    "_PyObject_GC_Resize",
    "_PyObject_Malloc",
    "_PyObject_New",
    "_PyObject_NewVar",
    "_PyObject_Realloc",
    "_PyType_AllocNoTrack",
    "__asprintf",
    "__asprintf_chk",
    "__libc_calloc",
    "__libc_malloc",
    "__libc_memalign",
    "__libc_realloc",
    "__rdl_alloc",
    "__rdl_alloc_zeroed",
    "__rdl_realloc",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "__vasprintf_chk",
    "__vasprintf_internal",
    "_nl_malloc",
    "aligned_alloc",
    "alloc_root",
    "asprintf",
    "calloc",
    "do_xmalloc",
    "getdelim",
    "getline",
    "malloc",
    "memalign",
    "multi_alloc_root",
    "my_malloc",
    "my_memdup",
    "my_multi_malloc",
    "my_realloc",
    "my_strdup",
    "my_strndup",
    "ngx_alloc",
    "ngx_calloc",
    "ngx_memalign",
    "ngx_palloc",
    "ngx_palloc_block",
    "ngx_palloc_large",
    "ngx_pcalloc",
    "ngx_pmemalign",
    "ngx_pnalloc",
    "os::malloc",
    "os::realloc",
    "os::strdup",
    "palloc",
    "palloc0",
    "palloc0fast",
    "palloc_extended",
    "pnstrdup",
    "posix_memalign",
    "pstrdup",
    "pvalloc",
    "realloc",
    "reallocarray",
    "repalloc",
    "ruby_strdup",
    "strdup_root",
    "strmake_root",
    "valloc",
    "vasprintf",
    "xcalloc",
    "xmalloc",
    "xmallocarray",
    "xmallocz",
    "xmemdup",
    "xmemdup0",
    "xmemdupz",
    "xnmalloc",
    "xnrealloc",
    "xrealloc",
    "xreallocarray",
    "xstrdup",
    "xstrndup",
    "xzalloc",
    "zcalloc",
    "zcalloc_num",
    "zmalloc",
    "zrealloc",
    "zstrdup",
    "ztrycalloc",
    "ztrymalloc",
    "ztryrealloc",
};

constexpr std::string_view kPatterns[] = {
    // C++: what stands in the standard library, and operators and methods that allocate.
    "operator new*",
    "*::operator new*",
    "*::allocate",
    "std::*",
    "__gnu_cxx::*",
    "__cxa_*",
    "boost::container::*",
    "boost::make_shared*",
    "boost::allocate_shared*",
    // C, and libraries of C.
    "*strdup",
    "*strndup",
    "*wcsdup",
    "g_malloc*",
    "g_realloc*",
    "g_try_malloc*",
    "g_try_realloc*",
    "g_slice_alloc*",
    "g_slice_copy",
    "g_memdup*",
    "ztrymalloc_*",
    "zmalloc_*",
    "zcalloc_*",
    "zrealloc_*",
    "sqlite3*alloc*",
    "Perl_*safesys*alloc",
    "_emalloc*",
    "_ecalloc*",
    "_erealloc*",
    "_estrdup*",
    "_safe_emalloc*",
    "MemoryContextAlloc*",
    // Interpreters.
    "PyMem_*",
    "_PyMem_*",
    "_PyObject_GC_Alloc*",
    "ruby_x*alloc*",
    "rb_x*alloc*",
    "objspace_x*alloc*",
    // Rust.
    "<alloc::*",
    "<std::*",
    "<core::*",
    "alloc::alloc::*",
    "alloc::borrow::*",
    "alloc::boxed::*",
    "alloc::collections::*",
    "alloc::fmt::*",
    "alloc::raw_vec::*",
    "alloc::rc::*",
    "alloc::slice::*",
    "alloc::str::*",
    "alloc::string::*",
    "alloc::sync::*",
    "alloc::vec::*",
    "core::clone::*",
    "core::convert::*",
    "core::fmt::*",
    "core::iter::*",
    "core::ops::*",
    "core::option::*",
    "core::ptr::*",
    "core::result::*",
    "core::slice::*",
    "core::str::*",
    "hashbrown::*",
    "<hashbrown::*",
};

constexpr std::string_view kStarts[] = {
    "<entry point>",
    "_start",
    "_dl_start_user",
    "_dl_start",
    "_dl_init",
    "__libc_csu_init",
    "__libc_start_main*",
    "__libc_start_call_main",
    "start_thread",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "__GI___clone*",
    // Most of them are among these where the C library is stripped.
    "libc.so.6+*",
    "libc-2*.so+*",
    "libpthread.so.0+*",
    "libpthread-2*.so+*",
    "ld-linux*+*",
    "ld-2*.so+*",
};

bool fits_any(std::string_view name, std::span<const std::string_view> patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](std::string_view pattern) { return fits_pattern(name, pattern); });
}

}  // namespace

bool fits_pattern(std::string_view text, std::string_view pattern) {
  size_t at = 0, read = 0;
  size_t star = std::string_view::npos, after_star = 0;  // the last one, and what it has taken
  while (at < text.size()) {
    if (read < pattern.size() && pattern[read] == '*') {
      star = read++;
      after_star = at;
    } else if (read < pattern.size() && pattern[read] == text[at]) {
      ++read;
      ++at;
    } else if (star != std::string_view::npos) {
      read = star + 1;
      at = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', read) == std::string_view::npos;
}

std::span<const std::string_view> PassedFrames::default_names() {
  static_assert(std::is_sorted(std::begin(kNames), std::end(kNames)));
  return kNames;
}

std::span<const std::string_view> PassedFrames::default_patterns() {
  return kPatterns;
}

std::span<const std::string_view> PassedFrames::start_patterns() {
  return kStarts;
}

void PassedFrames::add(std::string_view pattern) {
  added_.emplace_back(pattern);
}

std::optional<FrameRole> PassedFrames::added_role(std::string_view name) const {
  for (auto added = added_.rbegin(); added != added_.rend(); ++added) {
    std::string_view pattern = *added;
    const bool is_kept = pattern.starts_with('!');
    if (is_kept) pattern.remove_prefix(1);
    // As listings show it.
    if (pattern.ends_with("()")) pattern.remove_suffix(2);
    if (fits_pattern(name, pattern)) return is_kept ? FrameRole::kKept : FrameRole::kWayToMalloc;
  }
  return std::nullopt;
}

FrameRole PassedFrames::role_of(std::string_view function) const {
  const std::string name = plain_name(function);
  if (const auto added = added_role(name)) return *added;
  if (fits_any(name, start_patterns())) return FrameRole::kStart;
  const auto names = default_names();
  const bool is_passed = std::binary_search(names.begin(), names.end(), std::string_view(name)) ||
                         fits_any(name, default_patterns());
  return is_passed ? FrameRole::kWayToMalloc : FrameRole::kOwn;
}

bool PassedFrames::is_kept(std::string_view function) const {
  return added_role(plain_name(function)) == FrameRole::kKept;
}

FrameRole PassedFrames::role_of(std::string_view function, FrameLanguage language) const {
  if (language == FrameLanguage::kNative) return role_of(function);
  const bool is_passed = added_role(function) == FrameRole::kWayToMalloc;
  return is_passed ? FrameRole::kWayToMalloc : FrameRole::kInterpreted;
}

size_t charged_frame(std::span<const FrameRole> frames) {
  const auto is_first = [](FrameRole role) {
    return role == FrameRole::kKept || role == FrameRole::kInterpreted;
  };
  const bool is_interpreted =
      std::find(frames.begin(), frames.end(), FrameRole::kInterpreted) != frames.end();
  const auto own = is_interpreted ? std::find_if(frames.begin(), frames.end(), is_first)
                                  : std::find_if(frames.begin(), frames.end(), is_own);
  if (own != frames.end()) return static_cast<size_t>(own - frames.begin());
  const auto way = std::find(frames.rbegin(), frames.rend(), FrameRole::kWayToMalloc);
  return way == frames.rend() ? 0 : static_cast<size_t>(frames.rend() - way) - 1;
}

}  // namespace heapsnap
