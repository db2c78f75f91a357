#include "elf/debug_types.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "elf/dwarf_image.h"
#include "elf/node_types.h"
#include "opened_image.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// The address of a variable, or the offset of a thread-local one, by its symbol.
uint64_t place_of(const ElfImage& image, const char* symbol) {
  const ElfSymbol* const found = image.find_symbol(symbol);
  REQUIRE(found != nullptr);
  return found->value;
}

// What words of variables lead to, by the type's name; "" where that is unknown.
class Asked {
 public:
  explicit Asked(const char* path) : image_(open_image(path)), types_(DebugTypeLimits{}) {}

  std::string name_at(const char* symbol, uint64_t offset) {
    TypeQuestions questions;
    questions.variables = {place_of(image_, symbol) + offset};
    answer_ = types_.read(image_, questions).variables.front();
    return type().name;
  }
  std::string thread_local_at(const char* symbol) {
    TypeQuestions questions;
    questions.thread_locals = {place_of(image_, symbol)};
    answer_ = types_.read(image_, questions).thread_locals.front();
    return type().name;
  }
  const DebugType& class_named(const char* name) {
    TypeQuestions questions;
    questions.classes = {name};
    answer_ = {types_.read(image_, questions).classes.front(), PointerRole::kObject};
    return type();
  }
  const DebugType& type() const { return type_of(answer_); }
  const DebugType& type_of(const Pointee& pointee) const {
    REQUIRE(pointee.type < types_.graph().types.size());
    return types_.graph().types[pointee.type];
  }
  PointerRole role() const { return answer_.role; }

 private:
  ElfImage image_;
  DebugTypes types_;
  Pointee answer_;
};

}  // namespace

TEST_CASE("what is compiled with -g1 describes no types") {
  const ElfImage lines = open_image(TYPE_FIXTURE_LINES);
  CHECK(has_debug_information(lines));
  CHECK_FALSE(may_describe_types(lines));
  for (const char* path : {TYPE_FIXTURE_DWARF5, TYPE_FIXTURE_DWARF4_TYPES, LAYOUT_FIXTURE_PLAIN,
                           LAYOUT_FIXTURE_COMPRESSED, LAYOUT_FIXTURE_TWO_UNITS}) {
    CHECK(may_describe_types(open_image(path)));
  }
  CHECK_FALSE(may_describe_types(open_image(LIBC_PATH)));
}

TEST_CASE("pointers in variables lead to types, whatever they are part of") {
  for (const std::string path : {TYPE_FIXTURE_DWARF5, TYPE_FIXTURE_DWARF4_TYPES}) {
    CAPTURE(path);
    Asked asked(path.c_str());
    constexpr const char* kDerived = "_ZN7fixture9g_derivedE";
    CHECK(asked.name_at(kDerived, 8) == "fixture::Plain");
    CHECK(asked.type().size == 16);
    CHECK(asked.type().is_beginning);
    REQUIRE(asked.type().pointers.size() == 1);
    CHECK(asked.type().pointers ==
          std::vector<PointerMember>{{8, 1, 0, asked.type().pointers.front().to}});
    CHECK(asked.name_at(kDerived, 0).empty());
    CHECK(asked.name_at(kDerived, 16) == "fixture::Declared");
    CHECK(asked.type().size == 56);
    for (const uint64_t text : {24, 32, 48}) CHECK(asked.name_at(kDerived, text) == "char");
    CHECK(asked.type().is_scalar);
    CHECK(asked.name_at(kDerived, 56).empty());  // void*
    CHECK(asked.name_at(kDerived, 64).empty());  // one or the other
    CHECK(asked.name_at(kDerived, 72) == "fixture::Plain");
    CHECK(asked.name_at(kDerived, 80).empty());
    for (const uint64_t inside : {88, 104, 120}) {
      CHECK(asked.name_at(kDerived, inside) == "fixture::Plain");
    }
    CHECK(asked.name_at(kDerived, 128).empty());
    CHECK(asked.name_at("_ZN7fixture9g_unnamedE", 0) == "fixture::Unnamed");
    CHECK(asked.type().size == 32);
    CHECK(asked.name_at("_ZN7fixture6g_openE", 0) == "fixture::Open");
    CHECK(asked.type().is_open_ended);
    CHECK(asked.name_at("_ZN7fixture5g_oldE", 0) == "fixture::Old");
    CHECK(asked.type().is_open_ended);
    CHECK(asked.name_at("_ZZN7fixture11with_staticEvE4kept", 0) == "fixture::Plain");
    CHECK(asked.thread_local_at("_ZN7fixture7t_plainE") == "fixture::Plain");
  }
}

