// What Ruby's objects are to the interpreter: one of its built-in types, and a part of one where it
// tells them apart further.
//
//   STRING   ARRAY   HASH ...
//   IMEMO    callcache, iseq, ment ...         what the interpreter keeps for itself
//   DATA     VM/thread, proc, autoload ...     what an extension in C wraps: its rb_data_type_t
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/ruby/ruby_value.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class RubyTypes {
 public:
  static constexpr size_t kMostTypes = 1 << 16;
  struct Type {
    RubyType builtin = RubyType::kNone;
    std::string part;  // empty: it has no parts, or is one of unknown name
  };

  explicit RubyTypes(Target& target);

  // The type of the object in `slot`, by number. Its built-in type is one that slots have.
  uint32_t find(std::span<const std::byte> slot) {
    uint64_t flags = 0;
    if (slot.size() >= sizeof flags) std::memcpy(&flags, slot.data(), sizeof flags);
    const RubyType builtin = RubyValue::type_of(flags);
    if (builtin == RubyType::kImemo) {
      return RubyValue::kTypes + static_cast<uint32_t>(flags >> 12 & (kImemoKinds - 1));
    }
    if (builtin == RubyType::kData) return find_data(slot);
    return static_cast<uint32_t>(builtin);
  }
  // Whether a T_DATA has a function that frees its data: else that is somebody else's.
  bool frees_data(std::span<const std::byte> slot);
  // What objects of this type are called that have no class.
  std::string internal_name(size_t number) const;
  const std::vector<Type>& all() const { return all_; }

 private:
  static constexpr uint32_t kImemoKinds = 16;

  uint32_t find_data(std::span<const std::byte> slot);
  std::string name_of(Address type);

  PageCache cache_;
  std::vector<Type> all_;
  std::unordered_map<uint64_t, uint32_t> known_;       // by the address of a rb_data_type_t
  std::unordered_map<std::string, uint32_t> by_name_;  // extensions may have several of a name
};

}  // namespace heapsnap
