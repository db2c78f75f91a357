// The memory outside of malloc's in which a word keeps a block alive.
//
//   modules   | text | RELRO | .data | .bss |            all but text; not main_arena, mp_
//   stacks    | dead | red zone, frames | TLS, struct pthread |     all but the dead part
//   others    mappings of the program's own               all that it can write, or has written
//
// Memory that the program has made inaccessible (PROT_NONE) or may only write to counts, too.
//
// What is left out: malloc's memory (heaps, arenas, mmapped chunks), the tracker's tables, devices,
// files that the process only reads, and stacks where no thread is: below a stack pointer, and of
// threads that have ended (thread_stacks.h).
//
// Who scans a region skips pages that PageResidency calls absent. The process keeps nothing there,
// and reading one may do harm: of shared memory it would be allocated, and of memory that
// userfaultfd(2) serves it would be asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"
#include "heap/heap_model.h"
#include "heap/located_malloc.h"
#include "references/loaded_modules.h"
#include "references/root.h"
#include "references/stack_frames.h"
#include "references/static_tls.h"
#include "target/target.h"

namespace heapsnap {

struct RootRegion {
  AddressRange range;
  RootKind kind = RootKind::kMapping;
  int32_t tid = 0;                         // of kThreadLocal and kStack
  uint32_t module = LoadedModules::kNone;  // of kVariable
  uint32_t mapping = 0;                    // index in the target's address space
  Address thread_pointer = {};             // of kThreadLocal
  bool is_shared = false;                  // with other processes
  bool operator==(const RootRegion&) const = default;
};

struct RootRegions {
  std::vector<RootRegion> regions;  // ascending, disjoint; of whole words
  ModuleTls tls;
  uint64_t bytes_left_out = 0;  // without read access, and too much to ask for each page
};

// What of a process is malloc's or heapsnap's own, in any order.
struct MemoryTaken {
  std::span<const LocatedMalloc> mallocs = {};  // of the model's instances
  std::span<const AddressRange> mmapped = {};   // mappings of mmapped chunks, whole
  std::span<const AddressRange> tracker = {};   // tracker_memory()
  std::span<const AddressRange> slots = {};     // pages of runtimes: blocks, or unused
};

// `frames`: as for find_thread_stacks(). Reads little: GOT words, and some kilobytes a thread.
RootRegions find_root_regions(Target& target, const LoadedModules& modules, const HeapModel& heap,
                              const MemoryTaken& taken, std::span<const ThreadFrames> frames = {});

// A register of a stopped thread. All are roots, the stack and the thread pointer, too: a stack
// may lie in a block.
struct RegisterWord {
  int32_t tid = 0;
  uint32_t number = 0;  // of general_register_name(), or one of these
  uint64_t value = 0;
  static constexpr uint32_t kThreadPointer = UINT32_MAX;
  static constexpr uint32_t kVector = UINT32_MAX - 1;
  static constexpr uint32_t kOtherBase = UINT32_MAX - 2;
  bool operator==(const RegisterWord&) const = default;
};
std::vector<RegisterWord> register_words(const Target& target);

}  // namespace heapsnap
