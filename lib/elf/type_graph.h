// Types of a program as far as pointers lead to them: which pointers lie in an object of a type,
// and what each of them leads to.
//
//   g_sessions ─► unordered_map: | buckets | ... | first node |
//                                                    └► node: | next | key, Session* |
//                                                                  └► Session: | name ... |
//
// Plain data: what of an object is a member and what a member of a member makes no difference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heapsnap {

// Index into TypeGraph::types; 0: none, or not known.
using DebugTypeNumber = uint32_t;

// What a pointer leads to, besides its type.
enum class PointerRole : uint8_t {
  kObject,    // one object, or several beside each other
  kArray,     // several beside each other
  kElements,  // the same, of a std::vector or std::deque, which may have room for more
  kText,      // characters of a std::string
  kBuckets,   // of a hash table of libstdc++
};

struct Pointee {
  DebugTypeNumber type = 0;
  PointerRole role = PointerRole::kObject;
  bool in_union = false;  // the pointer: another member may be in use
  bool operator==(const Pointee&) const = default;
};

// A pointer in an object, or `count` of them, `stride` bytes apart.
struct PointerMember {
  uint64_t offset = 0;
  uint64_t count = 1;
  uint64_t stride = 0;
  Pointee to;
  bool operator==(const PointerMember&) const = default;
};

struct DebugType {
  std::string name;   // qualified
  uint64_t size = 0;  // 0: not known, or no object has this type
  // The type that an object of this type begins with: its first base class or member; 0: none.
  DebugTypeNumber first = 0;
  bool has_vptr = false;                // an object begins with the address of a vtable
  bool is_beginning = false;            // objects of other types begin with one of this
  bool is_open_ended = false;           // ends with an array of no size of its own
  bool is_scalar = false;               // a number, or text
  std::vector<PointerMember> pointers;  // ascending by offset

  // What the pointer at that offset of an object leads to. None where there is no pointer, or where
  // a union has several that lead to different types.
  Pointee pointee_at(uint64_t offset) const;
  // Whether an object is no more than a pointer that leads to what has a type.
  bool is_one_pointer() const {
    return pointers.size() == 1 && pointers[0].offset == 0 && pointers[0].count == 1 &&
           pointers[0].to.type != 0 && size <= sizeof(uint64_t);
  }
};

struct TypeGraph {
  std::vector<DebugType> types = {DebugType{}};

  // Whether an object of type `whole` begins with one of type `part`, or is one. | next | pprev |
  // begins with a pointer: to one, `Node**`, leads the pprev of the next node.
  bool begins_with(DebugTypeNumber whole, DebugTypeNumber part) const;
};

}  // namespace heapsnap
