#include "runtime/ruby/ruby_walk.h"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <random>

#include "tests/unit/runtime/fake_ruby.h"

using namespace heapsnap;
using test::FakeRuby;

namespace {

// The versions whose structures differ most.
constexpr unsigned kMinors[] = {1, 2, 4};

RuntimeClass class_row(const RuntimeModel& model, const std::string& name) {
  for (const RuntimeClass& row : model.classes) {
    if (row.name == name) return row;
  }
  return {};
}

RuntimeType type_row(const RuntimeModel& model, const std::string& name,
                     const std::string& part = {}) {
  for (const RuntimeType& row : model.types) {
    if (row.name == name && row.part == part) return row;
  }
  return {};
}

// Where `what` is in what is said; so that a failure shows it.
void check_refused(FakeRuby& ruby, const std::string& what) {
  const RuntimeModel model = ruby.walk();
  REQUIRE(model.runtimes.size() == 1);
  CAPTURE(model.runtimes[0].why_not);
  CHECK(model.runtimes[0].why_not.find(what) != std::string::npos);
  CHECK(model.classes.empty());
  CHECK(model.runtimes[0].objects == 0);
}

}  // namespace

TEST_CASE("Ruby objects are counted by class and by type") {
  for (const unsigned minor : kMinors) {
    CAPTURE(minor);
    FakeRuby ruby(3, minor);
    const uint64_t order = ruby.add_class("Order", ruby.object_class);
    const uint64_t page = ruby.add_page(40, 100);
    for (int i = 0; i < 10; ++i) ruby.add(page, order, RubyType::kObject, FakeRuby::kEmbedded);
    // One with a method of its own, one of a class that includes a module.
    const uint64_t single = ruby.add(page, order, RubyType::kObject, FakeRuby::kEmbedded);
    ruby.add_singleton(single, order);
    const uint64_t included = ruby.add_class("", order, RubyType::kIclass);
    ruby.add(page, included, RubyType::kObject, FakeRuby::kEmbedded);
    ruby.add(page, ruby.add_class("", ruby.object_class), RubyType::kFloat);
    ruby.add(page, 0xdead, RubyType::kImemo, uint64_t{12} << 12);  // its words are no class
    ruby.add(page, 0, RubyType::kArray, FakeRuby::kEmbedded);
    const RuntimeModel model = ruby.walk();
    REQUIRE(model.runtimes.size() == 1);
    CHECK(model.runtimes[0].why_not == "");
    CHECK(class_row(model, "Order") == RuntimeClass{0, "Order", 12, 12, 12 * 40, 0, 0});
    CHECK(class_row(model, "(internal) IMEMO callcache").count == 1);
    CHECK(class_row(model, "(internal) ARRAY").count == 1);
    CHECK(type_row(model, "OBJECT").count == 12);
    CHECK(type_row(model, "IMEMO", "callcache").count == 1);
    CHECK(type_row(model, "ICLASS").count == 1);
    // Kernel, and the classes that Ruby has and those of the test, two of them without a name.
    CHECK(type_row(model, "MODULE").count == 1);
    CHECK(type_row(model, "CLASS").count == 7);
    CHECK(class_row(model, "Class").count == 8);
    CHECK(model.pages.back().free_slots + model.pages.front().free_slots > 80);
    uint64_t nameless = 0;
    for (const RuntimeClass& row : model.classes) {
      nameless += row.name.starts_with("#<Class:0x0000000040") ? row.count : 0;
    }
    CHECK(nameless == 1);
    CHECK(test::adds_up(model));
  }
}

