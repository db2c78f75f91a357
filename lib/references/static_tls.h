// Where each module's block of thread-local variables lies, seen from a thread pointer.
//
//   variant II (x86)                                       thread pointer ─► dtv
//     ... stack | block of libfoo.so | of libc | of the program | struct pthread ...
//   variant I (aarch64)     thread pointer ─► dtv
//     ... stack | struct pthread | two words | block of the program | of libc ...
//
// ("ELF Handling For Thread-Local Storage", Drepper.) These blocks exist from a thread's start on
// and lie at the same distance from every thread pointer. Modules that were loaded later mostly
// have blocks from malloc, one a thread, to which the dtv leads.
//
// The program's distance follows from its PT_TLS. Those of other modules were written by the
// loader into GOT words (relocations TPOFF64 and TLSDESC) or, where only the module's number is
// there (DTPMOD64), into the dtv of each thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/address.h"
#include "references/loaded_modules.h"
#include "target/target.h"

namespace heapsnap {

struct StaticTlsBlock {
  uint32_t module = 0;  // number in LoadedModules
  int64_t offset = 0;   // from the thread pointer
  uint64_t size = 0;
  bool operator==(const StaticTlsBlock&) const = default;
};

struct ModuleTls {
  std::vector<StaticTlsBlock> blocks;    // ascending by offset, disjoint
  std::map<uint64_t, uint32_t> modules;  // by the number that the dtv has them under
};

ModuleTls find_module_tls(Target& target, const LoadedModules& modules);

// The dtv of a thread: what each module's number leads to.
//
//   dtv[-1] length | dtv[0] generation | dtv[1] block, what to free | dtv[2] ...
struct DtvEntry {
  uint64_t module = 0;  // its number, from 1 on
  Address block;
  Address to_free;  // what malloc returned for it; null of a static block, and up to glibc 2.24
  bool operator==(const DtvEntry&) const = default;
};
struct Dtv {
  Address begin;                  // of dtv[-1]: what calloc returned, but for the first thread's
  std::vector<DtvEntry> entries;  // of blocks that exist, ascending
};
// Nothing when there is none that makes sense.
std::optional<Dtv> read_dtv(MemoryReader& memory, Machine machine, Address thread_pointer);

}  // namespace heapsnap
