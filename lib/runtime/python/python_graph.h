// What the graph of references needs to know of Python's objects: classes, with the words that are
// no references, and the variables of modules.
//
//   words of an object that are no references   links of the collector, the count of references,
//                                               characters and numbers, what a weakref refers to
//   a module   md_dict ──►  ma_keys ──►  | hash | key | value |     a variable: "app.CACHE"
//              md_name ──►  "app"
//
// A module's own __names__ are no variables: what they lead to is part of the module.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "references/runtime_objects.h"
#include "runtime/python/python_layout.h"
#include "runtime/python/python_objects.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class PythonGraph {
 public:
  // All outlive it.
  PythonGraph(Target& target, const PythonLayout& layout, RuntimeObjects& objects);

  // The class of the object in a block of which `bytes` are the first ones.
  uint32_t class_of(const PythonObject& object, std::span<const std::byte> bytes);
  // Remembers a module; other objects are ignored.
  void see(const PythonObject& object, std::span<const std::byte> bytes);
  // After the last object. `module`: path of the interpreter.
  void add_variables(const std::string& module);

 private:
  static constexpr uint32_t kTexts = 3;  // kinds of str: see text_class()

  struct Module {
    Address dict;
    Address name;
  };
  ObjectClass make_class(const PythonType& type);
  ObjectClass make_text_class(const PythonType& type, unsigned kind);
  void add_variables_of(const Module& module, const std::string& path);
  std::optional<std::string> text_at(Address at);

  const PythonLayout& layout_;
  RuntimeObjects& objects_;
  PageCache cache_;
  uint8_t list_items_;
  uint8_t dict_keys_;
  uint8_t dict_values_;
  uint8_t set_table_;
  uint8_t instance_values_;
  uint8_t bytes_;
  uint8_t characters_;
  uint8_t array_data_;
  uint8_t array_shape_;
  std::vector<uint32_t> classes_;  // by number of the type, kTexts each; 0: not made yet
  std::vector<Module> modules_;
};

}  // namespace heapsnap