TEST_CASE("singleton classes and anonymous ones are called as Ruby calls them") {
  for (const unsigned minor : kMinors) {
    CAPTURE(minor);
    FakeRuby ruby(3, minor);
    const uint64_t page = ruby.add_page(40, 100);
    const uint64_t object = ruby.add(page, ruby.object_class, RubyType::kObject);
    const uint64_t of_object = ruby.add_singleton(object, ruby.object_class);
    const uint64_t of_string = ruby.add_singleton(ruby.string_class, ruby.class_class);
    const uint64_t nameless = ruby.add_class("", ruby.object_class);
    const uint64_t module = ruby.add_class("", 0, RubyType::kModule);
    const uint64_t deep =
        ruby.add_class("A::Class::With::A::Name::That::Is::Long", ruby.object_class);
    const RubyShapes shapes(ruby.target, ruby.layout, ruby.place.data);
    RubyClasses classes(ruby.target, ruby.layout, shapes);
    REQUIRE(classes.check(ruby.place) == "");
    std::array<char, 64> text;
    std::snprintf(text.data(), text.size(), "#<Class:#<Object:0x%016lx>>", object);
    CHECK(classes.name_of(of_object) == text.data());
    CHECK(classes.name_of(of_string) == "#<Class:String>");
    std::snprintf(text.data(), text.size(), "#<Class:0x%016lx>", nameless);
    CHECK(classes.name_of(nameless) == text.data());
    std::snprintf(text.data(), text.size(), "#<Module:0x%016lx>", module);
    CHECK(classes.name_of(module) == text.data());
    CHECK(classes.name_of(deep) == "A::Class::With::A::Name::That::Is::Long");
    REQUIRE(classes.find(of_object) != nullptr);
    CHECK(classes.find(of_object)->name == "Object");
    CHECK(classes.find(object) == nullptr);
    CHECK(classes.find(0) == nullptr);
  }
}

TEST_CASE("what Ruby objects own is sized, shared buffers are not") {
  for (const unsigned minor : kMinors) {
    CAPTURE(minor);
    FakeRuby ruby(3, minor);
    const RubyLayout& layout = ruby.layout;
    const uint64_t page = ruby.add_page(40, 100);
    const uint64_t own = ruby.add_class("Own", ruby.object_class);
    const auto add = [&](RubyType type, uint64_t flags, uint64_t a, uint64_t b, uint64_t c) {
      const uint64_t at = ruby.add(page, own, type, flags);
      ruby.put(at + 16, a);
      ruby.put(at + 24, b);
      ruby.put(at + 32, c);
      return at;
    };
    constexpr uint64_t kElsewhere = RubyValue::user_flag(1);
    add(RubyType::kString, kElsewhere, 5, 0x5000, 100);
    add(RubyType::kString, kElsewhere | uint64_t{3} << 22, 5, 0x5000, 100);  // UTF-16BE
    add(RubyType::kString, kElsewhere | layout.flag_shared, 5, 0x5000, 100);
    add(RubyType::kString, 0, 5, 0x5000, 100);
    add(RubyType::kArray, 0, 2, 10, 0x5000);
    add(RubyType::kArray, layout.flag_shared, 2, 10, 0x5000);
    add(RubyType::kStruct, 0, 90, 0x5000, 0);
    add(RubyType::kBignum, 0, 6, 0x5000, 0);
    const RuntimeClass row = class_row(ruby.walk(), "Own");
    CHECK(row.owned_bytes == 101 + 102 + 10 * 8 + 90 * 8 + 6 * 4);
    CHECK(row.malloc_bytes == row.owned_bytes);
  }
}

