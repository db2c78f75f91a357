// The loops of chunk_loops.h as code that can be copied into another process
// (target/code_runner.h).
//
// Each takes the address of its task as its argument.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/in_place/chunk_loops.h"
#include "target/code_runner.h"

namespace heapsnap {

struct ScanTask {
  ChunkScan scan;
  PlacedMemory memory;
  uint32_t* answers = nullptr;
  uint64_t room = 0;
  uint64_t count = 0;  // afterwards
};

struct ListsTask {
  PlacedMemories memories;
  uint64_t count = 0;
  ListPass lists[HeapPasses::kMostLists];
};

struct LoopCode {
  PortableCode code;
  // Offsets in it.
  size_t scan = 0;
  size_t follow = 0;
};
LoopCode loop_code();

}  // namespace heapsnap
