// What a language runtime's walk says of its objects, for the graph of references: which slots and
// which blocks of malloc are objects, of which class, which words are left over, and which are
// variables with a name.
//
//   module app   __dict__ ──►  keys ──►  | "CACHE" | value |      the value's word: "app.CACHE"
//
// A variable is a root: its word lies in a block or slot all the same, but is no reference of it.
// So is a local variable of a function that runs. Those of a thread are in order: the outermost
// call's first; where the words of one call begin anew, what follows owns after what was before.
//
// Which words of a buffer are references, its object says; a walk comes by the two in any order:
//
//   list   ob_item ──►  | item | item | item | .... | .... |     three are, the rest is left over
//          ob_size 3
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/large_memory.h"
#include "references/root.h"
#include "references/slot_map.h"

namespace heapsnap {

struct RuntimeObjects {
  struct Block {  // of malloc
    Address at;   // what malloc returned
    uint32_t of_class = 0;
  };
  struct Variable {
    Address word;        // of a local one, perhaps outside of all blocks and slots
    std::string name;    // "app.CACHE"; of a local one, as in local_name.h
    std::string module;  // path of the runtime
    RootKind kind = RootKind::kGlobal;
    int32_t tid = 0;     // of a local one: the thread whose call it is
    Address function{};  // of a local one: what the runtime runs, the same for all its calls
  };
  struct LeftOver {  // words in the slot or block of malloc in which an address lies
    static constexpr uint64_t kToEnd = UINT64_MAX;
    Address in;
    uint64_t from = 0;  // bytes behind it
    uint64_t to = kToEnd;
  };
  struct Apart {  // words of an object that lie in no block and no slot: references of it
    Address words;
    uint32_t bytes = 0;
    uint32_t offset = 0;  // in words: as though they lay there in its slot or block, behind its end
    Address object;
  };
  struct BufferKind {
    std::string name;       // "list items"
    bool is_exact = false;  // BlockType's: its words were said
  };
  SlotMap slots;  // classes of blocks are among its own
  std::vector<Block> blocks;
  std::vector<Variable> variables;
  std::vector<AddressRange> unused;  // of the runtime's memory: words there are left over
  std::vector<LeftOver> left_over;
  std::vector<Apart> apart;
  // A block that another one holds by no word of its own: by a list through blocks of the same
  // sort, as though the list lay behind that block's end, or by a pointer that is not aligned.
  struct Listed {
    Address by;  // both: what malloc returned
    Address at;
    uint32_t offset = 0;  // in words
  };
  std::vector<Listed> listed;
  std::vector<BufferKind> buffer_kinds;

  // What is known, as a number that grows with it.
  size_t count() const {
    return slots.classes().size() + blocks.size() + variables.size() + left_over.size();
  }
  uint8_t add_buffer_kind(std::string name, bool is_exact) {
    buffer_kinds.push_back({std::move(name), is_exact});
    return static_cast<uint8_t>(buffer_kinds.size() - 1);
  }
  // A buffer, by the address that its object has of it: nothing before that, and none of the words
  // that `skip` has a bit for (as ObjectClass::skip) is a reference.
  void add_buffer(Address at, uint64_t skip) { add_buffer_of({skip, 0}, at); }
  // The same, and of which kind it is.
  void add_buffer(Address at, uint64_t skip, uint8_t kind) {
    add_buffer_of({skip, static_cast<uint8_t>(kind + 1)}, at);
  }
  // A block of malloc. Its class is made by `make` (an ObjectClass) when `of_class` is still
  // SlotMap::kBuffers. Of more than kMostBlocks the rest is left out.
  static constexpr size_t kMostBlocks = 1 << 24;
  template <typename Make>
  void add_block(Address at, uint32_t& of_class, Make make) {
    if (blocks.size() >= kMostBlocks) return;
    if (of_class == SlotMap::kBuffers) of_class = slots.add_class(make());
    blocks.push_back({at, of_class});
  }
  // After the last slot and buffer.
  void seal();

 private:
  // What buffers have in common.
  struct Shape {
    uint64_t skip = 0;
    uint8_t kind = 0;  // as ObjectClass's
    auto operator<=>(const Shape&) const = default;
  };
  struct HashShape {
    size_t operator()(const Shape& shape) const {
      return std::hash<uint64_t>()(shape.skip ^ uint64_t{shape.kind} << 56);
    }
  };
  // An address, of which eight bytes are one, and in the low bits the number of its shape.
  static constexpr unsigned kShapeBits = 18;
  void add_buffer_of(const Shape& shape, Address at);
  // Of a buffer that begins so many bytes inside of its slot.
  uint32_t class_of(const Shape& shape, uint32_t object_at);

  LargeArray<uint64_t> buffers_;
  std::vector<Shape> shapes_;
  std::unordered_map<Shape, uint32_t, HashShape> number_of_shape_;
  std::map<std::pair<Shape, uint32_t>, uint32_t> class_of_shape_;  // and where it begins
};

}  // namespace heapsnap