TEST_CASE("variables and hashes are sized as their shapes and tables say") {
  FakeRuby old(3, 1);
  const uint64_t page = old.add_page(40, 100);
  const uint64_t own = old.add_class("Own", old.object_class);
  const uint64_t object = old.add(page, own, RubyType::kObject);
  old.put_int(object + old.layout.object_count, 7);
  // A table of 32 entries and 64 bins of a byte.
  const uint64_t table = old.next_table(64);
  old.put(table, 5 | 6 << 8);
  old.put(table + 24, 0x5000);
  old.put(table + 48, 0x5000);
  const uint64_t hash = old.add(page, own, RubyType::kHash, RubyValue::user_flag(3));
  old.put(hash + 16, table);
  const uint64_t young = old.add(page, own, RubyType::kHash, RubyValue::user_flag(12));
  old.put(young + 16, 0x5000);
  const RuntimeClass row = class_row(old.walk(), "Own");
  CHECK(row.owned_bytes == 7 * 8 + (56 + 32 * 24 + 64) + 128);
  CHECK(row.malloc_bytes == row.owned_bytes - 128);  // in the heap of what is young

  FakeRuby ruby(3, 4);
  const uint64_t large = ruby.add_page(160, 50);
  const uint64_t shaped = ruby.add_class("Own", ruby.object_class);
  ruby.add(large, shaped, RubyType::kObject, uint64_t{2} << 32);  // room for 6
  ruby.add(large, shaped, RubyType::kObject, FakeRuby::kEmbedded | uint64_t{2} << 32);
  const uint64_t motley = ruby.add(large, shaped, RubyType::kObject, uint64_t{3} << 32);
  const uint64_t other = ruby.next_table(64);
  ruby.put(other, 5 | 6 << 8);
  ruby.put(other + 48, 0x5000);
  ruby.put(motley + 16, other);
  const uint64_t inline_hash = ruby.add(large, shaped, RubyType::kHash, RubyValue::user_flag(3));
  ruby.put(inline_hash + 24, 5 | 6 << 8);
  ruby.put(inline_hash + 24 + 24, 0x5000);
  ruby.put(inline_hash + 24 + 48, 0x5000);
  const RuntimeClass shapes = class_row(ruby.walk(), "Own");
  CHECK(shapes.owned_bytes == 6 * 8 + (56 + 32 * 24) + (32 * 24 + 64));
}

TEST_CASE("blocks that only malloc knows the size of are those of its chunks") {
  FakeRuby ruby;
  const uint64_t page = ruby.add_page(40, 100);
  const uint64_t own = ruby.add_class("Own", ruby.object_class);
  const uint64_t type = ruby.next_table(24);
  const uint64_t name = ruby.next_table(16);
  ruby.put(type, name);
  ruby.put(type + 16, 0x100500);  // the function that frees
  ruby.target.put_bytes(Address(name), std::as_bytes(std::span("VM/thread")));
  constexpr uint64_t kChunks = 0x300000;
  // Two of them have the second chunk; the third one has what is free, the last one what is mapped.
  for (const uint64_t block :
       {kChunks + 0x110, kChunks + 0x110, kChunks + 0x210, uint64_t{0x900010}}) {
    const uint64_t at = ruby.add(page, own, RubyType::kData);
    ruby.put(at + 16, type);
    ruby.put(at + 24, 1);
    ruby.put(at + 32, block);
  }
  // Nothing frees with these what they have: the interpreter's own state, what C code keeps.
  const uint64_t shown = ruby.next_table(24);
  ruby.put(shown, name);
  for (const uint64_t typed : {1, 0}) {
    const uint64_t at = ruby.add(page, own, RubyType::kData);
    ruby.put(at + 16, shown);
    ruby.put(at + 24, typed);
    ruby.put(at + 32, kChunks + 0x10);
  }
  const uint64_t embedded = ruby.add(page, own, RubyType::kData);
  ruby.put(embedded + 16, type);
  ruby.put(embedded + 24, 3);
  ruby.put(embedded + 32, kChunks + 0x10);
  RubyWalk walk(ruby.target, ruby.place);
  const std::vector<uint64_t> sizes = {0x100, 0x100, 0x100};
  const std::vector<ChunkState> states = {ChunkState::kUsed, ChunkState::kUsed,
                                          ChunkState::kTcache};
  ChunkBatch batch;
  batch.begin = Address(kChunks);
  batch.sizes = sizes;
  batch.states = states;
  walk.on_batch(batch);
  MmappedChunk chunk;
  chunk.chunk = Address(0x900000);
  chunk.size = 0x40000;
  chunk.usable = 0x3fff0;
  walk.on_mmapped(chunk);
  // Pages that are blocks of malloc.
  batch.begin = Address(FakeRuby::kPages);
  const std::vector<uint64_t> whole = {2 * FakeRuby::kPageRoom};
  batch.sizes = whole;
  batch.states = std::span(states).first(1);
  walk.on_batch(batch);
  RuntimeModel model;
  walk.take(model);
  CHECK(class_row(model, "Own").malloc_bytes == 0xf8 + 0x3fff0);
  CHECK(type_row(model, "DATA", "VM/thread").count == 6);
  REQUIRE(model.areas.size() == 3);
  CHECK(model.areas[0].is_in_malloc);
  CHECK(model.areas[1].is_in_malloc);
  CHECK_FALSE(model.areas[2].is_in_malloc);
}

