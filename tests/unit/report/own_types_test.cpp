#include "report/own_types.h"

#include <doctest/doctest.h>

#include "report/terminal_text.h"

using namespace heapsnap;

namespace {

constexpr const char* kMap =
    "std::unordered_map<std::string, Session, std::hash<std::string>, std::allocator<char>>";
constexpr const char* kNode =
    "std::__detail::_Hash_node<std::pair<std::string const, std::unique_ptr<shop::Session>>, true>";

std::string nested_types(std::string_view name) {
  return with_own_types(name, OwnTypesForm::kNested);
}
std::string flat_types(std::string_view name) {
  return with_own_types(name, OwnTypesForm::kFlat);
}

}  // namespace

TEST_CASE("of template arguments, the program's own types are kept") {
  CHECK(nested_types(kMap) == "std::unordered_map<…, Session, …>");
  CHECK(flat_types(kMap) == "std::unordered_map<…, Session>");
  CHECK(nested_types(kNode) ==
        "std::__detail::_Hash_node<std::pair<…, std::unique_ptr<shop::Session>>, …>");
  CHECK(flat_types(kNode) == "std::__detail::_Hash_node<…, shop::Session>");
  CHECK(flat_types("std::vector<Session>[]") == "std::vector<Session>[]");
  // Not the same as the one before.
  CHECK(flat_types("std::vector<std::unique_ptr<Session> >") == "std::vector<…, Session>");
  CHECK(flat_types("Cache<Page<int>, 16ul>") == "Cache<Page<…>>");
  CHECK(flat_types("std::map<int, (anonymous namespace)::Row>") ==
        "std::map<…, (anonymous namespace)::Row>");
  CHECK(flat_types("std::pair<decltype (std::a->std::b), Session>") == "std::pair<…, Session>");
  CHECK(flat_types("std::function<void (Event const&)>") == "std::function<void (Event const&)>");
}

TEST_CASE("what has no types of the program, or is no type, is left to others") {
  for (const char* name : {"Session", "std::vector<int>", "std::map<std::string, unsigned long>",
                           "std::vector<std::vector<int>::iterator>", "a<b", "operator<", "x<(y>",
                           "std::array<int, 16ul>"}) {
    CAPTURE(name);
    CHECK(nested_types(name).empty());
    CHECK(flat_types(name).empty());
  }
  // However deep it is.
  std::string deep;
  for (int i = 0; i < 2000; ++i) deep += "std::vector<";
  deep += "Session" + std::string(2000, '>');
  CHECK(!flat_types(deep).empty());
  CHECK(!nested_types(deep).empty());
}

TEST_CASE("a row has as much of a type as there is room for") {
  CHECK(cut_name(kMap, 100) == kMap);
  CHECK(cut_name(kMap, 40) == "std::unordered_map<…, Session, …>");
  CHECK(cut_name(kMap, 31) == "std::unordered_map<…, Session>");
  CHECK(cut_name(kMap, 28) == "std::unordered_map<Session>");
  CHECK(cut_name(kMap, 25) == "unordered_map<Session>");
  CHECK(cut_name(kMap, 10) == "…<Session>");
  CHECK(cut_name(kMap, 9) == "std::uno…");
  CHECK(cut_name(kNode, 40) == "std::__detail::_Hash_node<shop::Session>");
  CHECK(cut_name(kNode, 39) == "_Hash_node<Session>");
  const std::string made = "std::_Sp_counted_ptr_inplace<shop::Cart, std::allocator<void>, 2>";
  CHECK(cut_name("cycles with " + made, 52) ==
        "cycles with std::_Sp_counted_ptr_inplace<shop::Cart>");
  CHECK(cut_name("cycles with " + made, 44) == "cycles with _Sp_counted_ptr_inplace<Cart>");
  CHECK(cut_name("cycles with " + made, 24) == "cycles with …<Cart>");
  CHECK(cut_name("Page<(anonymous namespace)::Row, shop::Cart>[]", 40) ==
        "Page<(anonymous namespace)::Row, Cart>[]");
  CHECK(cut_name("shop::Page<shop::Cart>", 20) == "shop::Page<Cart>");
  CHECK(cut_name("Page<shop::Cart>[]", 12) == "Page<Cart>[]");
  CHECK(cut_name("Page<shop::Cart>[]", 11) == "Page<…>[]");
}
