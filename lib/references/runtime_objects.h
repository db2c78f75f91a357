// What a language runtime's walk says of its objects, for the graph of references: which slots and
// which blocks of malloc are objects, of which class, and which words are variables with a name.
//
//   module app   __dict__ ──►  keys ──►  | "CACHE" | value |      the value's word: "app.CACHE"
//
// A variable is a root: its word lies in a block or slot all the same, but is no reference of it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "references/slot_map.h"

namespace heapsnap {

struct RuntimeObjects {
  struct Block {  // of malloc
    Address at;   // what malloc returned
    uint32_t of_class = 0;
  };
  struct Variable {
    Address word;
    std::string name;    // "app.CACHE"
    std::string module;  // path of the runtime
  };
  SlotMap slots;  // classes of blocks are among its own
  std::vector<Block> blocks;
  std::vector<Variable> variables;
  std::vector<AddressRange> unused;       // of the runtime's memory: words there are left over
  std::vector<std::string> buffer_kinds;  // "list items"

  uint8_t add_buffer_kind(std::string name) {
    buffer_kinds.push_back(std::move(name));
    return static_cast<uint8_t>(buffer_kinds.size() - 1);
  }
};

}  // namespace heapsnap