TEST_CASE("while Ruby sweeps, dead objects are told apart") {
  for (const unsigned minor : kMinors) {
    CAPTURE(minor);
    FakeRuby ruby(3, minor);
    const uint64_t order = ruby.add_class("Order", ruby.object_class);
    for (const uint64_t size : {uint64_t{40}, minor == 1 ? uint64_t{40} : uint64_t{160}}) {
      const uint64_t page = ruby.add_page(size, 90);
      for (int i = 0; i < 80; ++i) ruby.add(page, order, RubyType::kObject, FakeRuby::kEmbedded);
      ruby.leave_unswept(page, 70);
    }
    ruby.set_collector(2);
    const RuntimeModel model = ruby.walk();
    const Runtime& runtime = model.runtimes[0];
    CHECK(runtime.collector == "sweeping");
    CHECK(class_row(model, "Order").count == 140);
    CHECK(type_row(model, "OBJECT").count == 140);
    CHECK(type_row(model, "OBJECT").unswept == 20);
    CHECK(runtime.unswept_slots == 20);
    uint64_t unswept = 0;
    uint64_t used = 0;
    for (const RuntimePages& pages : model.pages) {
      unswept += pages.unswept_slots;
      used += pages.used_slots;
    }
    CHECK(unswept == 20);
    CHECK(used == runtime.objects + 20);
  }
}

TEST_CASE("a Ruby that does not fit is refused in words") {
  FakeRuby ruby;
  SUBCASE("not started") {
    ruby.put(FakeRuby::kVariables + 16, 0);
    check_refused(ruby, "was not started yet");
  }
  SUBCASE("no state that leads back") {
    ruby.put(ruby.self + 32, FakeRuby::kVm + 8);
    check_refused(ruby, "the state of its interpreter was not found");
  }
  SUBCASE("two states") {
    ruby.put(FakeRuby::kVariables + 0x100, FakeRuby::kTables);
    const uint64_t other = ruby.add(ruby.add_page(40, 10), ruby.machine_class, RubyType::kData);
    ruby.put(other + 32, FakeRuby::kTables);
    ruby.put(FakeRuby::kTables + ruby.layout.vm_self, other);
    check_refused(ruby, "several places");
  }
  SUBCASE("no object space") {
    ruby.put(FakeRuby::kVm + ruby.layout.vm_objspace, 0x10);
    check_refused(ruby, "no object space");
  }
  SUBCASE("names that are others") {
    ruby.put(FakeRuby::kVariables + 8, ruby.string_class);
    check_refused(ruby, "its class Kernel seems to be called \"String\"");
  }
  SUBCASE("a list of pages that are none") {
    for (uint64_t i = 0; i < 2; ++i) ruby.put(FakeRuby::kPages + i * FakeRuby::kPageRoom, 0);
    check_refused(ruby, "2 of the 2 pages in its list are none");
  }
  SUBCASE("more pages than there can be") {
    ruby.set_page_count(uint64_t{1} << 40);
    check_refused(ruby, "no list of pages");
  }
  SUBCASE("a list of pages that ends early") {
    ruby.set_page_count(uint64_t{1} << 20);
    check_refused(ruby, "its list of pages cannot be read");
  }
  SUBCASE("a collector in no state") {
    ruby.set_collector(3);
    check_refused(ruby, "in no state that Ruby knows");
  }
  SUBCASE("objects of no type") {
    const uint64_t page = ruby.add_page(40, 100);
    for (int i = 0; i < 100; ++i) ruby.put(ruby.next_slot(page), 0x11);
    check_refused(ruby, "have no type that Ruby knows");
  }
  SUBCASE("a release that is not known, and is laid out otherwise") {
    ruby.place.version = "3.1.99";
    ruby.put(FakeRuby::kVm + ruby.layout.vm_objspace, 0x10);
    check_refused(ruby, "Ruby 3.1.99 is none of the releases that heapsnap knows");
    check_refused(ruby, "laid out as 3.1.2, its rb_vm_t leads to no object space");
  }
  SUBCASE("a version of which nothing is known") {
    ruby.place.layouts.clear();
    ruby.place.why_not = "heapsnap does not know how Ruby 9.9.9 lays out its memory";
    check_refused(ruby, "9.9.9");
  }
}

