// The private, writable, anonymous memory of a target that belongs to no known heap: where mmapped
// chunks and mappings that replaced brk are looked for.
//
// The kernel merges neighbouring mappings of equal flags into one line, so what malloc mapped may
// lie anywhere in a line; but it splits a line where flags differ, so one mmapped chunk may also
// span several. A *place* is a line or a part of one that no heap takes; its *run* goes on over
// adjacent places.
//
//   maps:     | rw-p      | ---p |  rw-p            | file ...
//   heaps:        |####|
//   stacks:                         |####|
//   places:   |---|    |--|------|--|----|----------|
//   run_end:      ^    (of all others) ─────────────^
//
// What lies between a thread's stack pointer and its control block is treated as a stack, but may
// hold other memory too: with a coroutine's stack below it in the same line, whatever lies in
// between. And a stack may lie in an mmapped chunk (pthread_attr_setstack).
#pragma once

#include <cstdint>
#include <vector>

#include "base/address.h"
#include "heap/walk/heap_areas.h"
#include "target/target.h"

namespace heapsnap {

class AnonymousMemory {
 public:
  enum class Kind {
    kWritable,
    kStack,       // writable, of a thread with registers
    kUnwritable,  // a program may protect what it has from malloc, the header too
  };
  struct Place {
    AddressRange range;
    Address run_end;
    Kind kind = Kind::kWritable;
  };

  // `heaps`: areas whose reserved address space is left out.
  AnonymousMemory(Target& target, const std::vector<HeapArea>& heaps);

  const std::vector<Place>& places() const { return places_; }  // ascending
  // Whether two different mappings may meet at `address`: it begins or ends a line of maps or a
  // heap, ends a stack, or borders on memory that cannot be read (guard pages inside a line, 2.42
  // and later).
  bool is_edge(Address address) const;
  bool is_on_stack(Address address) const;

 private:
  Target& target_;
  void add_places(const Mapping& mapping, const std::vector<AddressRange>& heaps,
                  const std::vector<AddressRange>& stacks);

  std::vector<Place> places_;
  std::vector<Address> edges_;  // ascending
};

}  // namespace heapsnap
