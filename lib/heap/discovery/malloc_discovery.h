// Finds every glibc malloc of a target.
//
//   before the freeze:  prepare_discovery()  reads files: symbols, relocations, disassembly. Each
//                                            strategy only *proposes* addresses of main_arena.
//   in frozen memory:   locate_mallocs()     accepts a proposal only when the memory there is an
//                                            arena (arena_verifier.h); scans writable data when no
//                                            proposal holds.
//
// A stripped libc without a debug file is the normal case: relocations and exported code reveal
// main_arena. docs/glibc-layouts.md tells how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "elf/debug_file_search.h"
#include "heap/discovery/allocator_verdict.h"
#include "heap/heap_model.h"
#include "heap/located_malloc.h"
#include "heap/malloc_layout.h"
#include "target/target.h"

namespace heapsnap {

struct ArenaProposal {
  DiscoveryStrategy strategy = DiscoveryStrategy::kNone;
  Address main_arena;  // in the target
  bool operator==(const ArenaProposal&) const = default;
};

// Thread-local storage of a module: a thread's block is [thread pointer + offset, + size). The
// offset of a shared object is known only to the loader, who has written it into GOT words.
struct MallocTls {
  struct Word {
    Address word;
    uint64_t addend = 0;  // word's value - addend = offset
  };
  std::vector<Word> words;         // GOT words to vote on the offset
  std::optional<int64_t> offset;   // of a static executable, where the ABI fixes it
  uint64_t size = 0;               // 0: the module has none
  std::optional<uint64_t> tcache;  // places in the block, where symbols tell them
  std::optional<uint64_t> thread_arena;
};

// A module of the target that may hold a malloc: libc.so.6, libc_malloc_debug.so.0, a static
// executable. One file that is loaded twice (dlmopen) is two modules.
struct MallocModule {
  std::string path;
  std::string build_id;
  Address load_bias;
  GlibcVersion version;
  std::vector<MallocLayout> layouts;     // to be tried in this order; the first is the best guess
  std::string layout_source;             // of layouts.front(): "debug info" or "table L2/P35"
  std::vector<ArenaProposal> proposals;  // in the order of DiscoveryStrategy
  std::vector<Address> malloc_pars;      // proposals for mp_, the most trusted first
  std::vector<AddressRange> writable;    // its .data and .bss, for the structural scan
  MallocTls tls;
  // Code of malloc.o: a thread whose instruction pointer is in here may have an arena half changed.
  AddressRange malloc_text;
  std::vector<std::string> notes;  // disagreements between sources, each a sentence
};

// Which strategies may be used: all of them, except in tests of a single one.
struct DiscoveryOptions {
  std::vector<DiscoveryStrategy> strategies = {
      DiscoveryStrategy::kDebugSymbol, DiscoveryStrategy::kRelocation,
      DiscoveryStrategy::kDisassembly, DiscoveryStrategy::kStructuralScan};
  bool allows(DiscoveryStrategy strategy) const;
};

struct PreparedDiscovery {
  std::vector<MallocModule> modules;
  AllocatorVerdict allocator;
  bool may_scan = true;  // whether the structural scan is allowed
  // How often to look, at most, while no malloc is found. What a target changes while it is being
  // checked looks damaged: kLooksAtRunning for one that runs.
  int most_looks = 1;
  static constexpr int kLooksAtRunning = 20;
};

// The target may run. Reads files only, and of most files only headers and symbol names. A file
// that cannot be opened or is damaged is left out; what can be found without it is found later.
PreparedDiscovery prepare_discovery(Target& target, const DebugFileSearch& debug_files,
                                    const DiscoveryOptions& options = {});

// The target is frozen (or a core, or runs on, see PreparedDiscovery::most_looks). Gives the
// instances found, the one with most memory from the system first. An arena that was never used
// (nothing allocated yet) is an instance too when a proposal names it.
std::vector<LocatedMalloc> locate_mallocs(Target& target, const PreparedDiscovery& prepared);

}  // namespace heapsnap
