// Owners that several threads have: one where they do the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/owner_tree.h"
#include "handmade_references.h"

using namespace heapsnap;
using namespace heapsnap::test;

TEST_CASE("thread-local variables of one name are one in threads of one name") {
  HandmadeHeap heap;
  BlockNumber shared = heap.add(104);
  for (int tid = 1; tid <= 4; ++tid) {
    const uint32_t place = heap.add_place(RootKind::kThreadLocal, "t_buffer", tid);
    const BlockNumber buffer = heap.add(56);
    heap.hold(place, buffer);
    if (tid <= 2) heap.link(buffer, 0, shared);
  }
  const SnapshotStreams streams = heap.finish();
  heap.snapshot.metadata.threads = {
      {1, "worker", {}}, {2, "worker", {}}, {3, "worker", {}}, {4, "io", {}}};
  const OwnerTree tree = make_owner_tree(streams, heap.streams);
  REQUIRE(tree.children[0].size() == 2);
  const OwnerNode& workers = tree.nodes[tree.children[0][0]];
  CHECK(tree.places[workers.place].tid == 1);
  CHECK(tree.threads[workers.place] == 3);
  CHECK(workers.retained == Tally{4, 3 * 56 + 104});
  const OwnerNode& other = tree.nodes[tree.children[0][1]];
  CHECK(tree.places[other.place].tid == 4);
  CHECK(tree.threads[other.place] == 1);
}

TEST_CASE("thread-local variables without a name are one at one offset of a module") {
  HandmadeHeap heap;
  // Of each thread a block of thread-local storage, at another address. The first word of one
  // variable leads to a block in all threads, the second one in threads 2 and 3 only.
  const auto add_storage = [&](const char* module, int tid) {
    const uint32_t place = heap.add_place(RootKind::kThreadLocal, "", tid);
    heap.streams.places[place].module = module;
    heap.streams.places[place].module_offset = 0x3d00;
    heap.streams.places[place].size = 0x80;
    return place;
  };
  for (int tid = 1; tid <= 4; ++tid) {
    const uint32_t place = add_storage("/opt/server", tid);
    const BlockNumber first = heap.add(56);
    heap.hold(place, first);
    if (tid == 2 || tid == 3) {
      const BlockNumber second = heap.add(72);
      heap.link(first, 0, second);
      heap.hold(place, second, 8);
    }
    if (tid <= 2) heap.hold(place, heap.add(104), 0x70);
  }
  heap.hold(add_storage("/opt/libother.so", 1), heap.add(40));
  heap.hold(heap.add_place(RootKind::kThreadLocal, "", 1), heap.add(24));
  heap.hold(heap.add_place(RootKind::kThreadLocal, "", 2), heap.add(24));
  const SnapshotStreams streams = heap.finish();
  heap.snapshot.metadata.threads = {
      {1, "worker-1", {}}, {2, "worker-2", {}}, {3, "worker-3", {}}, {4, "io", {}}};
  const OwnerTree tree = make_owner_tree(streams, heap.streams);

  // Module, its offset there, bytes of its words, thread, threads, retained blocks.
  using Row = std::tuple<std::string, uint64_t, uint64_t, int32_t, uint32_t, uint64_t>;
  std::vector<Row> found;
  for (const uint32_t child : tree.children[0]) {
    const OwnerNode& node = tree.nodes[child];
    const RootPlace& place = tree.places[node.place];
    found.emplace_back(place.module, place.module_offset, place.size, place.tid,
                       tree.threads[node.place], node.retained.count);
  }
  std::sort(found.begin(), found.end());
  CHECK(found == std::vector<Row>{{"", 0, 8, 1, 1, 1},
                                  {"", 0, 8, 2, 1, 1},
                                  {"/opt/libother.so", 0x3d00, 8, 1, 1, 1},
                                  {"/opt/server", 0x3d00, 8, 4, 1, 1},
                                  {"/opt/server", 0x3d00, 16, 1, 3, 5},
                                  {"/opt/server", 0x3d70, 8, 1, 2, 2}});
}

TEST_CASE("frames of one function are one in threads whose names differ in numbers") {
  HandmadeHeap heap;
  const auto add_frame = [&](const char* function, int tid) {
    const uint32_t place = heap.add_place(RootKind::kStack, function, tid);
    const BlockNumber buffer = heap.add(56);
    heap.hold(place, buffer);
  };
  for (int tid = 1; tid <= 3; ++tid) add_frame("handle", tid);
  add_frame("handle", 3);  // that calls itself
  add_frame("handle", 4);
  add_frame("accept", 1);
  add_frame("", 1);
  add_frame("", 2);
  const SnapshotStreams streams = heap.finish();
  heap.snapshot.metadata.threads = {
      {1, "worker-1", {}}, {2, "worker-2", {}}, {3, "worker-13", {}}, {4, "io", {}}};
  const OwnerTree tree = make_owner_tree(streams, heap.streams);
  std::vector<std::tuple<std::string, uint32_t, uint64_t>> found;
  for (const uint32_t child : tree.children[0]) {
    const OwnerNode& node = tree.nodes[child];
    found.emplace_back(tree.places[node.place].name, tree.threads[node.place], node.retained.count);
  }
  std::sort(found.begin(), found.end());
  CHECK(found == decltype(found){
                     {"", 1, 1}, {"", 1, 1}, {"accept", 1, 1}, {"handle", 1, 1}, {"handle", 3, 4}});
}

TEST_CASE("what one thread of several holds has that thread's name") {
  HandmadeHeap heap;
  const BlockNumber shared = heap.add(56);
  heap.hold(heap.add_place(RootKind::kVariable, "g_shared"), shared);
  heap.hold(heap.add_place(RootKind::kStack, "handle", 1), shared);
  heap.hold(heap.add_place(RootKind::kStack, "handle", 2), heap.add(56));
  const SnapshotStreams streams = heap.finish();
  heap.snapshot.metadata.threads = {{1, "worker-1", {}}, {2, "worker-2", {}}};
  const OwnerTree tree = make_owner_tree(streams, heap.streams);
  const auto frame = std::ranges::find_if(tree.children[0], [&](uint32_t child) {
    return tree.places[tree.nodes[child].place].kind == RootKind::kStack;
  });
  REQUIRE(frame != tree.children[0].end());
  CHECK(tree.places[tree.nodes[*frame].place].tid == 2);
  CHECK(tree.nodes[*frame].retained.count == 1);
}
