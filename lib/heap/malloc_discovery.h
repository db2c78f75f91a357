// Finds every glibc malloc of a target.
//
//   before the freeze:  prepare()  reads files: symbols, relocations, disassembly. Each strategy
//   only
//                                  *proposes* addresses of main_arena and mp_.
//   in frozen memory:   locate()   accepts a proposal only when the memory there is an arena
//                                  (invariants of bins, top, next); scans writable data when no
//                                  proposal holds.
#pragma once

#include <string>
#include <vector>

#include "base/address.h"
#include "elf/debug_file_search.h"
#include "heap/heap_model.h"
#include "heap/malloc_layout.h"
#include "target/target.h"

namespace heapsnap {

struct ArenaProposal {
  DiscoveryStrategy strategy = DiscoveryStrategy::kNone;
  Address main_arena;  // in the target
  Address malloc_par;  // null: this strategy does not know
};

// A module of the target that may hold a malloc: libc.so.6, libc_malloc_debug.so.0, a static
// executable.
struct MallocModule {
  std::string path;
  std::string build_id;
  Address load_bias;
  GlibcVersion version;
  std::vector<MallocLayout> layouts;  // to be tried in this order; the first is the best guess
  std::string layout_source;          // of layouts.front()
  std::vector<ArenaProposal> proposals;
  std::vector<AddressRange> writable;  // its writable mappings, for the structural scan
  // Thread-local storage: block of a thread = thread pointer + tls_offset, tls_size bytes long.
  // The offset is a vote over GOT words, so it needs memory; these are the words to read.
  struct TlsWord {
    Address word;
    uint64_t addend = 0;  // word's value - addend = tls_offset
  };
  std::vector<TlsWord> tls_words;
  uint64_t tls_size = 0;
  bool tls_is_static_executable = false;
  uint64_t tls_alignment = 1;
  // Code of malloc.o: a thread whose instruction pointer is in here may hold an arena half changed.
  AddressRange malloc_text;
  std::vector<std::string> notes;
};

// A malloc that was found and verified.
struct LocatedMalloc {
  MallocInstance instance;
  MallocLayout layout;
  std::optional<int64_t> tls_offset;  // from the thread pointer; may be negative
  uint64_t tls_size = 0;
};

struct PreparedDiscovery {
  std::vector<MallocModule> modules;
  // Allocator that is not glibc's, by its symbols and file names: "jemalloc", "tcmalloc",
  // "mimalloc", "musl", "Go". Empty when there is none.
  std::string foreign_allocator;
};

// The target may run. Reads files only.
PreparedDiscovery prepare_discovery(Target& target, const DebugFileSearch& debug_files);

// The target is frozen (or a core, or runs on under freeze `none`). Gives the instances found, the
// one with memory in use first.
std::vector<LocatedMalloc> locate_mallocs(Target& target, const PreparedDiscovery& prepared);

}  // namespace heapsnap
