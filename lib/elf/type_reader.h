// Reads types from the debug information of a file into a TypeGraph.
//
// What a type leads to gets a number at once and is read later, so that no list of types, however
// long, recurses. Members by value are read with what they are part of.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "elf/debug_types.h"
#include "elf/dwarf_index.h"

namespace heapsnap {

// What is known of all files so far.
struct TypesRead {
  explicit TypesRead(const DebugTypeLimits& all)
      : limits(all), budget(all.entries, all.deadline_ns) {}

  DebugTypeLimits limits;
  DwarfBudget budget;
  TypeGraph graph;
  size_t pointers = 0;
  size_t name_bytes = 0;
  bool is_full = false;
  // Classes that files only declare, by their names as they are written.
  std::map<std::string, DebugTypeNumber, std::less<>> declared;
  std::map<std::string, DebugTypeNumber, std::less<>> scalars;
  std::map<std::pair<DebugTypeNumber, PointerRole>, DebugTypeNumber> pointer_types;
};

class TypeReader {
 public:
  // Both outlive this.
  TypeReader(TypesRead& types, const DwarfIndex& index) : state_(types), index_(index) {}

  // The pointers of a variable of that type.
  DebugType layout_of(const DwarfEntry& type);
  // Bytes of a type, also of one that is only declared where `type` is; 0 when unknown.
  uint64_t size_of(const DwarfEntry& type, int depth = 0) const;
  // The number of a class; 0 when there are too many.
  DebugTypeNumber number_of(const DwarfEntry& entry) { return number_of(entry, nullptr); }
  // Reads what has only got its number so far.
  void finish();

 private:
  // What is around a member: how its pointers are to be understood.
  struct Context {
    PointerRole role = PointerRole::kObject;
    std::string_view node_base;  // name of the class that pointers to nodes lead to
    DwarfEntry node;             // what they lead to
  };
  struct Waiting {
    DebugTypeNumber number = 0;
    DwarfEntry entry;
  };

  DebugTypeNumber number_of(const DwarfEntry& entry, const char* alias);
  DebugTypeNumber declared_number(const DwarfEntry& entry);
  DebugTypeNumber add_type(const std::string& name);
  void build(DebugTypeNumber number, const DwarfEntry& entry);
  static void sort_pointers(DebugType& type);
  void add_pointer(DebugType& to, const PointerMember& member);
  void collect(const DwarfEntry& wanted, uint64_t base, const Context& context, int depth,
               DebugType& to);
  void collect_array(const DwarfEntry& array, uint64_t base, const Context& context, int depth,
                     DebugType& to);
  void collect_class(const DwarfEntry& wanted, uint64_t base, const Context& outer, int depth,
                     DebugType& to);
  void collect_member(const DwarfEntry& type, uint64_t at, uint64_t up_to_end,
                      const Context& context, int depth, DebugType& to);
  void collect_members(const DwarfEntry& type, uint64_t base, const Context& context, int depth,
                       DebugType& to);
  DwarfEntry element_of_buffer(const DwarfEntry& type);
  Context context_in(const DwarfEntry& type, const Context& outer);
  Pointee pointee_of(const DwarfEntry& wanted, const Context& context, int depth);
  Pointee pointee_class(const DwarfEntry& type, const char* alias, const Context& context);
  DebugTypeNumber scalar_number(const DwarfEntry& type);
  DebugTypeNumber pointer_number(const Pointee& to, uint64_t size);
  void build_all();
  void define_declared();

  TypesRead& state_;
  int unions_ = 0;  // in which the member lies that is looked at
  const DwarfIndex& index_;
  std::unordered_map<const void*, DebugTypeNumber> number_of_;  // by definition
  std::deque<Waiting> waiting_;
};

}  // namespace heapsnap
