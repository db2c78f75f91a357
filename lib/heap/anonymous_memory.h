// The private, writable, anonymous memory of a target that no known heap takes: where mmapped
// chunks and mappings that replaced brk are looked for.
//
// The kernel merges neighbouring mappings of equal flags into one line, so what malloc mapped may
// lie anywhere in a line; but it splits a line where flags differ, so one mmapped chunk may also
// span several. A *place* is a line, less what is known to be something else; its *run* goes on
// over adjacent private anonymous lines of any protection.
//
//   maps:     | rw-p      | ---p |  rw-p            | file ...
//   heaps:        |####|
//   places:   |---|    |--|      |------------------|
//   run_end:      ^    (of both others) ────────────^
#pragma once

#include <cstdint>
#include <vector>

#include "base/address.h"
#include "heap/heap_areas.h"
#include "target/target.h"

namespace heapsnap {

class AnonymousMemory {
 public:
  struct Place {
    AddressRange range;
    Address run_end;
  };

  // `heaps`: areas whose reserved address space is left out. Stacks of threads with registers are
  // left out too.
  AnonymousMemory(Target& target, const std::vector<HeapArea>& heaps);

  const std::vector<Place>& places() const { return places_; }  // ascending
  // Whether two different mappings may meet at `address`: it begins or ends a line of maps, a heap
  // or a stack, or borders on memory that cannot be read (guard pages inside a line, 2.42 and
  // later).
  bool is_edge(Address address) const;

 private:
  Target& target_;
  std::vector<Place> places_;
  std::vector<Address> edges_;  // ascending
};

}  // namespace heapsnap
