#include "elf/node_types.h"

#include <algorithm>

namespace heapsnap {

namespace {

using Kind = ContainerClass::Kind;

struct KnownClass {
  std::string_view name;  // up to its arguments
  Kind kind = Kind::kContainer;
  PointerRole role = PointerRole::kObject;
  std::string_view node_base = {};
  std::string_view node = {};  // qualified, up to its arguments
  size_t element = 0;          // which argument the nodes have as theirs
};

constexpr KnownClass kKnownClasses[] = {
    {"vector<", Kind::kContainer, PointerRole::kElements},
    {"_Vector_base<", Kind::kContainer, PointerRole::kElements},
    {"_Bvector_base<", Kind::kContainer, PointerRole::kElements},
    {"deque<", Kind::kContainer, PointerRole::kElements},
    {"_Deque_base<", Kind::kContainer, PointerRole::kElements},
    {"basic_string<", Kind::kContainer, PointerRole::kText},
    {"_Rb_tree<", Kind::kContainer, PointerRole::kObject, "_Rb_tree_node_base",
     "std::_Rb_tree_node<", 1},
    {"_Rb_tree_node<", Kind::kNode, PointerRole::kObject, "_Rb_tree_node_base"},
    {"list<", Kind::kContainer, PointerRole::kObject, "_List_node_base", "std::_List_node<", 0},
    {"_List_base<", Kind::kContainer, PointerRole::kObject, "_List_node_base", "std::_List_node<",
     0},
    {"_List_node<", Kind::kNode, PointerRole::kObject, "_List_node_base"},
    {"forward_list<", Kind::kContainer, PointerRole::kObject, "_Fwd_list_node_base",
     "std::_Fwd_list_node<", 0},
    {"_Fwd_list_base<", Kind::kContainer, PointerRole::kObject, "_Fwd_list_node_base",
     "std::_Fwd_list_node<", 0},
    {"_Fwd_list_node<", Kind::kNode, PointerRole::kObject, "_Fwd_list_node_base"},
    {"_Hashtable<", Kind::kContainer, PointerRole::kBuckets, "_Hash_node_base",
     "std::__detail::_Hash_node<", 1},
    {"_Hash_node<", Kind::kNode, PointerRole::kObject, "_Hash_node_base"},
};

std::string node_name(std::string_view node, std::string_view element, std::string_view more) {
  std::string name(node);
  name += element;
  name += more;
  return name + '>';
}

}  // namespace

std::vector<std::string_view> template_arguments(std::string_view name) {
  std::vector<std::string_view> arguments;
  const size_t open = name.find('<');
  if (open == std::string_view::npos) return arguments;
  int depth = 0;
  size_t begin = open + 1;
  for (size_t i = open + 1; i < name.size(); ++i) {
    const char letter = name[i];
    if (letter == '<' || letter == '(') ++depth;
    if (depth == 0 && (letter == ',' || letter == '>')) {
      while (begin < i && name[begin] == ' ') ++begin;
      arguments.push_back(name.substr(begin, i - begin));
      begin = i + 1;
      if (letter == '>') break;
    }
    if (letter == '>' || letter == ')') --depth;
  }
  return arguments;
}

ContainerClass container_class(std::string_view name) {
  ContainerClass result;
  const auto* const known =
      std::find_if(std::begin(kKnownClasses), std::end(kKnownClasses),
                   [name](const KnownClass& one) { return name.starts_with(one.name); });
  if (known == std::end(kKnownClasses)) {
    // std::unique_ptr<T[], ...>
    if (name.starts_with("unique_ptr<")) {
      const auto arguments = template_arguments(name);
      if (!arguments.empty() && arguments[0].ends_with("[]")) {
        result.kind = Kind::kContainer;
        result.role = PointerRole::kArray;
      }
    }
    return result;
  }
  result.kind = known->kind;
  result.role = known->role;
  result.node_base = known->node_base;
  if (known->node.empty()) return result;
  const auto arguments = template_arguments(name);
  if (known->element >= arguments.size()) return result;
  const std::string_view element = arguments[known->element];
  if (known->role != PointerRole::kBuckets) {
    result.nodes.push_back(node_name(known->node, element, ""));
    return result;
  }
  // Whether nodes keep the hash is the first argument of the last argument.
  const bool keeps_hash = arguments.back().find("_Hashtable_traits<true") != std::string_view::npos;
  result.nodes.push_back(node_name(known->node, element, keeps_hash ? ", true" : ", false"));
  return result;
}

bool is_element_buffer(std::string_view name) {
  return name.starts_with("__aligned_membuf<") || name.starts_with("__aligned_buffer<");
}

}  // namespace heapsnap
