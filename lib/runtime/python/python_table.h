// The table of a dict (PyDictKeysObject), of its own or one that dicts share.
//
//   keys ──►  | header | index | entry | entry | ... |       entry:  | hash | key | value |
//                                                                     not where all keys are str
#pragma once

#include <cstdint>
#include <optional>

#include "base/address.h"
#include "runtime/python/python_layout.h"
#include "target/page_cache.h"

namespace heapsnap {

struct PythonTable {
  uint64_t bytes = 0;  // of all of it
  Address first_entry;
  uint64_t entry_bytes = 0;
  uint64_t entries = 0;  // in use, or that were
  uint64_t usable = 0;   // for how many more there is room
  uint64_t most = 0;     // that there is room for in all
  uint64_t references = 0;

  // Where the key of an entry is; its value is in the next word.
  Address key_at(uint64_t entry) const {
    constexpr uint64_t kKeyAndValue = 16;
    return first_entry + (entry + 1) * entry_bytes - kKeyAndValue;
  }
};

// None where there is no such table.
std::optional<PythonTable> python_table(PageCache& cache, const PythonLayout& layout, Address keys);

}  // namespace heapsnap
