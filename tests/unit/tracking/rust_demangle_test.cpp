#include "tracking/rust_demangle.h"

#include <doctest/doctest.h>

#include "tests/unit/limited_child.h"
#include "tracking/demangle.h"

using namespace heapsnap;

TEST_CASE("v0 names") {
  struct Named {
    const char* mangled;
    const char* name;
  };
  // The RFC's examples, and what rustc 1.95 made of small programs.
  constexpr Named kNamed[] = {
      {"_RNvC6_123foo3bar", "123foo::bar"},
      {"_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"},
      {"_RNvMs_Cs4Cv8Wi1oAIB_7mycrateNtB4_7Example3foo", "<mycrate::Example>::foo"},
      {"_RNvXCs15kBYyAo9fc_7mycrateNtB2_7ExampleNtB2_5Trait3foo",
       "<mycrate::Example as mycrate::Trait>::foo"},
      {"_RNvYNtCs15kBYyAo9fc_7mycrate7ExampleNtB4_5Trait3foo",
       "<mycrate::Example as mycrate::Trait>::foo"},
      {"_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_", "mycrate::main::{closure#0}"},
      {"_RNCNvCsgStHSCytQ6I_7mycrate4mains_0B3_", "mycrate::main::{closure#1}"},
      {"_RNSNvC1a1b6vtable0", nullptr},
      {"_RNSC1a6vtable", "a::{shim:vtable#0}"},
      {"_RINvCs7QNw3Zm5tX8_7mycrate7examplelmE", "mycrate::example<i32, u32>"},
      {"_RNvNtCs4ieVMbDUXEa_6serveru9gre_6ka8iu8lnge_loa", "server::größe::länge"},
      {"_RINvC1a1bShE", "a::b<[u8]>"},
      {"_RINvC1a1bAhj10_E", "a::b<[u8; 16]>"},
      {"_RINvC1a1bTEE", "a::b<()>"},
      {"_RINvC1a1bThEE", "a::b<(u8,)>"},
      {"_RINvC1a1bThtEE", "a::b<(u8, u16)>"},
      {"_RINvC1a1bReE", "a::b<&str>"},
      {"_RINvC1a1bQeE", "a::b<&mut str>"},
      {"_RINvC1a1bPhOhE", "a::b<*const u8, *mut u8>"},
      {"_RINvC1a1bFhEtE", "a::b<fn(u8) -> u16>"},
      {"_RINvC1a1bFUKCEuE", "a::b<unsafe extern \"C\" fn()>"},
      {"_RINvC1a1bFG_RL0_hEuE", "a::b<for<'a> fn(&'a u8)>"},
      {"_RINvC1a1bDNtC1a1TEL_E", "a::b<dyn a::T>"},
      {"_RINvC1a1bDINtC1a1ThEp6OutputtEL_E", "a::b<dyn a::T<u8, Output = u16>>"},
      {"_RINvC1a1bKln2a_E", "a::b<-42>"},
      {"_RINvC1a1bKb1_Kc41_KpE", "a::b<true, 'A', _>"},
      {"_RINvC1a1bKRe6869_E", "a::b<\"hi\">"},
      {"_RINvC1a1bKo100000000000000000_E", "a::b<0x100000000000000000>"},
      {"_RINvC1a1bKVNtC1a1SS1xj1_EE", "a::b<a::S { x: 1 }>"},
      {"_RNvC1a1b.llvm.1234", "a::b"},
      // What no compiler writes.
      {"_R", nullptr},
      {"_RN", nullptr},
      {"_R0NvC1a1b", nullptr},
      {"_RNvC1a99b", nullptr},
      {"_RNvC1a1bX", nullptr},
      {"_RNvC1a1b!", nullptr},
      {"_RNvB_1b", nullptr},
      {"_RNvBz_1b", nullptr},
      {"_RINvC1a1bRL5_hE", nullptr},
      {"_RINvC1a1bKb2_E", nullptr},
      {"_RINvC1a1bKcd800_E", nullptr},
      {"_RINvC1a1b", nullptr},
      {"_RNvCs99999999999999999999_1a1b", nullptr},
      {"_RNvC99999999999999999999999991a", nullptr},
  };
  for (const Named& named : kNamed) {
    CAPTURE(named.mangled);
    const auto name = rust_demangled(named.mangled);
    CHECK(name.value_or("none") == (named.name == nullptr ? "none" : named.name));
    CHECK(demangled(named.mangled) == (named.name == nullptr ? named.mangled : named.name));
  }
}

