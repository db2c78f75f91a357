// Ruby's slots counted by what is in them, as HeapDump.count_objects of the gem heap_dump does: by
// built-in type, and the objects of the classes that somebody asks for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/runtime_model.h"

namespace heapsnap {

struct ObjectCounts {
  using Count = std::pair<std::string, uint64_t>;
  uint64_t total_slots = 0;
  uint64_t free_slots = 0;
  // "T_STRING" and so on, in the order of their numbers; with dead ones that Ruby has not freed
  // yet, as ObjectSpace counts them. Those of which there is none are left out.
  std::vector<Count> basic_types;
  // Of classes, ascending by name; without dead ones.
  std::vector<Count> user_types;
};

// Of a Ruby, by its index. A class is counted when its name is one of `namespaces`, or begins with
// one and "::".
ObjectCounts count_objects(const RuntimeModel& model, uint32_t runtime,
                           std::span<const std::string> namespaces);

}  // namespace heapsnap
