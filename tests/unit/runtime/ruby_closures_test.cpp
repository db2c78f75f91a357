#include "runtime/ruby/ruby_closures.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "runtime/ruby/ruby_value.h"
#include "tests/unit/runtime/known_words.h"

using namespace heapsnap;
using test::kept;
using test::Words;

namespace {

constexpr uint64_t kAt = 0x50000000;
constexpr auto kImemo = static_cast<uint64_t>(RubyType::kImemo);

std::array<uint64_t, 5> environment(uint64_t words) {
  return {kImemo, 0x1000, kAt + (words - 2) * 8, kAt, words};
}

// What is said of the environment's block; null: nothing.
const ObjectClass* class_of_environment(RuntimeObjects& objects,
                                        const std::array<uint64_t, 5>& slot) {
  RubyClosures closures(objects);
  closures.add_environment(std::as_bytes(std::span(slot)));
  if (objects.blocks.empty()) return nullptr;
  CHECK(objects.blocks.back().at == Address(kAt));
  return &objects.slots.classes()[objects.blocks.back().of_class];
}

}  // namespace

TEST_CASE("of captured variables all words are known, and where ep leads they begin") {
  RuntimeObjects objects;
  // Two variables, the method, the link, flags, the environment, and a word that malloc gave.
  const ObjectClass* const known = class_of_environment(objects, environment(6));
  REQUIRE(known != nullptr);
  CHECK(known->name == "Captured variables");
  CHECK(known->is_exact);
  CHECK(known->object_at == 32);
  CHECK(kept(*known, 7) == Words{0, 1, 2, 3, 5});
  CHECK(objects.left_over.empty());
}

TEST_CASE("of many captured variables flags and what is behind them are left over") {
  RuntimeObjects objects;
  const ObjectClass* const known = class_of_environment(objects, environment(100));
  REQUIRE(known != nullptr);
  CHECK(known->object_at == 98 * 8);
  CHECK(kept(*known, 100).size() == 100);
  REQUIRE(objects.left_over.size() == 2);
  CHECK(objects.left_over[0].from == 98 * 8);
  CHECK(objects.left_over[0].to == 99 * 8);
  CHECK(objects.left_over[1].from == 100 * 8);
}

TEST_CASE("what is no environment, or does not fit, has no captured variables") {
  RuntimeObjects objects;
  auto slot = environment(6);
  SUBCASE("another kind") {
    slot[0] |= 7 << 12;
  }
  SUBCASE("not yet") {
    slot[2] = slot[3] = 0;
  }
  SUBCASE("ep elsewhere") {
    slot[2] += 8;
  }
  SUBCASE("too few words") {
    slot = environment(3);
  }
  SUBCASE("too many") {
    slot = environment(1 << 21);
  }
  CHECK(class_of_environment(objects, slot) == nullptr);
}

TEST_CASE("a Proc and a Binding have a block, of which the kind and the line are numbers") {
  RuntimeObjects objects;
  RubyClosures closures(objects);
  closures.add_data("proc", Address(kAt));
  closures.add_data("binding", Address(kAt + 64));
  closures.add_data("mutex", Address(kAt + 128));
  REQUIRE(objects.blocks.size() == 2);
  const std::vector<ObjectClass>& classes = objects.slots.classes();
  CHECK(kept(classes[objects.blocks[0].of_class], 5) == Words{0, 1, 2});
  CHECK(kept(classes[objects.blocks[1].of_class], 7) == Words{0, 1, 2, 4});
}
