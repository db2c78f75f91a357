// The containers of libstdc++ whose pointers say less than the container: nodes that are led to as
// their base class, storage that is led to as its first element.
//
//   std::_Rb_tree<K, V, ...>     _Rb_tree_node_base*  ─►  _Rb_tree_node<V>
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "elf/type_graph.h"

namespace heapsnap {

struct ContainerClass {
  enum class Kind { kNone, kContainer, kNode };
  Kind kind = Kind::kNone;
  PointerRole role = PointerRole::kObject;  // of its pointers
  std::string_view node_base;               // class that its pointers to nodes lead to
  std::vector<std::string> nodes;           // what the nodes may be, by qualified name
};

// Of the class of that name in namespace std or below ("vector<int, std::allocator<int> >").
ContainerClass container_class(std::string_view name);

// Whether it is a class that has room for an object of its template's argument.
bool is_element_buffer(std::string_view name);

// The arguments of a template by its name, as they are written.
std::vector<std::string_view> template_arguments(std::string_view name);

}  // namespace heapsnap
