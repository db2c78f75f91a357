// What the object in a slot owns besides: buffers in blocks of malloc.
//
//   slot ──►  | flags | class | length | capacity | pointer |     an array
//                                                      |
//                                                      v
//                                   a block of malloc, its own unless a flag says: shared
//
// The sizes are those that Ruby's ObjectSpace.memsize_of adds up. What only malloc knows the size
// of (what a C extension keeps behind a T_DATA) is given as an address.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/ruby/ruby_layout.h"
#include "runtime/ruby/ruby_table.h"
#include "runtime/ruby/ruby_value.h"
#include "target/target.h"

namespace heapsnap {

struct RubyObject {
  uint64_t owned_bytes = 0;
  // They are in a heap of Ruby's own for what is young, and not in malloc's blocks (up to 3.2).
  bool is_transient = false;
  Address table;  // a st_table of its own elsewhere: see ruby_table_bytes(); null: none
  Address block;  // of malloc, its own; null: none
};

// The shapes of objects: since 3.2, which variables each has, and for how many there is room.
class RubyShapes {
 public:
  RubyShapes() = default;
  // Without shapes where they cannot be found in the module's data.
  RubyShapes(Target& target, const RubyLayout& layout, std::span<const AddressRange> data);

  bool is_known(uint64_t id) const { return id < shapes_.size(); }
  // For how many variables there is room; kTable: they are in a table.
  static constexpr uint32_t kTable = UINT32_MAX;
  uint32_t capacity(uint64_t id) const { return id < shapes_.size() ? shapes_[id].capacity : 0; }
  // How many it has; kTable where that is not known, or they are in a table.
  uint32_t variables(uint64_t id) const {
    return id < shapes_.size() && shapes_[id].capacity != kTable ? shapes_[id].variables : kTable;
  }
  // Calls see(ID, index) for the variables of what has that shape, the last one first; none where
  // they are in a table.
  template <typename See>
  void each_variable(uint64_t id, See see) const;
  size_t count() const { return shapes_.size(); }

 private:
  struct Shape {
    uint64_t edge = 0;  // the ID of the variable that it has more than its parent
    uint32_t parent = 0;
    uint32_t capacity = 0;
    bool is_variable = false;  // whether it has one
    uint32_t variables = 0;    // with its parents
  };
  bool read(Target& target, const RubyLayout& layout, Address tree);

  std::vector<Shape> shapes_;  // by number
};

template <typename See>
void RubyShapes::each_variable(uint64_t id, See see) const {
  constexpr unsigned kMostVariables = 1 << 10;  // Ruby's own limit is below
  if (capacity(id) == kTable) return;
  std::array<uint64_t, kMostVariables> ids;
  unsigned count = 0;
  for (unsigned depth = 0; is_known(id) && depth < 2 * kMostVariables; ++depth) {
    const Shape& shape = shapes_[id];
    if (shape.is_variable && count < kMostVariables) ids[count++] = shape.edge;
    id = shape.parent;
  }
  for (unsigned i = 0; i < count; ++i) see(ids[i], count - 1 - i);
}

// Of the object in `slot`: all of its bytes.
RubyObject measure_ruby_object(const RubyLayout& layout, const RubyShapes& shapes,
                               std::span<const std::byte> slot);

}  // namespace heapsnap
