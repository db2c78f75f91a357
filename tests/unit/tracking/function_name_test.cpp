#include "tracking/function_name.h"

#include <doctest/doctest.h>

#include "tests/unit/limited_child.h"

using namespace heapsnap;

TEST_CASE("the path of a name tells which function it is") {
  struct Named {
    const char* function;
    const char* plain;
  };
  constexpr Named kNamed[] = {
      {"", ""},
      {"main", "main"},
      {"xmalloc.part.0", "xmalloc"},
      {"parse.constprop.3.isra.0", "parse"},
      {"malloc@@GLIBC_2.2.5", "malloc"},
      {"git+0x1a2b0()", "git+0x1a2b0"},
      {"libstdc++.so.6+0xa5790()", "libstdc++.so.6+0xa5790"},
      {"<signal handler called>", "<signal handler called>"},
      {"<entry point>", "<entry point>"},
      {"operator new(unsigned long)", "operator new"},
      {"operator new[](unsigned long, std::align_val_t)", "operator new[]"},
      {"Pool::operator new(unsigned long)", "Pool::operator new"},
      {"std::vector<int, std::allocator<int> >::push_back(int&&)", "std::vector::push_back"},
      {"void std::vector<A<(1>0)>>::_M_insert<A const&>(A*, A const&)", "std::vector::_M_insert"},
      {"(anonymous namespace)::parse(int)", "parse"},
      {"fixture::(anonymous namespace)::inner", "fixture::inner"},
      {"foo(int)::{lambda(int)#1}::operator()(int) const", "foo::{lambda#1}::operator()"},
      {"std::thread::thread<main()::<lambda()> >", "std::thread::thread"},
      {"main()::<lambda()>", "main::<lambda>"},
      {"clipped[abi:cxx11](std::string) [clone .cold]", "clipped"},
      {"non-virtual thunk to Item::~Item()", "Item::~Item"},
      {"A::operator unsigned long() const", "A::operator unsigned long"},
      {"A::operator B<int>() const &", "A::operator B"},
      {"std::ostream& std::operator<< <char>(std::ostream&, char)", "std::operator<<"},
      {"bool operator< <int>(A<int>, A<int>)", "operator<"},
      {"A::operator->() const", "A::operator->"},
      {"A<int>::operator()(int)", "A::operator()"},
      {"operator\"\" _km(long double)", "operator\"\" _km"},
      {"operatorless(int)", "operatorless"},
      {"decltype ((fp).x()) call<A>(A&&)", "call"},
      {"auto f<int>(int)", "f"},
      {"<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter<I>",
       "<alloc::vec::Vec as core::iter::FromIterator>::from_iter"},
      {"<&mut [u8] as A<B>>::f::{closure#0}", "<&mut [u8] as A>::f::{closure#0}"},
      {"std::rt::lang_start::{{closure}}", "std::rt::lang_start::{{closure}}"},
  };
  for (const Named& named : kNamed) {
    CAPTURE(named.function);
    CHECK(plain_name(named.function) == named.plain);
  }
}

TEST_CASE("the parts of a name") {
  using Kind = NamePiece::Kind;
  const NameParts parts = parts_of_name("int A<int>::f(B<C>)::{lambda()#1}::operator()<D>() const");
  CHECK(parts.type == "int");
  CHECK(parts.suffix == "const");
  CHECK(parts.path == std::vector<NamePiece>{{Kind::kText, "A"},
                                             {Kind::kTemplateArguments, "<int>"},
                                             {Kind::kText, "::f"},
                                             {Kind::kParameters, "(B<C>)"},
                                             {Kind::kText, "::{lambda()#1}::operator()"},
                                             {Kind::kTemplateArguments, "<D>"},
                                             {Kind::kParameters, "()"}});
}

TEST_CASE("functions without a name have one by their begin") {
  CHECK(name_of_start("git", 0x1a2b0) == "git+0x1a2b0()");
  CHECK(name_of_start("program", 0) == "program+0x0()");
  CHECK(is_name_of_start("git+0x1a2b0()"));
  CHECK(is_name_of_start("json/parser.so+0xffffffffffffffff()"));
  for (const char* name : {"", "()", "main", "main()", "operator+()", "git+0x()", "+0x12()",
                           "git+0xg()", "git+0x12", "git+0x12(int)"}) {
    CAPTURE(name);
    CHECK_FALSE(is_name_of_start(name));
  }
}

TEST_CASE("modules with one file name have the folders that tell them apart") {
  const auto labels_of = [](const std::vector<std::string>& paths) {
    std::vector<TrackedModule> modules(paths.size());
    for (size_t i = 0; i < paths.size(); ++i) modules[i].path = paths[i];
    return module_labels(modules);
  };
  CHECK(labels_of({"/usr/bin/git", "/lib/libc.so.6", ""}) ==
        std::vector<std::string>{"git", "libc.so.6", "program"});
  CHECK(labels_of({"/a/json/parser.so", "/a/yaml/parser.so", "/b/x.so", "/b/x.so"}) ==
        std::vector<std::string>{"json/parser.so", "yaml/parser.so", "x.so", "x.so"});
  CHECK(labels_of({"/x.so", "/a/x.so"}) == std::vector<std::string>{"/x.so", "a/x.so"});
  CHECK(labels_of({"/1/a/b/c/d/x.so", "/2/a/b/c/d/x.so"}) ==
        std::vector<std::string>{"/1/a/b/c/d/x.so", "/2/a/b/c/d/x.so"});
}

TEST_CASE("names of any shape take time in proportion to their length") {
  const std::string deep = std::string(8000, '<') + std::string(8000, '>');
  std::string groups = "a";
  for (int i = 0; i < 3000; ++i) groups += "<b>::c";
  CHECK(test::end_within({.cpu_seconds = 5}, [&] {
          for (const char* unit :
               {"<", "(", "{", "[", "<(", "a::<", "operator<", "{<", "> ", "a b "}) {
            std::string name;
            while (name.size() < 16000) name += unit;
            for (int i = 0; i < 20; ++i) plain_name(name);
          }
          for (int i = 0; i < 20; ++i) {
            plain_name(deep);
            plain_name("f" + deep);
            plain_name(groups);
          }
        }) == "");
}
