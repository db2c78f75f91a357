// Which words are variables of a Python program: globals of its modules, and attributes of its
// classes.
//
//   shop.models ──►  dict of the module:  ORDERS   ──►  list     shop.models.ORDERS
//                                         Order    ──►  class    shop.models.Order
//                                                        │
//                    dict of the class:   cache    ──►  dict     shop.models.Order.cache
//                                         save     ──►  function
//
// Attributes are those of classes that are globals of the module that defines them, which are there
// as long as it is, and of these the containers and the objects of a program's classes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "references/runtime_objects.h"
#include "runtime/python/python_layout.h"
#include "runtime/python/python_objects.h"
#include "runtime/python/python_types.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

struct PythonModule {
  Address dict;
  Address name;
};

class PythonVariables {
 public:
  // All outlive it. `path`: of the interpreter.
  PythonVariables(Target& target, const PythonLayout& layout, PythonTypes& types,
                  RuntimeObjects& objects, const std::string& path)
      : layout_(layout), types_(types), objects_(objects), path_(path), cache_(target.memory()) {}

  // To be called once.
  void add(std::span<const PythonModule> modules);

 private:
  void add_attributes_of(Address at, const std::string& module);
  void add_variable(Address word, std::string name);
  // Of an object; null where none is known.
  const PythonType* type_of(Address at);
  bool is_class(Address at);
  bool keeps_others(Address at);
  Address value_at(Address word) { return Address(cache_.word(word, kPythonWord).value_or(0)); }
  std::optional<std::string> name_at(Address at);
  template <typename Visit>
  void each_entry(Address dict, Visit visit);

  const PythonLayout& layout_;
  PythonTypes& types_;
  RuntimeObjects& objects_;
  const std::string& path_;
  PageCache cache_;
  uint64_t entries_left_ = 1 << 23;  // of dicts, to look at
};

}  // namespace heapsnap
