// What Ruby's classes are called, and of which class an object is.
//
// The class in an object's slot may be one of its own (a singleton class) or stand for a module;
// what Ruby's Object#class gives is the first real one above it. Names are where Ruby keeps them:
// since 3.2 in the class, before among its variables, under a name that is found by what it leads
// to: "Object" in rb_cObject.
//
//   anonymous class       #<Class:0x00007f0a0f3b1c58>
//   anonymous module      #<Module:0x00007f0a0f3b1c58>
//   singleton class       #<Class:Object>   #<Class:#<Object:0x00007f0a0f3b1c58>>
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/ruby/ruby_layout.h"
#include "runtime/ruby/ruby_objects.h"
#include "runtime/ruby/ruby_place.h"
#include "runtime/ruby/ruby_value.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

struct RubyClass {
  uint64_t at = 0;
  uint32_t number = 0;  // in order of discovery
  std::string name;
};

class RubyClasses {
 public:
  static constexpr size_t kMostClasses = 1 << 20;
  static constexpr size_t kMostOthers = 4 << 20;

  // `shapes` are those of `layout`, and stay.
  RubyClasses(Target& target, const RubyLayout& layout, const RubyShapes& shapes);
  // Has to come first: checks what is known already of some names. Gives why they do not fit, one
  // clause; empty: they do.
  std::string check(const RubyPlace& place);

  // The class of objects whose slot has `word`; null where that is none. The pointer stays.
  const RubyClass* find(uint64_t word) {
    Recent& recent = recent_[(word >> 4 ^ word >> 14) % kRecent];
    if (recent.word != word) recent = {word, look_up(word)};
    return recent.found;
  }
  const std::vector<std::unique_ptr<RubyClass>>& all() const { return all_; }
  // What Ruby calls the class or module at `at`, singleton ones too.
  std::string name_of(uint64_t at) { return name_at(at, 0); }
  // Calls see(ID, value, place of the value) for the variables of a class.
  template <typename See>
  void each_variable(uint64_t at, See see);
  // The same of a st_table.
  template <typename See>
  void each_entry(Address table, See see);
  // A string's bytes, up to `longest`; none where there is no string.
  std::optional<std::string> text_of(uint64_t value, size_t longest);
  // Whether it can be shown as it is.
  static bool has_no_controls(std::string_view text);

 private:
  struct Recent {
    uint64_t word = 0;
    const RubyClass* found = nullptr;
  };
  struct Slot {  // as far as all classes have it
    uint64_t flags = 0;
    uint64_t own_class = 0;
    uint64_t super = 0;
    RubyType type = RubyType::kNone;
  };

  std::optional<Slot> read_class(uint64_t at);
  uint64_t real_class(uint64_t at);
  const RubyClass* look_up(uint64_t word);
  std::string name_at(uint64_t at, unsigned depth);
  std::optional<std::string> path_of(uint64_t at);
  std::string singleton_name(uint64_t at, unsigned depth);
  uint64_t attached_to(uint64_t at);

  const RubyLayout& layout_;
  const RubyShapes& shapes_;
  PageCache cache_;
  uint64_t path_key_ = 0;   // __classpath__, where names are among the variables
  uint64_t draft_key_ = 0;  // __tmp_classpath__, the same of a class in an anonymous one
  static constexpr size_t kRecent = 1 << 14;
  std::vector<Recent> recent_ = std::vector<Recent>(kRecent);
  std::unordered_map<uint64_t, const RubyClass*> known_;  // by the word, and by the real class
  std::vector<std::unique_ptr<RubyClass>> all_;
};

template <typename See>
void RubyClasses::each_variable(uint64_t at, See see) {
  Address place(at);
  if (layout_.class_extension != RubyLayout::kNone) {
    const auto extension = cache_.word(place + layout_.class_extension, 8);
    if (!extension || *extension == 0) return;
    place = Address(*extension);
  }
  const auto variables = cache_.word(place + layout_.class_variables, 8);
  if (!variables || *variables == 0) return;
  if (!layout_.has_shapes()) return each_entry(Address(*variables), see);
  const auto flags = cache_.word(Address(at), 8);
  if (!flags) return;
  shapes_.each_variable(RubyValue::shape_of(*flags), [&](uint64_t id, uint64_t index) {
    const Address word = Address(*variables) + index * 8;
    const auto value = cache_.word(word, 8);
    if (value) see(id, *value, word);
  });
}

template <typename See>
void RubyClasses::each_entry(Address table, See see) {
  constexpr uint64_t kMost = 1 << 16;
  constexpr uint64_t kEntry = 24;  // st_table_entry: hash, key, record
  constexpr uint64_t kBound = 40;  // st_table: entries_bound, entries
  constexpr uint64_t kEntries = 48;
  constexpr uint64_t kDeleted = ~uint64_t{0};
  const auto bound = cache_.word(table + kBound, 8);
  const auto entries = cache_.word(table + kEntries, 8);
  if (!bound || !entries || *bound > kMost) return;
  for (uint64_t i = 0; i < *bound; ++i) {
    std::array<uint64_t, 3> entry;
    const Address place = Address(*entries) + i * kEntry;
    if (cache_.read(place, std::as_writable_bytes(std::span(entry))) != kEntry) return;
    if (entry[0] != kDeleted) see(entry[1], entry[2], place + 2 * sizeof(uint64_t));
  }
}

}  // namespace heapsnap
