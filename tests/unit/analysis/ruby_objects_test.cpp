#include "analysis/ruby_objects.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/unit/analysis/handmade_ruby.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

struct CopiedRow {
  uint64_t bytes = 0;
  BlockNumber of_class = kNoBlock;
  std::string name;
  std::vector<BlockNumber> references;
};

std::map<BlockNumber, CopiedRow> rows_of(RubyObjects& objects) {
  std::map<BlockNumber, CopiedRow> rows;
  objects.each_object([&rows](const RubyObjectRow& row) {
    rows[row.block] = {row.bytes,
                       row.of_class,
                       std::string(row.name),
                       {row.references.begin(), row.references.end()}};
  });
  return rows;
}

using Blocks = std::vector<BlockNumber>;

// Forty objects more that lead to `details`.
Blocks add_sharers(HandmadeRuby& ruby) {
  HandmadeHeap& heap = ruby.heap;
  const TypeNumber type = heap.blocks[ruby.first].type;
  Blocks more;
  for (int i = 0; i < 40; ++i) {
    more.push_back(heap.add(40, type));
    heap.link(more.back(), 16, ruby.details);
    ++heap.slots;
  }
  ruby.streams = heap.finish();
  return more;
}

}  // namespace

TEST_CASE("objects of Ruby refer to each other through blocks of malloc") {
  HandmadeRuby ruby;
  RubyObjects objects(ruby.streams, ruby.heap.streams);
  CHECK(objects.size() == 9);
  auto rows = rows_of(objects);
  CHECK(rows.size() == 9);
  CHECK(rows[ruby.array].references == Blocks{ruby.first, ruby.second});
  CHECK(rows[ruby.array].bytes == 40 + 120);
  CHECK(rows[ruby.array].of_class == ruby.anonymous);
  // The block counts to the first of them. A dead object is none.
  CHECK(rows[ruby.first].references == Blocks{ruby.text});
  CHECK(rows[ruby.first].bytes == 40 + 56);
  CHECK(rows[ruby.second].references == Blocks{ruby.array, ruby.text});
  CHECK(rows[ruby.second].bytes == 40);
  CHECK(rows[ruby.second].of_class == ruby.order_class);
  CHECK(rows[ruby.text].of_class == kNoBlock);
  CHECK(rows[ruby.cache].of_class == kNoBlock);
  CHECK(rows[ruby.cache].references == Blocks{ruby.order_class});
  // Of a class: what its variables lead to.
  CHECK(rows[ruby.order_class].references == Blocks{ruby.order_class, ruby.text});
  CHECK(objects.address_of(ruby.array).value() == ruby.address(ruby.array));
}

TEST_CASE("classes of Ruby are called as constants and types are") {
  HandmadeRuby ruby;
  RubyObjects objects(ruby.streams, ruby.heap.streams);
  auto rows = rows_of(objects);
  CHECK(rows[ruby.order_class].name == "Order");
  CHECK(rows[ruby.class_class].name == "Class");
  CHECK(rows[ruby.anonymous].name ==
        fmt::format("#<Class:{:#018x}>", ruby.address(ruby.anonymous)));
  CHECK(rows[ruby.first].name == "");
  CHECK(objects.classes().at("Order") == ruby.order_class);
  CHECK(objects.classes().at("Order::ALIAS") == ruby.order_class);
}

TEST_CASE("roots lead to objects of Ruby, also through blocks") {
  HandmadeRuby ruby;
  RubyObjects objects(ruby.streams, ruby.heap.streams);
  std::map<std::string, Blocks> roots;
  objects.each_root([&roots](const RubyRoot& root) {
    roots[root.place->name] = {root.references.begin(), root.references.end()};
  });
  CHECK(roots.size() == 8);
  CHECK(roots["ORDERS"] == Blocks{ruby.array});
  CHECK(roots["$details"] == Blocks{ruby.text});
  CHECK(roots["main"] == Blocks{ruby.second});
  CHECK_FALSE(roots.contains("cache"));
  // What roots have passed counts to objects all the same.
  CHECK(rows_of(objects)[ruby.first].bytes == 40 + 56);
}

TEST_CASE("what several roots lead to by way of one structure is of the one that lasts longest") {
  HandmadeRuby ruby;
  HandmadeHeap& heap = ruby.heap;
  const BlockNumber state = ruby.items;
  for (const int32_t tid : {7, 8}) {
    heap.hold(heap.add_place(RootKind::kStack, "call of " + std::to_string(tid), tid), state);
  }
  heap.hold(heap.add_place(RootKind::kVariable, ""), state);
  heap.hold(heap.add_place(RootKind::kVariable, "state"), state);
  ruby.streams = heap.finish();
  RubyObjects objects(ruby.streams, heap.streams);
  for (int again = 0; again < 2; ++again) {
    std::map<std::string, Blocks> roots;
    objects.each_root([&roots](const RubyRoot& root) {
      CHECK_FALSE(roots.contains(root.place->name));
      roots[root.place->name] = {root.references.begin(), root.references.end()};
    });
    CHECK(roots["state"] == Blocks{ruby.first, ruby.second});
    CHECK(roots["main"] == Blocks{ruby.second});
    CHECK(roots.size() == 9);
  }
}

TEST_CASE("a structure of very many objects is passed a bounded number of times") {
  HandmadeRuby ruby;
  const Blocks more = add_sharers(ruby);
  RubyObjects objects(ruby.streams, ruby.heap.streams);
  auto rows = rows_of(objects);
  CHECK(rows[more[0]].references == Blocks{ruby.text});
  CHECK(rows[more[39]].references.empty());
}

TEST_CASE("a buffer of Ruby's is passed however many objects lead to it") {
  HandmadeRuby ruby;
  ruby.heap.blocks[ruby.details].type = ruby.heap.add_type("Hash table", TypeSource::kRuntime);
  const Blocks more = add_sharers(ruby);
  RubyObjects objects(ruby.streams, ruby.heap.streams);
  auto rows = rows_of(objects);
  CHECK(rows[more[39]].references == Blocks{ruby.text});
}

TEST_CASE("references of other blocks than the snapshot has are refused") {
  HandmadeRuby ruby;
  ruby.heap.snapshot.metadata.references->slots = 1000;
  CHECK_THROWS_AS(RubyObjects(ruby.streams, ruby.heap.streams), Error);
}
