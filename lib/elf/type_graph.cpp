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
  for (int depth = 0; depth < kDeepest && whole != 0 && whole < types.size(); ++depth) {
    if (whole == part) return true;
    whole = types[whole].first;
  }
  return false;
}

}  // namespace heapsnap
