// The heap of a language runtime, as plain data.
//
//   area     what the runtime takes from the system at once: Python's arenas (1 MiB), Ruby's pages
//            that lie together
//   page     a part of an area with slots of one size: Python's pools (16 KiB), Ruby's pages
//            (16 or 64 KiB)
//   slot     what an object, or a buffer that belongs to one, takes: Python's blocks, Ruby's slots
//
// What is too large for a slot is in a block of malloc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"

namespace heapsnap {

// Stored in snapshots: values never change their meaning, new ones are appended.
enum class RuntimeKind : uint8_t { kUnknown = 0, kPython = 1, kRuby = 2, kPostgres = 3 };
const char* to_string(RuntimeKind kind);  // "python"
const char* name_of(RuntimeKind kind);    // "Python"

// Why the heap of a runtime was left out of a process that stands still while it is read.
inline constexpr const char* kRuntimeWouldHold = "the process would have been stopped for longer";
// Why it was left out at the user's wish.
inline constexpr const char* kRuntimeNotAsked = "the snapshot was taken with --runtimes no";

struct Runtime {
  RuntimeKind kind = RuntimeKind::kUnknown;
  std::string version;  // "3.11.2"; empty: unknown
  std::string module;   // path of the program or library that it is
  Address place;        // of its state: _PyRuntime
  std::string why_not;  // why its heap is not in the snapshot, one clause; empty: it is
  uint64_t interpreters = 0;
  uint64_t objects = 0;  // in slots and in malloc's blocks
  uint64_t areas = 0;
  uint64_t area_bytes = 0;        // the five below together, and pages that were not read
  uint64_t used_bytes = 0;        // in slots that are in use, of objects or not
  uint64_t free_bytes = 0;        // in free slots of pages that have used ones
  uint64_t overhead_bytes = 0;    // of those pages: headers, and the rest behind the last slot
  uint64_t free_page_bytes = 0;   // pages without a used slot
  uint64_t alignment_bytes = 0;   // before and behind the pages of an area
  uint64_t other_slots = 0;       // used slots that are no objects: buffers of objects, mostly
  uint64_t other_slot_bytes = 0;  // of those
  uint64_t damaged_pages = 0;     // contradict themselves: being changed, or overwritten
  uint64_t unread_bytes = 0;      // of pages: in swap, or not readable
  std::string collector;          // what it was doing: "marking", "sweeping"; empty: nothing
  uint64_t unswept_slots = 0;     // in use, by objects that the collector knows to be dead
  uint64_t unswept_bytes = 0;     // of those
  // Of a runtime whose memory is in contexts (RuntimeContext), and those in blocks of malloc.
  uint64_t contexts = 0;
  uint64_t damaged_contexts = 0;     // those with a problem
  uint64_t spare_contexts = 0;       // deleted, and kept with their first block for the next one
  uint64_t spare_bytes = 0;          // blocks of malloc of those
  uint64_t other_malloc_blocks = 0;  // in use, but of no context
  uint64_t other_malloc_bytes = 0;
  bool operator==(const Runtime&) const = default;
};

// What is told of one whose heap is not in the snapshot: half of the truth is none.
inline Runtime refused(const Runtime& runtime) {
  Runtime told;
  told.kind = runtime.kind;
  told.version = runtime.version;
  told.module = runtime.module;
  told.why_not = runtime.why_not;
  return told;
}

// Objects of one name.
struct RuntimeClass {
  uint32_t runtime = 0;  // index into RuntimeModel::runtimes
  std::string name;
  uint64_t count = 0;
  uint64_t tracked = 0;       // those that the garbage collector tracks
  uint64_t bytes = 0;         // the objects themselves, with the collector's header
  uint64_t owned_bytes = 0;   // buffers of their own besides: items of lists, tables of dicts
  uint64_t malloc_bytes = 0;  // of both: what lies in blocks of malloc
  bool operator==(const RuntimeClass&) const = default;
};

// Objects that are the same to the interpreter: Ruby's built-in types, and the parts of those that
// have some.
struct RuntimeType {
  uint32_t runtime = 0;
  std::string name;  // "STRING", "DATA"
  std::string part;  // of "DATA": "VM/thread"; empty: it has none, or that is unknown
  uint64_t count = 0;
  uint64_t unswept = 0;  // besides: dead ones (Runtime::unswept_slots)
  uint64_t bytes = 0;    // as in RuntimeClass
  uint64_t owned_bytes = 0;
  uint64_t malloc_bytes = 0;
  bool operator==(const RuntimeType&) const = default;
};

// Pages whose slots have one size.
struct RuntimePages {
  uint32_t runtime = 0;
  uint64_t slot_bytes = 0;
  uint64_t pages = 0;
  uint64_t used_slots = 0;
  uint64_t free_slots = 0;
  uint64_t unswept_slots = 0;  // of the used ones
  bool operator==(const RuntimePages&) const = default;
};

// Memory from the system: what it is, and how much of that costs memory.
struct RuntimeArea {
  struct Amount {
    uint64_t bytes = 0;
    uint64_t resident = 0;  // 0 where it is unknown which pages are
    uint64_t swapped = 0;
    bool operator==(const Amount&) const = default;
    Amount& operator+=(const Amount& other) {
      bytes += other.bytes;
      resident += other.resident;
      swapped += other.swapped;
      return *this;
    }
  };
  uint32_t runtime = 0;
  AddressRange range;
  Amount used;                // slots in use
  Amount free_in_page;        // free slots, and what pages that are in use lose to headers and ends
  Amount free_in_area;        // pages not in use, and what areas lose to alignment
  bool is_in_malloc = false;  // lies in blocks of malloc, and is part of what those take
  // Ruby's heap for buffers of young objects, which has no slots: not in the sums of Runtime, and
  // all that is not `used` is in free_in_area.
  bool is_transient = false;
  bool operator==(const RuntimeArea&) const = default;
};

// How a memory context hands its memory out. Stored in snapshots, as RuntimeKind.
enum class ContextKind : uint8_t {
  kUnknown = 0,
  kAllocSet = 1,
  kGeneration = 2,
  kSlab = 3,
  kBump = 4,
};
const char* to_string(ContextKind kind);  // "AllocSet"

// A memory context of PostgreSQL: all that is given back together.
struct RuntimeContext {
  uint32_t runtime = 0;
  int32_t parent = -1;  // index into RuntimeModel::contexts; -1: none
  uint32_t level = 0;   // 0: no parent
  ContextKind kind = ContextKind::kUnknown;
  Address at;
  std::string name;
  std::string ident;        // what tells it from others of its name; only where asked for
  uint64_t blocks = 0;      // that it took from malloc
  uint64_t bytes = 0;       // of them, and of itself
  uint64_t free_bytes = 0;  // of these: behind the last chunk of a block, and in free chunks
  uint64_t free_chunks = 0;
  uint64_t used_chunks = 0;
  bool counts_chunks = false;  // whether these two are known
  // Blocks of malloc that back it, by their usable bytes.
  uint64_t malloc_blocks = 0;
  RuntimeArea::Amount in_heaps;     // of those in malloc's heaps
  RuntimeArea::Amount in_mappings;  // of those that have a mapping each
  std::string problem;              // one clause: what does not fit; its sums are what was believed
  bool operator==(const RuntimeContext&) const = default;
};

struct RuntimeModel {
  std::vector<Runtime> runtimes;
  std::vector<RuntimeClass> classes;  // of each runtime: descending by bytes with owned_bytes
  std::vector<RuntimeType> types;
  std::vector<RuntimePages> pages;       // ascending by size
  std::vector<RuntimeArea> areas;        // ascending by address
  std::vector<RuntimeContext> contexts;  // of each runtime: each behind its parent
  bool operator==(const RuntimeModel&) const = default;
};

}  // namespace heapsnap
