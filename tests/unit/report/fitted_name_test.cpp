#include "report/fitted_name.h"

#include <doctest/doctest.h>

#include <set>

#include "report/terminal_text.h"
#include "tests/unit/limited_child.h"

using namespace heapsnap;

TEST_CASE("what says least about a name goes first") {
  const std::string name =
      "void std::vector<int, std::allocator<int> >::_M_insert<int>(int*, Box<int>&&) const";
  struct Step {
    size_t width;
    const char* shown;
  };
  constexpr Step kSteps[] = {
      {83, "void std::vector<int, std::allocator<int> >::_M_insert<int>(int*, Box<int>&&) const"},
      {82, "std::vector<…>::_M_insert<…>(int*, Box<…>&&)"},
      {44, "std::vector<…>::_M_insert<…>(int*, Box<…>&&)"},
      {43, "std::vector<…>::_M_insert<…>(…)"},
      {31, "std::vector<…>::_M_insert<…>(…)"},
      {30, "std::vector::_M_insert(…)"},
      {25, "std::vector::_M_insert(…)"},
      {24, "std::…::_M_insert(…)"},
      {19, "_M_insert(…)"},
      {11, "_M_insert"},
      {8, "_M…nsert"},
  };
  for (const Step& step : kSteps) {
    CAPTURE(step.width);
    CHECK(fitted_name(name, step.width) == step.shown);
  }
}

TEST_CASE("the middle of namespaces goes before the ends") {
  const std::string name = "a::b::c::d::e::f(int)";
  CHECK(fitted_name(name, 20) == "a::b::c::d::e::f(…)");
  CHECK(fitted_name(name, 18) == "a::…::d::e::f(…)");
  CHECK(fitted_name(name, 14) == "a::…::e::f(…)");
  CHECK(fitted_name(name, 12) == "a::…::f(…)");
  CHECK(fitted_name(name, 9) == "f(…)");
  CHECK(fitted_name("f()", 2) == "f");
  const std::string rust = "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter::help";
  CHECK(fitted_name(rust, 60) == "<Vec as FromIterator>::from_iter::help");
  CHECK(fitted_name(rust, 31) == "<Vec as FromIterator>::…::help");
  CHECK(fitted_name(rust, 20) == "help");
  CHECK(fitted_name("(anonymous namespace)::parse(int)", 31) == "(anonymous namespace)::parse(…)");
  CHECK(fitted_name("(anonymous namespace)::parse(int)", 30) == "parse(…)");
}

TEST_CASE("functions without a name keep their address") {
  CHECK(fitted_name("git+0x1a2b0()", 13) == "git+0x1a2b0()");
  const std::string cut = fitted_name("liblong-name.so.6+0xa5790()", 20);
  CHECK(cut.ends_with("+0xa5790()"));
  CHECK(display_width(cut) == 20);
  CHECK(fitted_name("server+0x8270()", 11) == "…+0x8270()");
}

TEST_CASE("no name is wider than asked, whatever it is") {
  for (const std::string name :
       {"operator new(unsigned long)", "foo(int)::{lambda(int)#1}::operator()(int) const",
        "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter", "main", "", "::", "<<<<",
        "((((", "a::", "漢字<漢字>::漢字(漢字)", "lib.so+0x10()", "0x7f0000001234"}) {
    for (size_t width = 0; width < 60; ++width) {
      CAPTURE(name);
      CAPTURE(width);
      CHECK(display_width(fitted_name(name, width)) <= width);
    }
  }
}

TEST_CASE("names that differ stay different") {
  const std::vector<std::string> names = {
      "Cache<std::string, Item>::insert(std::string const&, Item)",
      "Cache<std::string, Page>::insert(std::string const&, Page)",
      "Cache<std::string, Item>::insert(std::string const&, Item)",
      "main",
      "outer::first::inner::function_of_some_length(int)",
      "outer::second::inner::function_of_some_length(int)",
      "size(int)",
      "size(long)",
      "size(long, long)",
  };
  for (size_t width = 12; width < 70; ++width) {
    CAPTURE(width);
    const auto fitted = fitted_names(names, width);
    REQUIRE(fitted.size() == names.size());
    CHECK(fitted[0] == fitted[2]);
    CHECK(std::set<std::string>(fitted.begin(), fitted.end()).size() == names.size() - 1);
    for (const std::string& name : fitted) CHECK(display_width(name) <= width);
  }
  CHECK(fitted_names({"f(short)", "f(long)"}, 6) == std::vector<std::string>{"…short", "f…long"});
  // Where the difference is beyond what fits, a number.
  const std::string same(100, 'x');
  const auto numbered = fitted_names({same + "(a)", same + "(b)"}, 4);
  CHECK(numbered[0] != numbered[1]);
}

TEST_CASE("a function without a name loses its module's version first") {
  const std::string name = "libruby-3.1.so.3.1+0xd8980()";
  CHECK(fitted_name(name, 28) == name);
  CHECK(fitted_name(name, 27) == "libruby-3.1+0xd8980()");
  CHECK(fitted_name(name, 21) == "libruby-3.1+0xd8980()");
}

TEST_CASE("many names take time in proportion to their number") {
  CHECK(test::end_within({.cpu_seconds = 10}, [] {
          std::vector<std::string> names;
          for (int i = 0; i < 20000; ++i) {
            names.push_back("space::Template<int, " + std::to_string(i) + ">::function(int)");
          }
          fitted_names(names, 30);
        }) == "");
}
