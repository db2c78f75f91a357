// An entry of debug information (a DIE), and what it says of itself.
//
// Files are anybody's: references between entries can form circles, and an entry can say that its
// sibling lies before it. Whoever follows references counts them; siblings end where they would
// lead back.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace heapsnap {

class DwarfEntry {
 public:
  DwarfEntry() = default;  // none

  explicit operator bool() const { return parts_[0] != nullptr; }
  // Where it lies in our memory. Tells it from all entries of all files that are open, and ascends
  // with its place in its section.
  const void* address() const { return parts_[0]; }

  int tag() const;           // DW_TAG_*
  const char* name() const;  // DW_AT_name, as text() has it
  bool has(unsigned attribute) const;
  // These follow DW_AT_specification and DW_AT_abstract_origin, a few times.
  // nullptr: it has none. Lives as long as the file is open.
  const char* text(unsigned attribute) const;
  std::optional<uint64_t> number(unsigned attribute) const;
  // What the attribute refers to; none where it is missing or leads to no entry.
  DwarfEntry referred(unsigned attribute) const;
  // What it completes or is a copy of: by DW_AT_abstract_origin, else DW_AT_specification.
  DwarfEntry origin() const;
  bool refers(unsigned attribute) const;  // whether there is such an attribute
  DwarfEntry type() const;                // DW_AT_type

  DwarfEntry first_child() const;
  DwarfEntry next_sibling() const;
  // Calls `visit` with each child until it gives false.
  template <typename Visit>
  void for_each_child(Visit visit) const {
    for (DwarfEntry child = first_child(); child && visit(child); child = child.next_sibling()) {
    }
  }

  // Of pointers in its unit, in bytes; 0 when unknown.
  uint64_t address_size() const;
  // Of an array type; nothing when a dimension has no bound.
  std::optional<uint64_t> element_count() const;
  // Of a member or a base class in what it is part of. Nothing where that depends on the object.
  std::optional<uint64_t> offset_in_whole() const;
  // Whether code at the address in the file belongs to it.
  bool has_code_at(uint64_t address) const;

  // DW_AT_location or DW_AT_frame_base, where it is one operation.
  struct Place {
    enum class Kind { kOther, kAddress, kThreadLocal, kFrame, kFrameStart };
    Kind kind = Kind::kOther;
    uint64_t value = 0;  // address in the file, offset in PT_TLS, or from the frame's start
  };
  Place place(unsigned attribute) const;

  // A Dwarf_Die, which only libdw's header can name.
  using Parts = std::array<void*, 4>;
  const Parts& parts() const { return parts_; }
  static DwarfEntry from_parts(const Parts& parts) {
    DwarfEntry entry;
    entry.parts_ = parts;
    return entry;
  }

 private:
  Parts parts_ = {};
};

// Without typedefs and qualifiers, of which it looks through a few dozen; else none.
DwarfEntry peeled_type(DwarfEntry type);
bool is_alias_of_type(int tag);
bool is_aggregate_type(int tag);  // struct, class or union
// Bytes of a type; 0 when unknown.
uint64_t size_of_type(DwarfEntry type);

}  // namespace heapsnap
