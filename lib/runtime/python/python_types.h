// Which words are addresses of Python types, and what the types say of their instances.
//
// A type is an object whose own type is one whose instances are types, up to `type` itself, which
// is its own. That, its flags, its name and its sizes have to fit before a word counts as the
// address of a type.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/python/python_layout.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

struct PythonType {
  // What its instances keep besides.
  enum class Family : uint8_t {
    kOther,
    kSized,   // ob_size says how many items
    kHidden,  // items, but nothing that says how many (frames, generators)
    kList,
    kDict,
    kSet,
    kText,
    kByteArray,
    kWeak,  // weakref.ref and the like
    kModule,
    kArray,  // numpy.ndarray
  };
  // Memory of its own that python_buffers.h knows, of instances of these types and of classes that
  // are derived from them.
  enum class Keeps : uint8_t {
    kNothing,
    kNumbers,     // array.array
    kDeque,       // collections.deque
    kOrder,       // collections.OrderedDict
    kForeign,     // ctypes
    kCharacters,  // io.StringIO
    kFile,        // io.BufferedReader, BufferedWriter, BufferedRandom
  };
  // As repr() of it has it: `shop.Order`, `shop.make.<locals>.Order`; without `builtins` and,
  // but for what is called like a type of Python's, `__main__`.
  std::string name;
  uint32_t number = 0;  // in order of discovery
  // Where an instance has the list of weak references to it, from the begin of its block on; they
  // are not its own. kNoList: nowhere.
  static constexpr uint32_t kNoList = UINT32_MAX;
  uint32_t weak_list = kNoList;
  uint32_t header = 0;  // bytes in front of an instance
  bool is_collected = false;
  bool is_long = false;      // int, and what is derived from it
  bool is_static = false;    // of the interpreter or of an extension, and no class of a program
  bool is_own = false;       // of the interpreter
  bool is_program = false;   // a class of a program, and so are its bases up to `object`
  bool is_tuple = false;     // by its name, as the next one
  bool is_metatype = false;  // its instances are types
  Family family = Family::kOther;
  Keeps keeps = Keeps::kNothing;
  uint64_t basic_size = 0;
  uint64_t item_size = 0;
  uint64_t values_bytes = 0;       // of an instance whose attributes are in an array of its own
  uint64_t values_entries = 0;     // how many of them any instance has by now
  bool has_inline_values = false;  // they are behind it

  static constexpr uint64_t kMostValues = 30;  // SHARED_KEYS_MAX_SIZE
  // A prefix of bytes that say in which order values came, then the values.
  static constexpr uint64_t array_bytes(uint64_t values) {
    return (values + 2 + 7) / 8 * 8 + values * 8;
  }
  // The same behind an instance: there is a word before that says how many there are.
  static constexpr uint64_t inline_bytes(uint64_t values) {
    return (values + 7) / 8 * 8 + (values + 1) * 8;
  }
};

class PythonTypes {
 public:
  static constexpr size_t kMostTypes = 1 << 20;
  static constexpr size_t kMostOthers = 4 << 20;
  static constexpr uint64_t kMostEntries = 4 << 20;  // of classes' dicts that are read for names

  // `own`: the data of the interpreter.
  PythonTypes(Target& target, const PythonLayout& layout, std::vector<AddressRange> own);
  // Memory in which no type lies, as they are larger than what is kept there: ascending, disjoint.
  void set_arenas(std::vector<AddressRange> arenas) { arenas_ = std::move(arenas); }

  // The type at `word`; null where there is none. The pointer stays.
  const PythonType* find(uint64_t word) {
    if (last_arena_.contains(Address(word))) return nullptr;
    Recent& recent = recent_[(word >> 4 ^ word >> 16) % kRecent];
    if (recent.word == word) return recent.type;
    if (is_in_arena(Address(word))) return nullptr;
    recent = {word, look_up(word)};
    return recent.type;
  }
  const std::vector<std::unique_ptr<PythonType>>& all() const { return all_; }
  // The tuple of what `type` itself is derived from (tp_mro), which every Python has from its start
  // on; nothing where `type` is not in the interpreter's data.
  std::optional<Address> first_tuple(MemoryReader& memory);
  // Where a class statement has made the class at `at`.
  std::optional<std::string> module_of(Address at);

 private:
  struct Recent {
    uint64_t word = 0;
    const PythonType* type = nullptr;
  };

  bool is_in_arena(Address at) {
    return !arenas_.empty() && arenas_.front().begin <= at && at < arenas_.back().end &&
           search_arenas(at);
  }
  bool search_arenas(Address at);
  const PythonType* look_up(uint64_t word);
  const PythonType* read(Address at);
  std::optional<std::string> read_name(Address at);
  std::string full_name(Address at, std::string name);
  std::optional<std::string> read_text(Address at);
  bool is_metatype(Address at);
  bool leads_to_type(Address at);
  PythonType::Family family_of(Address at, uint64_t flags);
  PythonType::Keeps keeps_of(Address at);
  bool is_program(Address at);

  const AddressSpace& space_;
  const std::vector<AddressRange> own_;
  std::vector<AddressRange> arenas_;
  AddressRange last_arena_;  // neighbours lead to neighbours
  const PythonLayout& layout_;
  PageCache cache_;
  static constexpr size_t kRecent = 1 << 14;
  std::vector<Recent> recent_ = std::vector<Recent>(kRecent);
  std::unordered_map<uint64_t, const PythonType*> known_;
  std::unordered_map<uint64_t, bool> metatypes_;  // what was asked for
  uint64_t entries_left_ = kMostEntries;
  std::vector<std::unique_ptr<PythonType>> all_;
};

}  // namespace heapsnap
