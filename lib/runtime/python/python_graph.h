// What the graph of references needs to know of Python's objects: classes, with the words that are
// no references, and the variables of modules.
//
//   words of an object that are no references   links of the collector, the count of references,
//                                               characters and numbers, what a weakref refers to
//   a module   md_dict ──►  ma_keys ──►  | hash | key | value |     a variable: "app.CACHE"
//              md_name ──►  "app"
//
// A module's own __names__ are no variables: what they lead to is part of the module.
//
// Of lists, dicts, sets and instances it says how much of their buffers is in use, of tuples and
// such where they end in their block: words behind are left over, and so are those of free objects.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "references/runtime_objects.h"
#include "runtime/python/python_frames.h"
#include "runtime/python/python_layout.h"
#include "runtime/python/python_leftovers.h"
#include "runtime/python/python_objects.h"
#include "runtime/python/python_variables.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class PythonGraph {
 public:
  // All outlive it.
  PythonGraph(Target& target, const PythonLayout& layout, RuntimeObjects& objects);

  // The class of the object in the block at `at` of `room` bytes, of which `bytes` are the first
  // ones. Keeps what it says of its buffers, and modules.
  uint32_t add(const PythonObject& object, Address at, std::span<const std::byte> bytes,
               uint64_t room);
  // That of a free one; `type`: null of a dict's table.
  uint32_t class_of_free(const PythonType* type, const PythonLeftovers::Free& free);
  // The table of a dict, and its values where it has them apart from that.
  void add_table(Address keys, const PythonTable& table, Address values);
  // Words, in blocks or elsewhere.
  void add_left_over(std::span<const AddressRange> words);
  // Those that there are, after the last object.
  std::span<const PythonModule> modules() const { return modules_; }
  void add_locals(const PythonFrames& frames, const std::string& module);

 private:
  // What blocks of one class have in common.
  struct Shape {
    uint32_t type = 0;
    uint8_t kind = 0;   // of a str: see make_text_class(); of others: see kind_of()
    uint8_t words = 0;  // that are the object's, from the block's begin on; 0: all
    bool operator==(const Shape&) const = default;
  };
  struct Recent {
    Shape shape;
    uint32_t of_class = SlotMap::kBuffers;
  };
  // What is asked of a type only once.
  struct TypeFacts {
    bool is_set = false;
    bool is_known = false;  // all words of its instances are
    bool is_alike = false;  // those of one size are of one class, and say nothing else
    uint8_t words = 0;      // Shape::words of the last one, if it is_alike
    uint32_t of_class = SlotMap::kBuffers;  // and the class of that
  };
  static constexpr uint8_t kElsewhere = 1;  // a set's table, or an instance's values
  static constexpr uint8_t kFrame = 2;      // of which all words are known

  TypeFacts& facts_of(const PythonType& type);
  unsigned kind_of(const PythonObject& object, Address at, std::span<const std::byte> bytes) const;
  uint32_t class_of(const PythonType& type, const Shape& shape, bool are_all_known);
  // What the object says of its buffers.
  void see(const PythonObject& object, Address at, std::span<const std::byte> bytes, uint64_t room);
  ObjectClass make_class(const PythonType& type, uint8_t kind);
  void add_items(Address first, uint64_t items, uint64_t room);
  // `bytes`: of a numpy.ndarray with data of its own, from its begin on.
  void add_array_data(const PythonObject& object, std::span<const std::byte> bytes);
  void add_kept(const PythonObject& object, Address at, std::span<const std::byte> bytes);
  // `bytes`: of a node; what is behind it in its block is left over.
  void add_nodes(const PythonNodes& nodes, uint8_t kind, uint64_t skip, uint64_t bytes);
  void add_deque(Address at, std::span<const std::byte> bytes, uint64_t header);
  void add_hashed(Address table, uint32_t first, uint32_t words, uint32_t number);
  ObjectClass make_text_class(const PythonType& type, unsigned kind);

  const PythonLayout& layout_;
  RuntimeObjects& objects_;
  PageCache cache_;
  uint8_t list_items_;
  uint8_t dict_keys_;
  uint8_t dict_values_;
  uint8_t set_table_;
  uint8_t instance_values_;
  uint8_t bytes_;
  uint8_t characters_;
  uint8_t array_data_;
  uint8_t array_shape_;
  uint8_t docstring_;
  uint8_t numbers_;
  uint8_t deque_block_;
  uint8_t ordered_table_;
  uint8_t ordered_node_;
  uint8_t foreign_;
  uint8_t io_characters_;
  uint8_t file_buffer_;
  std::vector<TypeFacts> facts_;                          // by number of the type
  std::unordered_map<uint64_t, uint32_t> classes_;        // by shape
  std::array<Recent, 1024> recent_{};                     // most objects are what one before was
  std::unordered_map<uint64_t, uint32_t> free_classes_;   // by type, and one, and what is where
  std::map<std::array<uint32_t, 3>, uint32_t> of_large_;  // by rows
  Address last_table_;
  std::vector<PythonModule> modules_;
  uint64_t nodes_left_ = 1 << 25;  // to look at
};

}  // namespace heapsnap
