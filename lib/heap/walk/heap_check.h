// Whether malloc, free and malloc_trim can be called in a process without coming upon damage.
//
// All arenas of one malloc are checked, part by part: the ring of arenas and their heaps, locks,
// top chunks, fastbins and bins (list_check.h). Thread caches are not: they belong to threads that
// are there already. A part that has once been found sound counts as sound. So the heap may be in
// use: what looks damaged because it was changing is sound at another look, damage never is. In
// frozen memory one look tells.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "heap/chunk.h"
#include "heap/heap_model.h"
#include "heap/located_malloc.h"
#include "heap/walk/heap_areas.h"
#include "target/target.h"

namespace heapsnap {

class HeapCheck {
 public:
  // Of a 64-bit malloc.
  explicit HeapCheck(LocatedMalloc malloc) : malloc_(std::move(malloc)) {}

  // Looks at what has not been found sound yet. Gives one record for each part that looks damaged;
  // none: all of it has been found sound. Records have the arenas' numbers in the ring.
  std::vector<Corruption> look(Target& target);

 private:
  // An arena and a part of it.
  using Part = std::pair<Address, unsigned>;

  void check_arena(Target& target, const HeapAreas& areas, const std::vector<Arena>& arenas,
                   size_t index, std::vector<Corruption>& found);
  std::optional<Corruption> check_state(Target& target, const std::vector<Arena>& arenas,
                                        size_t index) const;
  std::optional<Corruption> check_heaps(Target& target, const HeapAreas& areas, size_t index) const;
  template <typename Check>
  void check_part(const Part& part, std::vector<Corruption>& found, Check check);

  LocatedMalloc malloc_;
  std::set<Part> sound_;
};

}  // namespace heapsnap
