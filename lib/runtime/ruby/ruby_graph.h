// What the graph of references needs to know of Ruby's objects: their classes, with the words of
// slots that are no references.
//
//   all of them                                flags
//   strings, numbers that lie in the slot      all but the class
//   what code remembers of a constant          its value
//
// What a dead object leads to that the collector has not freed yet is garbage as it is itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "references/runtime_objects.h"
#include "runtime/ruby/ruby_constants.h"
#include "runtime/ruby/ruby_pages.h"
#include "runtime/ruby/ruby_sums.h"
#include "runtime/ruby/ruby_types.h"

namespace heapsnap {

class RubyGraph {
 public:
  // Both outlive it.
  RubyGraph(const RubyTypes& types, RuntimeObjects& objects) : types_(types), objects_(objects) {}

  // Then those of its slots that are used, ascending.
  void add_page(const RubyPage& page, uint64_t page_bytes);
  void add_object(uint32_t index, Address at, const RubyOwner& owner,
                  std::span<const std::byte> slot);
  // One of no type that there is.
  void add_other(uint32_t index) { objects_.slots.add_slot(index, SlotMap::kBuffers); }
  // After the last slot: of classes and modules. `constants` says where they are.
  void add_variables(RubyConstants& constants);

 private:
  uint32_t make_class(const RubyOwner& owner, bool is_plain);

  const RubyTypes& types_;
  RuntimeObjects& objects_;
  std::vector<uint32_t> of_classes_;  // by number of the class, plain ones behind others; 0: none
  std::vector<uint64_t> modules_;     // and classes
  std::vector<uint32_t> of_types_;    // the same of objects without a class, by number of the type
};

}  // namespace heapsnap
