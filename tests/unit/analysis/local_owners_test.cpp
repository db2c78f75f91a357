#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "analysis/owner_tree.h"
#include "handmade_references.h"

using namespace heapsnap;
using namespace heapsnap::test;

TEST_CASE("local variables own after globals and before all else, the outermost call first") {
  HandmadeHeap heap;
  const uint32_t mapping = heap.add_place(RootKind::kMapping, "");
  const uint32_t temporary = heap.add_place(RootKind::kLocal, "a temporary in main() at a.py:9", 7);
  const uint32_t outer = heap.add_place(RootKind::kLocal, "cache in main() at a.py:9", 7);
  const uint32_t inner = heap.add_place(RootKind::kLocal, "store in serve() at a.py:4", 7);
  const uint32_t other = heap.add_place(RootKind::kLocal, "key in serve() at a.py:4", 7);
  const uint32_t global = heap.add_place(RootKind::kGlobal, "a.ROUTES");
  std::vector<BlockNumber> blocks;
  for (int i = 0; i < 7; ++i) blocks.push_back(heap.add(56));
  const auto hold = [&](uint32_t place, std::initializer_list<int> held) {
    for (const int i : held) heap.hold(place, blocks[static_cast<size_t>(i)]);
  };
  hold(mapping, {0, 1, 2, 3, 4, 5, 6});
  hold(temporary, {0, 1, 2, 3, 4, 5});
  hold(other, {0, 1, 3, 4});
  hold(inner, {0, 1, 2, 3});
  hold(outer, {0, 1});
  hold(global, {0});
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  std::map<std::string, uint64_t> found;
  for (const uint32_t child : tree.children[0]) {
    const OwnerNode& node = tree.nodes[child];
    const bool is_several = node.kind == OwnerNode::Kind::kSeveral;
    found[is_several ? "several" : tree.places[node.place].name] = node.retained.count;
  }
  CHECK(found == decltype(found){{"a.ROUTES", 1},
                                 {"cache in main() at a.py:9", 1},
                                 {"store in serve() at a.py:4", 1},
                                 {"key in serve() at a.py:4", 1},
                                 {"several", 1},
                                 {"a temporary in main() at a.py:9", 1},
                                 {"", 1}});
}

TEST_CASE("what closures share is the variable's, not that of the function that leads there") {
  HandmadeHeap heap;
  // The words of a call ascend twice: what is in cells comes first.
  const uint32_t shared = heap.add_place(RootKind::kLocal, "shared in main() at a.py:9", 7);
  const uint32_t count = heap.add_place(RootKind::kLocal, "count in main() at a.py:9", 7);
  heap.streams.places[shared].begin = Address(0x7f0000001010);
  heap.streams.places[count].begin = Address(0x7f0000001000);
  const BlockNumber cell = heap.add(40);
  const BlockNumber function = heap.add(136);
  heap.hold(shared, cell);
  heap.hold(count, function);
  heap.link(function, 8, cell);
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  REQUIRE(tree.children[0].size() == 2);
  for (const uint32_t child : tree.children[0]) {
    CHECK(tree.nodes[child].kind == OwnerNode::Kind::kPlace);
    CHECK(tree.nodes[child].retained.count == 1);
  }
}

TEST_CASE("functions that are called the same, in files that are, are two") {
  for (const RootKind kind : {RootKind::kLocal, RootKind::kStack}) {
    HandmadeHeap heap;
    const std::string name = kind == RootKind::kLocal ? "rows in index() at views.py:" : "run()";
    for (const unsigned line : {4, 101, 103}) {
      const std::string at = kind == RootKind::kLocal ? name + std::to_string(line) : name;
      const uint32_t place = heap.add_place(kind, at, 7);
      heap.streams.places[place].module_offset = line < 100 ? 0x1000 : 0x2000;
      heap.hold(place, heap.add(56));
    }
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    REQUIRE(tree.children[0].size() == 2);
    CHECK(tree.nodes[tree.children[0][0]].retained.count == 2);
    CHECK(tree.nodes[tree.children[0][1]].retained.count == 1);
  }
}

TEST_CASE("a local variable is one in threads of a family, at whatever line its function is") {
  HandmadeHeap heap;
  for (int tid = 1; tid <= 3; ++tid) {
    const std::string name = "job in work() at a.py:" + std::to_string(tid);
    heap.hold(heap.add_place(RootKind::kLocal, name, tid), heap.add(56));
  }
  const SnapshotStreams streams = heap.finish();
  heap.snapshot.metadata.threads = {{1, "worker-1", {}}, {2, "worker-2", {}}, {3, "io", {}}};
  const OwnerTree tree = make_owner_tree(streams, heap.streams);
  REQUIRE(tree.children[0].size() == 2);
  const OwnerNode& workers = tree.nodes[tree.children[0][0]];
  CHECK(tree.threads[workers.place] == 2);
  CHECK(workers.retained.count == 2);
}
