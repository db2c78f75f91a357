// What a block is: a Python object, and how large, or none.
//
//   block ──►  +----------+----------------+-----------+----------+---------+
//              | values   | gc_next        | ob_refcnt | ob_type  | ...     |
//              | dict     | gc_prev        |           |          |         |
//              +----------+----------------+-----------+----------+---------+
//                only with  only of types    the object
//                a managed  that the
//                dict       collector knows
//
// A word at one of three places is the address of a type whose instances have just that in front,
// the references are plausible, and the size is what the allocator would have given a block of this
// size for. Objects that Python keeps for reuse have no references: they are none.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/address.h"
#include "runtime/python/python_buffers.h"
#include "runtime/python/python_table.h"
#include "runtime/python/python_types.h"

namespace heapsnap {

inline constexpr uint64_t kPythonWord = 8;
inline constexpr uint64_t kPythonTypeAt = 8;  // ob_type of an object

struct PythonObject {
  const PythonType* type = nullptr;
  bool is_tracked = false;    // by the collector
  uint64_t bytes = 0;         // of the block, that it takes
  uint64_t owned_bytes = 0;   // of a buffer of its own
  uint64_t array_bytes = 0;   // of a numpy.ndarray, of its own data
  bool owns_block = false;    // that buffer is of malloc, whatever its size
  Address buffer;             // that one, of a type that has one by python_buffers.h
  PythonNodes nodes = {};     // besides, by the same
  uint64_t free_nodes = 0;    // that it keeps for reuse, of the same size
  uint64_t values_bytes = 0;  // of the array of its attributes
  Address keys;               // of a dict: its table, perhaps its own; null: none
  Address values;             // of a dict, apart from its table
  bool is_frame = false;      // or has one in it, of which `bytes` are in use
};

// Where a numpy.ndarray keeps what (PyArrayObject_fields of numpy 1 and 2).
struct PythonArray {
  static constexpr uint64_t kData = 16;
  static constexpr uint64_t kDimensions = 24;
  static constexpr uint64_t kShape = 32;  // as many sizes, and behind them strides
  static constexpr uint64_t kStrides = 40;
  static constexpr uint64_t kDescription = 56;  // PyArray_Descr
  static constexpr uint64_t kKindAt = 24;       // in that: which sort of items, a character
  static constexpr uint64_t kFlags = 64;
  static constexpr uint64_t kOwnsData = 4;
};

// The word at an offset; 0 where it is not known.
inline uint64_t python_word(std::span<const std::byte> bytes, size_t offset) {
  uint64_t value = 0;
  if (offset + sizeof value <= bytes.size())
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

class PythonObjects {
 public:
  // How much of a block has to be known.
  static constexpr size_t kLooksAt = 160;

  PythonObjects(Target& target, const PythonLayout& layout, PythonTypes& types)
      : space_(target.address_space()), layout_(layout), types_(types), cache_(target.memory()) {}

  // `bytes`: of the block at `at` of `room` bytes, from its first on, min(room, kLooksAt) or more.
  // Null: no object. What it points to stays until the next call.
  const PythonObject* find(Address at, std::span<const std::byte> bytes, uint64_t room);
  // The table of a dict, if there is one.
  std::optional<PythonTable> table(Address keys) { return python_table(cache_, layout_, keys); }
  // What is a dict's own of its table and of its values apart from that, if there are any.
  uint64_t table_bytes(const PythonTable& table, Address values);

 private:
  bool are_references(uint64_t word);
  bool find_values(uint64_t first, uint64_t second, PythonObject& object) const;
  bool are_embedded(Address values);
  static uint64_t inline_bytes(std::span<const std::byte> bytes, uint64_t room,
                               const PythonType& type);
  bool measure(std::span<const std::byte> bytes, uint64_t room, PythonObject& object) const;
  void measure_array(std::span<const std::byte> bytes, PythonObject& object);
  void measure_buffers(Address at, std::span<const std::byte> bytes, PythonObject& object);
  void measure_text(std::span<const std::byte> bytes, uint64_t room, PythonObject& object) const;

  const AddressSpace& space_;
  const PythonLayout& layout_;
  PythonTypes& types_;
  PageCache cache_;
  PythonObject found_;
};

}  // namespace heapsnap
