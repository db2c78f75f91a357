// Which language runtimes a process has mapped, and how the memory that they manage themselves is
// cut: what it takes to recognise that memory among other anonymous mappings.
//
//   CPython before 3.10  pymalloc's arenas, 256 KiB each (ARENA_SIZE, Objects/obmalloc.c)
//   CPython since 3.10   the same, 1 MiB each
//   Ruby before 3.2      pages of its heap, 16 KiB at multiples of it (HEAP_PAGE_ALIGN_LOG, gc.c)
//   Ruby since 3.2       the same, 64 KiB
//   V8 (node)            pages of its heap, 256 KiB at multiples of it (kPageSizeBits)
//   JVM                  heap and metaspace, reserved at multiples of 64 KiB at least
//
// The kernel shows neighbours as one mapping, so a mapping may hold many of them. Ruby cuts each
// page out of a larger mapping, so what is left begins and ends at a multiple, wherever the kernel
// put it; if the kernel merged it with a mapping of malloc's, one end does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "target/mapping.h"

namespace heapsnap {

enum class Language : uint8_t { kPython, kRuby, kV8, kJava };

struct LanguageRuntime {
  Language language = Language::kPython;
  std::string module;  // file name that gives it away: "libpython3.11.so.1.0", "node"
  uint64_t unit = 0;   // bytes: the sizes of its mappings (kPython, kRuby) or their places (the
                       // others) are multiples of it
};

// One for each language whose runtime is among the mapped files.
std::vector<LanguageRuntime> mapped_runtimes(const std::vector<Mapping>& mappings);

// Whether the tracker can record the functions that run in it, as far as the version in its file's
// name tells.
bool can_record_functions(const LanguageRuntime& runtime);
// The language whose functions it can record in a process with these mappings; nullopt: none.
std::optional<Language> recordable_language(const std::vector<Mapping>& mappings);

// Whether `mapping` looks like memory that the runtime manages: anonymous, private, writable and
// without a name, and cut as above. `own_size`: bytes of it that are no malloc's.
bool looks_managed_by(const LanguageRuntime& runtime, const Mapping& mapping, uint64_t own_size);

}  // namespace heapsnap
