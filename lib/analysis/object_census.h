// The objects of language runtimes in a snapshot, by class, and what their pools have free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/type_census.h"
#include "heap/heap_model.h"
#include "runtime/runtime_model.h"

namespace heapsnap {

struct ObjectCensus {
  enum class Order : uint8_t { kBytes, kCount, kOwn };  // with buffers; objects; without buffers

  // Of one runtime, or of all.
  struct Sum {
    uint64_t count = 0;
    uint64_t bytes = 0;         // with buffers
    uint64_t malloc_bytes = 0;  // of these: in blocks of malloc
  };
  std::vector<RuntimeClass> classes;  // of all runtimes, in order
  std::vector<Sum> sums;              // by runtime
  Sum all;
  // Of each class: what its objects keep alive (TypeRow::retained). Empty: not known.
  std::vector<uint64_t> retained_bytes;
};

// With buffers. Sums of damaged snapshots stop at the largest number.
uint64_t all_bytes(const RuntimeClass& row);
// `types`: names of the numbers in `blocks`. Two runtimes that have a class of one name cannot be
// told apart: then nothing is added, as where no block has a class.
void add_retained(const TypeCensus& blocks, const std::vector<BlockType>& types,
                  ObjectCensus& census);
// What the used slots of a Python have besides its objects and their own buffers: bytes that each
// slot is rounded up by, and buffers that no one object has. 0 of other runtimes, whose objects
// count with all of their slot.
uint64_t slot_rest(const RuntimeModel& model, size_t runtime);
// Python has objects of more than 512 bytes from malloc: whether that is another one than glibc's,
// so that they are not among those that were found.
bool lacks_large_objects(const Runtime& runtime, const HeapModel& heap);
ObjectCensus take_object_census(const RuntimeModel& model, ObjectCensus::Order order);

}  // namespace heapsnap
