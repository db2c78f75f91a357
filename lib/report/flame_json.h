// Stack profiles (stack_profile.h) as one tree for a flame graph: of a snapshot, or of two to show
// what grew.
//
//   {"kind":"flame","version":1,"by":"stack","nodes":[[0,0,0,0],[0,1,4096,2],...],
//    "frames":[{"name":"","..."},{"name":"main"},...],"stacks":[0,7,...]}
//
// A node is [parent, frame, bytes, blocks], and of two snapshots also [.., bytes, blocks] before;
// its parent comes first, node 0 is the root. Bytes and blocks are the node's own. A page has room
// for a limited number of nodes: what is smaller is added to the node above it.
#pragma once

#include <cstdint>
#include <vector>

#include "report/stack_profile.h"
#include "report/writer.h"

namespace heapsnap {

struct FlameInput {
  const StackProfile& profile;
  const StackProfile* before = nullptr;  // null: nothing to compare with
  // Of each stack id, its node in `profile`; empty: not said.
  std::vector<uint32_t> node_of_stack;
  size_t most_nodes = 30000;
};

void print_json_flame(Writer& out, const FlameInput& input);

}  // namespace heapsnap