TEST_CASE("legacy names, and C++ names that look like them") {
  CHECK(demangled("_ZN7mycrate3foo3bar17h0123456789abcdefE") == "mycrate::foo::bar");
  CHECK(demangled("_ZN3std2rt10lang_start28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE") ==
        "std::rt::lang_start::{{closure}}");
  CHECK(demangled("_ZN66_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h"
                  "0123456789abcdefE") == "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop");
  CHECK(demangled("_ZN1a8b$nope$c17h0123456789abcdefE.llvm.77") == "a::b$nope$c");
  CHECK(demangled("_ZN1a4$uD8$17h0123456789abcdefE") == "_ZN1a4$uD8$17h0123456789abcdefE");
  CHECK(demangled("_ZN3foo3barEi") == "foo::bar(int)");
  CHECK(demangled("_ZN3foo17h0123456789abcdefEi") == "foo::h0123456789abcdef(int)");
  CHECK(demangled("_ZN3foo17h0123456789abcdegE") == "foo::h0123456789abcdeg");
  CHECK(demangled("_ZN17h0123456789abcdefE") == "h0123456789abcdef");
  CHECK_FALSE(rust_demangled("_ZN99999999999999999999a"));
}

TEST_CASE("a C++ name that doubles with each few letters stays as it is") {
  // The substitution number n, in base 36.
  const auto substitution = [](int n) {
    return std::string("S") + "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n - 1] + "_";
  };
  std::string name = "_Z1f1aI1b1bE";
  for (int last = 2; last < 8; ++last)
    name += "S_I" + substitution(last) + substitution(last) + "E";
  CHECK(demangled(name.c_str()).starts_with("f(a<b, b>, a<"));
  for (int last = 8; last < 34; ++last)
    name += "S_I" + substitution(last) + substitution(last) + "E";
  CHECK(demangled(name.c_str()) == name);
}

TEST_CASE("hostile names end in bounded time and memory") {
  // Each type twice the one before it.
  std::string doubling = "_RINvC1a1bTh";
  size_t last = doubling.size() - 3;
  for (int i = 0; i < 60; ++i) {
    const size_t at = doubling.size() - 2;
    std::string back;
    for (size_t number = last; back.empty() || number > 0; number /= 62) {
      const auto digit = number % 62;
      back.insert(back.begin(), static_cast<char>(digit < 10   ? '0' + digit
                                                  : digit < 36 ? 'a' + digit - 10
                                                               : 'A' + digit - 36));
    }
    doubling += "TB" + back + "_B" + back + "_E";
    last = at;
  }
  doubling += "EE";
  CHECK(test::end_within({.cpu_seconds = 5, .memory = 256U << 20}, [&] {
          rust_demangled(doubling);
          for (const char* unit : {"N", "Nv", "M", "X", "Y",  "I",  "T", "R", "S", "A",  "F",
                                   "D", "B_", "Q", "P", "KA", "KV", "G", "u", "9", "Iv", "FG9_"}) {
            std::string name = "_R";
            while (name.size() < 4096) name += unit;
            rust_demangled(name);
            rust_demangled("_RINvC1a1b" + name.substr(2));
          }
        }) == "");
}

TEST_CASE("variables have no ABI tags") {
  CHECK(demangled("_Z7g_namesB5cxx11") == "g_names[abi:cxx11]");
  CHECK(demangled_variable("_Z7g_namesB5cxx11") == "g_names");
  CHECK(demangled_variable("_ZN4shopB5cxx117g_namesB5cxx11E") == "shop::g_names");
  CHECK(demangled_variable("g_names[abi:") == "g_names[abi:");
  CHECK(demangled_variable("_ZN3lib6g_poolE") == "lib::g_pool");
}
