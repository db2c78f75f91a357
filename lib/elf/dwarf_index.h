// What the debug information of a file defines: classes by their qualified names, and variables by
// their places. One look at each unit's namespaces and classes; functions are passed over.
//
//   unit | namespace shop | class Session | class Part | ...      shop::Session::Part
//          ^ scopes: where each begins and ends, so that the name of an entry that something
//            refers to is found again without a look at its unit
//
// A class that several units define is kept once. What is in an unnamed namespace is its unit's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "elf/dwarf_image.h"

namespace heapsnap {

// How much debug information may be looked at.
class DwarfBudget {
 public:
  // `deadline_ns`: of monotonic_ns(); 0: none.
  DwarfBudget(uint64_t entries, uint64_t deadline_ns)
      : entries_(entries), deadline_ns_(deadline_ns) {}

  // Before each entry. False from the one on that is too much.
  bool spend();
  bool is_spent() const { return is_spent_; }

 private:
  uint64_t entries_;
  uint64_t deadline_ns_;
  uint64_t spent_ = 0;
  bool is_spent_ = false;
};

class DwarfIndex {
 public:
  explicit DwarfIndex(DwarfBudget& budget) : budget_(budget) {}

  // Adds what the image defines, which stays open as long as this is used. After the last image:
  // seal().
  void add(const DwarfImage& image);
  void seal();

  // The class of that name, of which spaces do not count ("shop::Session"); none when there is
  // none, or more than one of that name.
  DwarfEntry find_class(std::string_view qualified_name) const;
  // The one that `entry` defines or declares: of all with its name the first; none when it is only
  // declared.
  DwarfEntry definition_of(const DwarfEntry& entry) const;

  // Same for the same class in each unit; 0 for one without a name.
  uint64_t name_hash(const DwarfEntry& entry) const;
  // With `name` in place of its own one, where given.
  std::string qualified_name(const DwarfEntry& entry, const char* name = nullptr) const;
  // Whether it is in namespace std, at whatever depth.
  bool is_of_std(const DwarfEntry& entry) const;
  // Whether another class begins with one of this.
  bool is_beginning(const DwarfEntry& entry) const;

  // Variables with a place that is known, by their DW_AT_location.
  struct Variable {
    uint64_t begin = 0;  // address in the file; of a thread-local one, offset in PT_TLS
    DwarfEntry entry;
  };
  const std::vector<Variable>& variables() const { return variables_; }
  const std::vector<Variable>& thread_locals() const { return thread_locals_; }
  // Adds those that functions keep (static). Looks at all that was passed over.
  void add_variables_of_functions(const DwarfImage& image);

 private:
  static constexpr uint32_t kNoScope = UINT32_MAX;
  struct Scope {
    const void* begin = nullptr;
    const void* end = nullptr;
    const char* name = nullptr;  // none: a unit
    uint32_t parent = kNoScope;
    bool is_unnamed = false;
    uint64_t hash = 0;        // of its unit, where it is in an unnamed namespace
    uint64_t plain_hash = 0;  // of its name as it is written
  };

  void add_children(const DwarfEntry& parent, uint32_t scope, int depth);
  bool add_entry(const DwarfEntry& entry, const void* end, uint32_t scope, int depth);
  void add_class(const DwarfEntry& entry, const void* end, uint32_t scope, int depth);
  void add_namespace(const DwarfEntry& entry, const void* end, uint32_t scope, int depth);
  void add_variable(const DwarfEntry& entry);
  void note_beginning(const DwarfEntry& aggregate);
  void add_statics(const DwarfEntry& parent, bool is_in_function, int depth);
  // Where its name belongs: a class may be defined elsewhere than where it is declared.
  uint32_t scope_of(const DwarfEntry& entry) const;
  uint32_t scope_at(const void* address) const;
  DwarfEntry defined(uint64_t hash) const;

  DwarfBudget& budget_;
  // Those of the unit that is being added, and all once sealed, are ascending by begin.
  std::vector<Scope> scopes_;
  size_t first_scope_ = 0;
  std::unordered_map<uint64_t, DwarfEntry> definitions_;
  std::unordered_map<uint64_t, DwarfEntry> of_unnamed_;  // by plain hash; none: of several
  std::vector<DwarfEntry> beginnings_;
  std::unordered_map<uint64_t, bool> is_beginning_;  // by name hash
  std::vector<Variable> variables_;
  std::vector<Variable> thread_locals_;
};

}  // namespace heapsnap
