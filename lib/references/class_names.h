// Names of C++ classes, from what their vtables say of them in memory and in symbols.
//
//   vtable:     ... | offset to top | type_info | function | function ...
//                                       │       ^ what an object begins with (vptr)
//   type_info:  | vptr of a class of cxxabi | name | bases ... |
//                                              └► "N4shop7SessionE"
//
// (Itanium C++ ABI, 2.5 and 2.9.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "references/loaded_modules.h"
#include "target/address_space.h"
#include "target/page_cache.h"

namespace heapsnap {

// "shop::Session" for the name in a type_info ("N4shop7SessionE"; "*" marks one that only its own
// address tells from others); empty when it is no name of a class.
std::string class_of_type_name(std::string_view name);
// The same for the symbol of a vtable ("_ZTVN4shop7SessionE").
std::string class_of_vtable_symbol(std::string_view symbol);

// Looks at vtables in the target's memory.
class ClassNames {
 public:
  // All must outlive this.
  ClassNames(PageCache& cache, const LoadedModules& modules, const AddressSpace& space,
             Machine machine);

  enum class Verdict : uint8_t {
    kNone,         // no vtable of a class whose object could begin with it
    kNamed,        // `name` is its class
    kWithoutRtti,  // all of a vtable, but built by -fno-rtti
  };
  struct Answer {
    Verdict verdict = Verdict::kNone;
    std::string name;
    uint32_t module = LoadedModules::kNone;  // that has the vtable
  };
  Answer look_at(Address vptr);

 private:
  std::optional<uint64_t> word(Address at) { return cache_.word(at, word_); }
  bool is_in_module(Address address) const;
  bool is_code(Address address) const;
  std::string text_at(Address at);
  std::string name_of_type_info(Address type_info);
  bool is_class_type_info(Address type_info);

  PageCache& cache_;
  const LoadedModules& modules_;
  const AddressSpace& space_;
  unsigned word_;
};

}  // namespace heapsnap
