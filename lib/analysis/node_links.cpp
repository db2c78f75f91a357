#include "analysis/node_links.h"

#include <string_view>

#include "references/container_storage.h"

namespace heapsnap {

namespace {

constexpr uint8_t kNext = 1;
constexpr uint8_t kNextAndPrevious = 1 | 2;
constexpr uint8_t kParentAndChildren = 2 | 4 | 8;

struct KnownNode {
  StorageKind kind;
  std::string_view debug_name;  // up to its arguments; empty: debug information has no other name
  NodeLinks links;
};

constexpr KnownNode kKnownNodes[] = {
    {StorageKind::kTreeNode, "std::_Rb_tree_node<", {kParentAndChildren, false, true}},
    {StorageKind::kListNode, "std::_List_node<", {kNextAndPrevious, false, true}},
    {StorageKind::kNone, "std::_Fwd_list_node<", {kNext}},
    {StorageKind::kHashNode, "std::__detail::_Hash_node<", {kNext}},
    {StorageKind::kHashBuckets, "", {0, true, true}},
    {StorageKind::kDequeMap, "", {0, true}},
};

}  // namespace

std::string_view node_template(const BlockType& type) {
  if (type.source != TypeSource::kDebugInfo) return {};
  for (const KnownNode& known : kKnownNodes) {
    const bool is_one = !known.debug_name.empty() && type.name.starts_with(known.debug_name);
    if (is_one) return known.debug_name;
  }
  return {};
}

NodeLinks node_links(const BlockType& type) {
  const std::string_view node = node_template(type);
  for (const KnownNode& known : kKnownNodes) {
    // Debug information that has no name for it leaves what its structure says.
    if (known.kind != StorageKind::kNone && type.name == to_string(known.kind)) return known.links;
    if (!node.empty() && known.debug_name == node) return known.links;
  }
  return {};
}

}  // namespace heapsnap