TEST_CASE("containers say what their nodes are") {
  Asked asked(TYPE_FIXTURE_DWARF5);
  CHECK(asked.name_at("_ZN7fixture8g_vectorE", 0) == "fixture::Plain");
  CHECK(asked.role() == PointerRole::kElements);
  for (const uint64_t at : {16, 24, 32}) {
    CHECK(asked.name_at("_ZN7fixture5g_mapB5cxx11E", at) ==
          "std::_Rb_tree_node<std::pair<const std::string, fixture::Plain*>>");
  }
  // Parent, left and right; then the element.
  const DebugType node = asked.type();
  REQUIRE(node.pointers.size() == 5);
  for (size_t i = 0; i < 3; ++i) CHECK(asked.type_of(node.pointers[i].to).name == node.name);
  CHECK(node.pointers[3].to.role == PointerRole::kText);
  CHECK(asked.type_of(node.pointers[4].to).name == "fixture::Plain");
}

TEST_CASE("classes are found by their names") {
  Asked asked(TYPE_FIXTURE_DWARF5);
  const DebugType& type = asked.class_named("fixture::Virtual");
  CHECK(type.has_vptr);
  REQUIRE(type.pointers.size() == 1);
  CHECK(type.pointers[0].offset == 8);
  CHECK(asked.class_named("fixture::Derived").name == "fixture::Derived");
  CHECK(asked.type_of({asked.type().first, PointerRole::kObject}).name == "fixture::Plain");
  CHECK(asked.class_named("fixture::Missing").name.empty());
  CHECK(asked.class_named("").name.empty());
}

TEST_CASE("no more is read than the limits allow") {
  const ElfImage image = open_image(TYPE_FIXTURE_DWARF5);
  TypeQuestions questions;
  questions.variables = {place_of(image, "_ZN7fixture5g_mapB5cxx11E") + 16};
  for (const uint64_t entries : {0, 1, 100, 1000}) {
    DebugTypeLimits limits;
    limits.entries = entries;
    DebugTypes types(limits);
    CHECK(types.read(image, questions).variables.size() == 1);
    CHECK(types.is_cut_off());
  }
  DebugTypeLimits limits;
  limits.types = 2;
  DebugTypes few(limits);
  few.read(image, questions);
  CHECK(few.graph().types.size() <= 2);
  CHECK(few.is_cut_off());
  limits = {};
  limits.deadline_ns = 1;
  DebugTypes late(limits);
  late.read(image, questions);
  CHECK(late.is_cut_off());
}

TEST_CASE("names are as people write them") {
  CHECK(short_type_name("std::pair<const int, A *>") == "std::pair<const int, A*>");
  CHECK(short_type_name("F<A *const, B &>") == "F<A* const, B&>");
  CHECK(short_type_name("std::__cxx11::basic_string<char, std::char_traits<char>, "
                        "std::allocator<char> >") == "std::string");
  CHECK(short_type_name("std::map<int, A<B>, std::less<int>, std::allocator<std::pair<int const, "
                        "A<B> > > >") == "std::map<int, A<B>>");
  CHECK(short_type_name("F<(A > 3), std::hash<int> >::G") == "F<(A > 3)>::G");
  CHECK(short_type_name("A<, std::less<") == "A<");
  CHECK(short_type_name(std::string(5000, 'x')).size() < 2000);
}

TEST_CASE("arguments of templates are told apart") {
  const auto arguments = template_arguments("_Rb_tree<int, std::pair<int const, A<B, C> >, D>");
  REQUIRE(arguments.size() == 3);
  CHECK(arguments[1] == "std::pair<int const, A<B, C> >");
  CHECK(template_arguments("plain").empty());
  CHECK(template_arguments("open<int").empty());
  CHECK(container_class("_Hashtable<K, V, A, E, Eq, H1, H2, H, R, "
                        "std::__detail::_Hashtable_traits<true, false, true> >")
            .nodes == std::vector<std::string>{"std::__detail::_Hash_node<V, true>"});
  CHECK(container_class("unique_ptr<A [], std::default_delete<A []> >").role ==
        PointerRole::kArray);
  CHECK(container_class("unique_ptr<A, std::default_delete<A> >").kind ==
        ContainerClass::Kind::kNone);
  CHECK(container_class("vector").kind == ContainerClass::Kind::kNone);
}
