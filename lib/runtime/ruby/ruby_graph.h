// What the graph of references needs to know of Ruby's objects: their classes, with the words of
// slots that are no references.
//
//   of slots                                   what ruby_words.h says
//   what code remembers of a constant          its value
//   what code remembers of a call              the class and the method
//   tables of code, in blocks                  what ruby_code_tables.h says
//   characters, digits in a block of malloc    all of it
//   buffers of IO objects                      all of it (ruby_io_buffers.h)
//   pairs of a small hash in a block           what is behind the last one
//   entries of a hash                          numbers (hashes), deleted ones, and room for more
//   items, members, variables in a block       what is behind the last one
//   tables of classes                          what ruby_class_tables.h says
//   definitions of methods, in a block         numbers, and the ractor that has run define_method
//   variables of closures, in a block          what ruby_closures.h says
//   what is left over in the transient heap    all of it: what objects have there is theirs
//   tables of variables of objects             all of it (ruby_generic_variables.h)
//   weak maps                                  what ruby_weak_maps.h says
//
// What a dead object leads to that the collector has not freed yet is garbage as it is itself. Dead
// ones are classes of their own: "Order (unswept)".
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "heap/struct_bytes.h"
#include "references/runtime_objects.h"
#include "runtime/ruby/ruby_class_tables.h"
#include "runtime/ruby/ruby_closures.h"
#include "runtime/ruby/ruby_code_tables.h"
#include "runtime/ruby/ruby_constants.h"
#include "runtime/ruby/ruby_frames.h"
#include "runtime/ruby/ruby_io_buffers.h"
#include "runtime/ruby/ruby_layout.h"
#include "runtime/ruby/ruby_pages.h"
#include "runtime/ruby/ruby_sums.h"
#include "runtime/ruby/ruby_types.h"
#include "runtime/ruby/ruby_variables.h"
#include "runtime/ruby/ruby_words.h"
#include "target/address_space.h"
#include "target/memory_reader.h"

namespace heapsnap {

class RubyGraph {
 public:
  // All outlive it.
  RubyGraph(MemoryReader& memory, const RubyLayout& layout, const RubyTypes& types,
            const RubyShapes& shapes, RuntimeObjects& objects);

  // Then those of its slots that are used, ascending.
  void add_page(const RubyPage& page, uint64_t page_bytes);
  void add_object(uint32_t index, Address at, const RubyOwner& owner,
                  std::span<const std::byte> slot, bool is_dead);
  // A st_table in a block of malloc, with its `header`, and what it has besides: an index of its
  // entries (bins), and these.
  void add_table(Address table, std::span<const std::byte> header);
  // The tables that the state of the interpreter (rb_vm_t) has itself.
  void add_tables_of_machine(const AddressSpace& space, Address vm, const std::string& module);
  // That state, its first ractor, the first thread of that and its first fiber, which last as long
  // as the interpreter: each thread and each fiber leads to some of them, and holds none. And that
  // threads hold each other as little, though they are a list. After the last slot.
  void add_machine(const AddressSpace& space, Address vm);
  // One of no type that there is.
  void add_other(uint32_t index) { objects_.slots.add_slot(index, SlotMap::kBuffers); }
  // Before the first page: where buffers of young objects may lie, in no block. Empty: nowhere.
  void set_transient_heap(AddressRange arena);
  // After the last slot: global ones, and those of classes and modules.
  void add_variables(RubyConstants& constants, RubyVariables& variables);
  // Where the states of threads and fibers are: what those of their objects that live lead to.
  const std::vector<uint64_t>& threads() const { return threads_; }
  const std::vector<uint64_t>& fibers() const { return fibers_; }
  // What the objects have that are maps that keep nothing.
  const std::vector<uint64_t>& weak_maps() const { return weak_maps_; }
  void add_locals(RubyFrames& frames, const std::string& module);
  // The kind of buffers that have variables of objects.
  uint8_t object_variables() const { return object_variables_; }

