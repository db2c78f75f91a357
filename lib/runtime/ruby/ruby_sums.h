// Ruby's objects added up, by class and by type.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ruby/ruby_classes.h"
#include "runtime/ruby/ruby_types.h"
#include "runtime/runtime_model.h"

namespace heapsnap {

// Whose row an object counts in.
struct RubyOwner {
  const RubyClass* of_class = nullptr;  // null: it has none that anybody sees
  uint32_t type = 0;                    // number in RubyTypes
};

class RubySums {
 public:
  void add_object(const RubyOwner& owner, uint64_t bytes);
  // What such an object has elsewhere.
  void add_owned(const RubyOwner& owner, uint64_t bytes, bool is_in_malloc);
  // One that the collector knows to be dead.
  void add_dead(uint32_t type) { ++type_sum(type).dead; }
  // Adds the rows of all to `model`.
  void take(uint32_t runtime, const RubyClasses& classes, const RubyTypes& types,
            RuntimeModel& model) const;

 private:
  struct Sum {
    uint64_t count = 0;
    uint64_t bytes = 0;
    uint64_t owned_bytes = 0;
    uint64_t malloc_bytes = 0;
    uint64_t dead = 0;
  };

  static Sum& at(std::vector<Sum>& sums, uint32_t number) {
    if (number >= sums.size()) sums.resize(size_t{number} + 1);
    return sums[number];
  }
  Sum& type_sum(uint32_t type) { return at(types_, type); }
  Sum& class_sum(const RubyOwner& owner) {
    return owner.of_class != nullptr ? at(classes_, owner.of_class->number)
                                     : at(internal_, owner.type);
  }

  std::vector<Sum> classes_;   // by RubyClass::number
  std::vector<Sum> internal_;  // by type: of objects without a class
  std::vector<Sum> types_;
};

}  // namespace heapsnap
