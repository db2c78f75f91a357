// How a snapshot came by its references, or why it has none.
#pragma once

#include <cstdint>
#include <string>

#include "references/reference.h"

namespace heapsnap {

inline constexpr const char* kReferencesNotAskedFor = "they were not asked for";

struct ReferenceRecord {
  bool is_complete = false;  // there are references, roots and types; else:
  std::string why_not;       // one clause
  BlockNumber blocks = 0;    // that have numbers
  BlockNumber slots = 0;     // of these, the last ones: slots of language runtimes
  uint64_t references = 0;
  uint64_t roots = 0;
  uint64_t scanned_bytes = 0;     // of blocks and of roots
  uint64_t bytes_in_swap = 0;     // that were left there: words in them are not seen
  uint64_t bytes_unreadable = 0;  // the same
  uint64_t scan_ns = 0;
  bool operator==(const ReferenceRecord&) const = default;
};

}  // namespace heapsnap
