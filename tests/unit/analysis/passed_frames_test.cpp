#include "analysis/passed_frames.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "tests/unit/limited_child.h"

using namespace heapsnap;

TEST_CASE("ways to malloc are told from what calls them") {
  const PassedFrames passed;
  for (const char* name :
       {"malloc",
        "__libc_malloc",
        "__GI___strdup",
        "xmalloc.part.0",
        "my_strndup",
        "g_malloc0_n",
        "operator new(unsigned long)",
        "operator new[](unsigned long)",
        "palloc0",
        "zmalloc_usable",
        "Pool::operator new(unsigned long)",
        "my_malloc(unsigned long)",
        "PyMem_RawMalloc",
        "_PyObject_GC_NewVar",
        "PyObject_Malloc",
        "Arena<int>::allocate(unsigned long)",
        "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
        "std::__allocated_ptr<std::allocator<int> > std::__allocate_guarded<std::allocator<int> "
        ">()",
        "std::make_unique<Node>()",
        "std::vector<int, std::allocator<int> >::push_back(int&&)",
        "void std::vector<int>::_M_realloc_insert<int>(int)",
        "__cxa_allocate_exception",
        "std::__cxx11::basic_string<char>::_M_create(unsigned long&, unsigned long)",
        "alloc::vec::Vec<T>::push",
        "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter",
        "__rust_alloc",
        "ngx_palloc",
        "sqlite3DbMallocRawNN"}) {
    CAPTURE(name);
    CHECK(passed.role_of(name) == FrameRole::kWayToMalloc);
  }
  for (const char* name : {"_start", "__libc_start_main", "__libc_start_main_impl", "start_thread",
                           "clone3", "__GI___clone3", "<entry point>", "_dl_start_user"}) {
    CAPTURE(name);
    CHECK(passed.role_of(name) == FrameRole::kStart);
  }
  for (const char* name :
       {"main", "parse(std::vector<int>&)", "mallocate", "", "Tree::clone() const", "git+0x1a2b0()",
        "stdlib::read()", "my::std::f()", "std_read", "core::Engine::run()", "git_clone",
        "main::{lambda()#1}::operator()() const", "Cache<std::string>::insert(std::string const&)",
        "std::string Cache::name() const", "thread_start"}) {
    CAPTURE(name);
    CHECK(passed.role_of(name) == FrameRole::kOwn);
  }
}

TEST_CASE("patterns can be added and taken back, the later one counts") {
  PassedFrames passed;
  passed.add("my_*_node");
  passed.add("git+0x1a2b0");
  passed.add("libpool.so+*");
  passed.add("!xmalloc");
  CHECK(passed.role_of("my_tree_node(int)") == FrameRole::kWayToMalloc);
  CHECK(passed.role_of("my_node") == FrameRole::kOwn);
  CHECK(passed.role_of("git+0x1a2b0()") == FrameRole::kWayToMalloc);
  CHECK(passed.role_of("git+0x1a2b00()") == FrameRole::kOwn);
  CHECK(passed.role_of("libpool.so+0x10()") == FrameRole::kWayToMalloc);
  CHECK(passed.role_of("xmalloc") == FrameRole::kKept);
  CHECK(passed.is_kept("xmalloc"));
  CHECK_FALSE(passed.is_kept("xcalloc"));
  CHECK_FALSE(passed.is_kept("main"));
  passed.add("xmalloc");
  CHECK(passed.role_of("xmalloc") == FrameRole::kWayToMalloc);
  CHECK_FALSE(passed.is_kept("xmalloc"));
}

TEST_CASE("a pattern may be what a listing shows") {
  PassedFrames passed;
  passed.add("postgres+0x5d2c90()");
  passed.add("pool_take()");
  CHECK(passed.role_of("postgres+0x5d2c90") == FrameRole::kWayToMalloc);
  CHECK(passed.role_of("pool_take(int)") == FrameRole::kWayToMalloc);
  CHECK(passed.role_of("postgres+0x5d2c9") == FrameRole::kOwn);
}

TEST_CASE("any text stands for a star") {
  CHECK(fits_pattern("abc", "abc"));
  CHECK(fits_pattern("abc", "*"));
  CHECK(fits_pattern("abc", "a*c"));
  CHECK(fits_pattern("abcbc", "a*bc"));
  CHECK(fits_pattern("", "**"));
  CHECK_FALSE(fits_pattern("abc", ""));
  CHECK_FALSE(fits_pattern("abc", "ab"));
  CHECK_FALSE(fits_pattern("abc", "b*"));
  CHECK_FALSE(fits_pattern("ab", "a*c"));
  const std::string text(16000, 'a');
  CHECK(test::end_within({.cpu_seconds = 5}, [&] {
          std::string pattern;
          for (int i = 0; i < 200; ++i) pattern += "*a";
          fits_pattern(text, pattern + "*b");
        }) == "");
}

TEST_CASE("a stack is charged to the innermost frame that is not passed over") {
  using enum FrameRole;
  const auto charged = [](std::vector<FrameRole> frames) { return charged_frame(frames); };
  CHECK(charged({kWayToMalloc, kOwn, kOwn, kStart}) == 1);
  CHECK(charged({kOwn}) == 0);
  CHECK(charged({kWayToMalloc, kWayToMalloc, kStart, kStart}) == 1);
  CHECK(charged({kStart, kStart}) == 0);
  CHECK(charged({}) == 0);
  // What is inside of an interpreted function is the interpreter's work, unless it was asked for.
  CHECK(charged({kWayToMalloc, kOwn, kInterpreted, kInterpreted, kOwn, kStart}) == 2);
  CHECK(charged({kOwn, kKept, kOwn, kInterpreted}) == 1);
  CHECK(charged({kOwn, kInterpreted, kKept}) == 1);
  CHECK(charged({kOwn, kKept, kStart}) == 0);
}

TEST_CASE("of an interpreted function only what was added counts") {
  PassedFrames passed;
  passed.add("Pool.*");
  passed.add("!Pool.keep");
  const auto role = [&](const char* name) { return passed.role_of(name, FrameLanguage::kPython); };
  CHECK(role("malloc") == FrameRole::kInterpreted);
  CHECK(role("<module>") == FrameRole::kInterpreted);
  CHECK(role("Pool.take") == FrameRole::kWayToMalloc);
  CHECK(role("Pool.keep") == FrameRole::kInterpreted);
  CHECK(passed.role_of("malloc", FrameLanguage::kNative) == FrameRole::kWayToMalloc);
}

TEST_CASE("the documentation lists what is passed over") {
  std::ifstream file(CALL_STACKS_DOCUMENT);
  std::stringstream document;
  document << file.rdbuf();
  for (const auto patterns : {PassedFrames::default_names(), PassedFrames::default_patterns(),
                              PassedFrames::start_patterns()}) {
    for (const std::string_view pattern : patterns) {
      CAPTURE(pattern);
      CHECK(document.str().find("`" + std::string(pattern) + "`") != std::string::npos);
    }
  }
}
