#include "elf/type_graph.h"

namespace heapsnap {

Pointee DebugType::pointee_at(uint64_t offset) const {
  Pointee found;
  for (const PointerMember& member : pointers) {
    if (member.offset > offset) break;
    const uint64_t into = offset - member.offset;
    const bool is_it = member.count <= 1 || member.stride == 0
                           ? into == 0
                           : into % member.stride == 0 && into / member.stride < member.count;
    if (!is_it) continue;
    if (member.to.type == 0 || (found.type != 0 && found != member.to)) return {};
    found = member.to;
  }
  return found;
}

bool TypeGraph::begins_with(DebugTypeNumber whole, DebugTypeNumber part) const {
  constexpr int kDeepest = 32;
  DebugTypeNumber first = whole;
  for (int depth = 0; depth < kDeepest && first != 0 && first < types.size(); ++depth) {
    if (first == part) return true;
    first = types[first].first;
  }
  return whole < types.size() && part < types.size() && types[part].is_one_pointer() &&
         types[whole].pointee_at(0) == types[part].pointers[0].to;
}

}  // namespace heapsnap