TEST_CASE("a release that is not known is read if all fits") {
  FakeRuby ruby;
  ruby.place.version = "3.1.99";
  CHECK(ruby.walk().runtimes[0].why_not == "");
  CHECK(ruby.walk().runtimes[0].version == "3.1.99");
}

TEST_CASE("shapes that cannot be found refuse a Ruby that has some") {
  FakeRuby ruby(3, 4);
  ruby.put(FakeRuby::kTree + 8, FakeRuby::kShapes + 0x1000);
  check_refused(ruby, "its shapes of objects were not found");
}

TEST_CASE("random damage of a Ruby never adds up to more than there is") {
  std::mt19937_64 random(4711);
  for (int round = 0; round < 300; ++round) {
    FakeRuby ruby(3, kMinors[round % std::size(kMinors)]);
    const uint64_t order = ruby.add_class("Order", ruby.object_class);
    const uint64_t page = ruby.add_page(40, 100);
    for (int i = 0; i < 50; ++i) {
      const RubyType type = i % 3 == 0 ? RubyType::kHash : RubyType::kObject;
      ruby.add(page, order, type, i % 3 == 0 ? RubyValue::user_flag(3) : 0);
    }
    const uint64_t places[] = {FakeRuby::kVm,
                               FakeRuby::kSpace,
                               FakeRuby::kList,
                               FakeRuby::kHeaders,
                               FakeRuby::kTables,
                               ruby.slot(page, 0),
                               order};
    for (int i = 0; i < 8; ++i) {
      ruby.put(places[random() % 7] + random() % 0x200 * 8,
               random() % 2 == 0 ? random() : places[random() % 7] + random() % 0x400);
    }
    REQUIRE(test::adds_up(ruby.walk()));
  }
}

TEST_CASE("slots have classes, constants and what begins with $ or @@ are variables") {
  for (const unsigned minor : kMinors) {
    CAPTURE(minor);
    FakeRuby ruby(3, minor);
    const uint64_t page = ruby.add_page(40, 100);
    const uint64_t hash = ruby.add(page, ruby.object_class, RubyType::kHash);
    ruby.add(page, ruby.string_class, RubyType::kString);
    ruby.add(page, ruby.object_class, RubyType::kFloat);
    ruby.add(page, 0xdead, RubyType::kImemo, uint64_t{13} << 12);
    const FakeRuby::VariableWords words = ruby.add_variables(page, hash);
    const RuntimeModel model = ruby.walk();
    REQUIRE(model.runtimes[0].why_not == "");
    CHECK(test::fits(ruby.objects));
    std::map<std::string, uint64_t> variables;
    for (const RuntimeObjects::Variable& one : ruby.objects.variables) {
      variables[one.name] = one.word.value();
    }
    CHECK(variables.size() == 4);
    CHECK(variables.contains("String"));
    CHECK(variables["STORE"] == words.constant);
    CHECK(variables["$global0"] == words.global);  // the others hold nothing
    CHECK(variables["Object.@@known"] == words.of_class);
    const auto class_at = [&](uint64_t number) {
      return ruby.objects.slots.class_of(ruby.objects.slots.find(ruby.slot(page, number))->number);
    };
    CHECK(class_at(0).name == "Object");
    // Flags and hints; a hash has no pairs yet.
    CHECK((class_at(0).skip & 0xf) == (minor == 4 ? 9 : 1));
    CHECK(class_at(1).skip == ~uint64_t{2});  // characters
    CHECK(class_at(2).skip == ~uint64_t{2});  // a number
    CHECK(class_at(3).skip == 3);             // what code remembers of a constant
    CHECK(class_at(0).builtin == "HASH");
    CHECK(class_at(3).builtin == "IMEMO");
    CHECK(class_at(3).part == "constcache");
    // Without the names there are none.
    ruby.put(FakeRuby::kNames, 0);
    ruby.walk();
    CHECK(ruby.objects.variables.empty());
  }
}
