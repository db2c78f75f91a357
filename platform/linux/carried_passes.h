// The loops of HeapPasses as code that can be carried into another process.
//
// The bytes are independent of their place, call nothing and need no data but what their argument
// points to. They are entered with the address of a CarriedScan or CarriedLists in %rdi, that of
// the loop in %rax and a stack; they end in an int3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "target/heap_pass_code.h"

namespace heapsnap {

struct CarriedScan {
  ChunkScan scan;
  PlacedMemory memory;
  uint32_t* answers = nullptr;
  uint64_t room = 0;
  uint64_t count = 0;  // afterwards
};

struct CarriedLists {
  PlacedMemories memories;
  uint64_t count = 0;
  ListPass lists[HeapPasses::kMostLists];
};

struct CarriedPasses {
  std::span<const std::byte> bytes;
  // Offsets in it.
  size_t entry = 0;
  size_t trap = 0;  // one past the int3
  size_t scan = 0;
  size_t follow = 0;
};
CarriedPasses carried_passes();

}  // namespace heapsnap