 private:
  // What objects have in common that are one class of the graph.
  struct Kind {
    uint64_t skip = 0;      // words
    uint32_t of_class = 0;  // number, and one; 0: none
    uint32_t type = 0;
    uint32_t buffer_by = 0;  // RubyBuffer::by
    bool is_dead = false;
    bool operator==(const Kind&) const = default;
  };
  struct Recent {
    Kind kind;
    uint32_t number = SlotMap::kBuffers;
  };
  struct KindHash {
    size_t operator()(const Kind& kind) const {
      const uint64_t key =
          uint64_t{kind.of_class} << 32 | kind.type << 1 | (kind.is_dead ? 1U : 0U);
      return ((key ^ kind.skip << 20) * 0x9e3779b97f4a7c15) >> 32;
    }
  };
  // The words of an object that it has in the transient heap.
  void add_transient(Address at, std::span<const std::byte> slot);
  void add_data(const RubyTypes::Type& type, Address at, std::span<const std::byte> slot);
  // Where the characters of a string, or the digits of a number, are that has a block of malloc:
  // nothing there is a reference, though the block may have been something else before.
  void add_string_bytes(std::span<const std::byte> slot);
  void add_digits(std::span<const std::byte> slot);
  // What the interpreter keeps among objects, by how it calls that.
  void add_imemo(const std::string& part, std::span<const std::byte> slot);
  // Where a method's definition is, which may be that of others as well.
  void add_definition(std::span<const std::byte> slot);
  // Behind the items of an array, members of a struct, variables of an object that has room for
  // more, or whose block has.
  void add_buffer_end(const RubyBuffer& buffer);
  // Where the pairs of a small hash are (up to 3.1).
  void add_hash_pairs(std::span<const std::byte> slot);
  void add_block(uint64_t at, uint32_t& of_class, const char* name, uint64_t skip,
                 bool is_exact = false, ObjectClass::Rows rows = {});
  // What a table has besides: an index of its entries (bins), and these.
  bool has_interned(const StructBytes& table) const;
  void add_table_parts(std::span<const std::byte> header);
  void add_left_over(Address entries, uint64_t from, uint64_t to);
  void add_deleted(Address entries, uint64_t first, uint64_t bound);
  // Of a built-in type's objects: what their buffer is called.
  uint8_t buffer_kind(RubyType builtin) const;
  uint32_t make_class(const RubyOwner& owner, const Kind& kind);

  MemoryReader& memory_;
  const RubyLayout& layout_;
  const RubyTypes& types_;
  const RubyShapes& shapes_;
  RuntimeObjects& objects_;
  RubyClosures closures_;
  std::unordered_map<Kind, uint32_t, KindHash> classes_;
  std::array<Recent, 1024> recent_{};  // most objects are what one before was
  uint8_t array_items_;                // kinds of buffers
  uint8_t struct_members_;
  uint8_t object_variables_;
  uint8_t class_data_;
  uint8_t code_;
  uint32_t string_bytes_ = SlotMap::kBuffers;  // until there is one, as those below
  uint32_t digits_ = SlotMap::kBuffers;
  uint32_t definition_ = SlotMap::kBuffers;
  uint32_t thread_ = SlotMap::kBuffers;
  uint32_t table_ = SlotMap::kBuffers;
  uint32_t table_bins_ = SlotMap::kBuffers;
  uint32_t table_entries_ = SlotMap::kBuffers;  // of a table that does not fit
  uint32_t table_rows_ = SlotMap::kBuffers;
  std::array<uint32_t, 21> table_entries_of_{};  // by how many there are, with deleted ones
  std::array<uint32_t, kRubyMostPairs + 1> hash_pairs_{};  // the same, by how many there are
  std::vector<uint64_t> modules_;                          // and classes
  RubyClassTables class_tables_;
  RubyCodeTables code_tables_;
  RubyIoBuffers io_buffers_;
  std::vector<uint64_t> ancestors_;  // and those in their places
  AddressRange transient_;
  std::vector<uint64_t> threads_;
  std::vector<uint64_t> fibers_;
  std::vector<uint64_t> weak_maps_;
  // Of bytes of entries to look through for deleted ones: damaged tables could all have the same
  // large ones.
  uint64_t budget_ = uint64_t{1} << 34;
};

}  // namespace heapsnap
