// Heaps of any shape: who owns what, what is leaked and of which types it is add up, and the two
// ways to the owners' sums agree. Some have references of more blocks than there are.
#include <algorithm>
#include <functional>
#include <map>

#include "analysis/held_block.h"
#include "analysis/leak_census.h"
#include "analysis/owner_sums.h"
#include "analysis/owner_tree.h"
#include "analysis/type_census.h"
#include "base/error.h"
#include "tests/fuzz/fuzzed_heap.h"

namespace {

using namespace heapsnap;
using test::require;

Tally sum_of(const OwnerTree& tree, const std::vector<uint32_t>& nodes) {
  Tally sum;
  for (const uint32_t node : nodes) sum += tree.nodes[node].retained;
  return sum;
}

void check_tree(const OwnerTree& tree) {
  require(tree.children.size() == tree.nodes.size());
  for (uint32_t i = 0; i < tree.nodes.size(); ++i) {
    const OwnerNode& node = tree.nodes[i];
    require(node.parent < i || i == 0);
    Tally sum = sum_of(tree, tree.children[i]);
    sum += node.own;
    require(sum == node.retained);
    if (node.kind == OwnerNode::Kind::kPlace) require(node.place < tree.places.size());
  }
  Tally all = tree.nodes[0].retained;
  all += tree.leaked;
  require(all == tree.in_use);
}

void check_sums(const OwnerSums& sums, const OwnerTree& tree) {
  std::map<std::pair<bool, uint32_t>, Tally> tops;
  for (const uint32_t child : tree.children[0]) {
    const OwnerNode& node = tree.nodes[child];
    const bool is_several = node.kind == OwnerNode::Kind::kSeveral;
    tops[{is_several, node.place}] = node.retained;
  }
  require(sums.owners.size() == tops.size());
  for (const OwnerSum& owner : sums.owners) {
    require(tops.at({owner.is_several, owner.place}) == owner.retained);
  }
  require(sums.in_use == tree.in_use && sums.leaked == tree.leaked);
}

void check_leaks(const SnapshotStreams& streams, const ReferenceStreams& references,
                 const Tally& leaked) {
  const LeakCensus census = take_leak_census(streams, references);
  require(census.all == leaked && census.blocks.size() == leaked.count);
  uint64_t retained = census.held_by_several.count;
  for (const LeakGroup& group : census.groups) retained += group.retained_blocks;
  require(retained == leaked.count);
  const auto is_known = [](uint32_t stack, TypeNumber type) { return stack == 1 || type == 2; };
  const LeakCensus rest = take_leak_census(streams, references, is_known);
  require(rest.all.count + rest.suppressed.count == leaked.count);
  for (const LeakedBlock& block : rest.blocks) require(!is_known(block.stack, block.type));
}

void check_why(const SnapshotStreams& streams, const ReferenceStreams& references,
               Address address) {
  constexpr size_t kLimit = 3;
  const auto held = explain_block(streams, references, address, kLimit);
  require(held.has_value());
  require(held->paths.size() <= kLimit && held->sources.size() <= kLimit);
  const auto is_doubtful = [](const HeldPath& path) {
    return std::ranges::any_of(path.steps, &HeldStep::may_be_stale);
  };
  for (const HeldPath& path : held->paths) {
    require(path.steps.back().block.number == held->block.number);
  }
  require(std::ranges::is_sorted(held->paths, {}, is_doubtful));
}

// Blocks that are not in the snapshot, to which others lead.
void add_unknown_blocks(test::FuzzedBytes& bytes, test::HandmadeHeap& heap) {
  if (bytes.next() % 16 != 15) return;
  for (unsigned i = 64U * bytes.next(); i > 0; --i) {
    const auto from = static_cast<BlockNumber>(bytes.next() % heap.blocks.size());
    heap.link(from, 8, heap.add(24), bytes.next() % 2 != 0);
  }
}

void may_be_refused(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kBadInput);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  test::FuzzedBytes bytes(data, size);
  const auto heap = test::fuzzed_heap(bytes);
  const SnapshotStreams streams = heap->finish();
  const auto asked = static_cast<BlockNumber>(bytes.next() % heap->blocks.size());
  add_unknown_blocks(bytes, *heap);
  may_be_refused([&] { sum_owners(streams, heap->streams); });
  may_be_refused([&] { check_why(streams, heap->streams, heap->address_of(asked)); });
  may_be_refused([&] {
    const OwnerTree tree = make_owner_tree(streams, heap->streams);
    check_tree(tree);
    check_tree(make_owner_tree(streams, heap->streams, OwnerGrouping::kType));
    check_tree(make_owner_tree(streams, heap->streams, OwnerGrouping::kStack));
    check_sums(sum_owners(streams, heap->streams), tree);
    check_leaks(streams, heap->streams, tree.leaked);
    take_type_census(streams, heap->streams);
  });
  return 0;
}
