// References of objects by words that lie neither in their slots nor in blocks of malloc
// (RuntimeObjects::Apart): in a heap that the runtime has for buffers of young objects.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "references/block_map.h"
#include "references/reference.h"
#include "references/reference_scan.h"
#include "references/runtime_objects.h"
#include "target/target.h"

namespace heapsnap {

struct ApartReference {
  BlockNumber source = kNoBlock;
  uint32_t offset = 0;  // in words, as RuntimeObjects::Apart's
  BlockNumber target = kNoBlock;
  uint8_t inside = 0;  // as FoundWord's
};

// Looks at all words of `parts`, in any order of theirs, and gives what leads to blocks of `map`,
// which is sealed. What is between them is left over. `scanned` hears of each piece of memory.
std::vector<ApartReference> scan_apart(Target& target, const BlockMap& map,
                                       std::vector<RuntimeObjects::Apart> parts,
                                       const std::function<void(const ScannedMemory&)>& scanned);

}  // namespace heapsnap
