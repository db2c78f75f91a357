// What closures have in blocks of malloc, of which every word is known: the variables that a block,
// lambda or binding has captured, and what leads to them.
//
//   Proc (T_DATA)   data ──►  | self | ep | code | kind |       of a Binding also a path and a line
//                                       │
//                                       ▼ ep
//   imemo_env   env ──►  | variables | method | link | flags | imemo_env |
//                                                │
//                                                ▼ `ep` of the variables of the block around it,
//                                                  and one
//
// A reference to where `ep` leads is none past a block's first byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/address.h"
#include "references/runtime_objects.h"
#include "references/slot_map.h"

namespace heapsnap {

// rb_env_t, an imemo: what its slot says of the block that it has.
struct RubyEnvironment {
  // VM_ENV_DATA_SIZE: method or block, link, flags. `ep` leads to the last one.
  static constexpr uint64_t kDataWords = 3;

  Address ep;
  Address values;      // of the first variable
  uint64_t words = 0;  // those variables, the data, and what leads back to the slot

  // Nothing: it is none, has none yet, or its words contradict each other.
  static std::optional<RubyEnvironment> of_slot(std::span<const std::byte> slot);
};

class RubyClosures {
 public:
  // `objects` outlives it.
  explicit RubyClosures(RuntimeObjects& objects) : objects_(objects) {}

  // Of an object of any type.
  void add_environment(std::span<const std::byte> slot);
  // `type`: as Ruby calls the type of a T_DATA; `data`: where it leads.
  void add_data(const std::string& type, Address data);

 private:
  static constexpr uint64_t kMostWords = 254;  // of which references say how far inside they point

  RuntimeObjects& objects_;
  uint32_t proc_ = SlotMap::kBuffers;  // until there is one, as those below
  uint32_t binding_ = SlotMap::kBuffers;
  std::array<uint32_t, kMostWords + 2> environments_{};  // by words; the last one: more
};

}  // namespace heapsnap
