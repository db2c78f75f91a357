#include "redaction/name_cut.h"

#include <doctest/doctest.h>

#include "references/root.h"

using namespace heapsnap;

namespace {

constexpr const char* kProgram = "/home/ann/shop/bin/server";

NameCut cut_of_server(bool keeps_names) {
  NameCut names(keeps_names);
  names.set_program(kProgram, "server");
  names.add_module("/usr/lib/x86_64-linux-gnu/libc.so.6");
  names.add_module("/home/ann/plugins/libtax.so");
  names.add_module("/home/bob/plugins/libtax.so");
  return names;
}

}  // namespace

TEST_CASE("of programs and libraries the file name stays, of other files nothing") {
  NameCut names = cut_of_server(true);
  CHECK(names.path(kProgram) == "/cut/server");
  CHECK(names.path(std::string(kProgram) + " (deleted)") == "/cut/server (deleted)");
  CHECK(names.path("/usr/lib/x86_64-linux-gnu/libc.so.6") == "/cut/libc.so.6");
  CHECK(names.path("/home/ann/plugins/libtax.so") == "/cut/libtax.so");
  CHECK(names.path("/home/bob/plugins/libtax.so") == "/cut-2/libtax.so");
  CHECK(names.path("/home/ann/plugins/libtax.so") == "/cut/libtax.so");
  CHECK(names.path("/srv/customers/acme.db") == "/cut/file-1");
  CHECK(names.path("relative.db") == "/cut/file-2");
  CHECK(names.path("/srv/customers/acme.db") == "/cut/file-1");
  CHECK(names.path("").empty());
  CHECK(names.files() == 2);
  CHECK(names.folders() == 6);
}

TEST_CASE("memory that the kernel names stays what it is, without the program's words") {
  NameCut names = cut_of_server(true);
  for (const char* const kept :
       {"[heap]", "[stack]", "[vdso]", "[vvar_vclock]", "/dev/zero", "/anon_hugepage",
        "[anon:heapsnap_tables]", "[anon:heapsnap_directory]", "/memfd:libheapsnap_tracker.so"}) {
    CHECK(names.path(kept) == kept);
  }
  CHECK(names.path("[stack:4711]") == "[stack:name]");
  CHECK(names.path("[anon:ann's session]") == "[anon:name-1]");
  CHECK(names.path("[anon_shmem:ann]") == "[anon_shmem:name-2]");
  CHECK(names.path("[ann's]") == "[anon:name-3]");
  CHECK(names.path("[") == "/cut/file-1");
  CHECK(names.path("/memfd:ann") == "/memfd:file-2");
  CHECK(names.path("/dev/shm/ann") == "/dev/shm/file-3");
  CHECK(names.path("/SYSV5f00ba42") == "/SYSVfile-4");
  CHECK(names.path("/home/ann/libheapsnap_tracker.so") == "/cut/libheapsnap_tracker.so");
}

TEST_CASE("names of code stay, but for folders in them") {
  NameCut names = cut_of_server(true);
  for (const char* const kept :
       {"Session::open(char const*)", "operator/(Money, int)", "operator new", "f<(4/2)>()",
        "std::map<int, a::B>::find(int const&)", "", "server+0x1a2b0()", "<entry point>"}) {
    CHECK(names.function(kept) == kept);
    CHECK(names.variable(kept) == kept);
    CHECK(names.type(kept, TypeSource::kVtable) == kept);
  }
  CHECK(names.function("(lambda at /home/ann/s.cpp:3:9)") == "(lambda at s.cpp:3:9)");
  CHECK(names.function("f<(lambda at /home/ann b/s.cpp:3:9), (lambda at /x/t.h:1)>(int)") ==
        "f<(lambda at s.cpp:3:9), (lambda at t.h:1)>(int)");
  CHECK(names.function("ann/libtax.so+0x10()") == "libtax.so+0x10()");
  CHECK(names.function("bob/libtax.so+0x10()") == "cut-2/libtax.so+0x10()");
  // clang names them as they were given to it.
  CHECK(names.type("Node<(lambda at acme/shop/s.cpp:3:9)>", TypeSource::kDebugInfo) ==
        "Node<(lambda at s.cpp:3:9)>");
  CHECK(names.function("f<(unnamed struct at ../a, (b)/s.h:1:2), (lambda at t.h:3:4)>(int)") ==
        "f<(unnamed struct at s.h:1:2), (lambda at t.h:3:4)>(int)");
  CHECK(names.function("g<(lambda at /@acme/\xc3\xbc/s.cpp:3:9)>") == "g<(lambda at s.cpp:3:9)>");
  CHECK(names.function("h(/@acme/s.cpp)") == "h(s.cpp)");
  CHECK(names.function("Unit operator/(Unit) at a/b:3") == "Unit operator/(Unit) at a/b:3");
  CHECK(names.type("#<Class:0x00007f0f88fec5b0>::In", TypeSource::kUnknown) ==
        "#<Class:address-1>::In");
  CHECK(names.type("Struct 0x00007f0f88fec998, 0x00007f0f88fec5b0", TypeSource::kUnknown) ==
        "Struct address-2, address-1");
  CHECK(names.function("mask_0x12345678(0x1234)") == "mask_0x12345678(0x1234)");
  CHECK(names.source_file("/home/ann/src/s.cpp") == "s.cpp");
  CHECK(names.program_name() == "server");
}

TEST_CASE("without names there are numbers, the same for the same name") {
  NameCut names = cut_of_server(false);
  CHECK(names.path(kProgram) == "/cut/program");
  CHECK(names.path("/home/ann/plugins/libtax.so") == "/cut/module-1");
  CHECK(names.allocator("libtax.so") == "module-1");
  CHECK(names.allocator("jemalloc") == "jemalloc");
  CHECK(names.path("/home/bob/plugins/libtax.so") == "/cut/module-2");
  CHECK(names.function("Session::open(char const*)") == "function_1");
  CHECK(names.function("Session::close()") == "function_2");
  CHECK(names.function("Session::open(char const*)") == "function_1");
  CHECK(names.function("server+0x1a2b0()") == "program+0x1a2b0()");
  CHECK(names.function("libtax.so+0x1a2b0()") == "module-3+0x1a2b0()");
  CHECK(names.variable("g_sessions") == "variable_1");
  CHECK(names.variable(std::string(kControlBlockName)) == kControlBlockName);
  CHECK(names.part(std::string(kClassPart)) == kClassPart);
  CHECK(names.part(std::string(kContextPart)) == kContextPart);
  CHECK(names.local("g_sessions in Session::close() at a.py:42") == "variable_1 in function_2");
  CHECK(names.local("perhaps a temporary in Session::close() at a.py:42") ==
        "perhaps a temporary in function_2");
  CHECK(names.local("a temporary") == "a temporary");
  CHECK(names.type("Session", TypeSource::kVtable) == "Type_1");
  // What owners go by.
  const auto by_debug = [&names](const char* name) {
    return names.type(name, TypeSource::kDebugInfo);
  };
  CHECK(by_debug("Session[]") == "Type_1[]");
  CHECK(by_debug("std::_List_node<Session>") == "std::_List_node<Type_2>");
  CHECK(by_debug("int[]") == "int[]");
  CHECK(by_debug("std::string characters") == "std::string characters");
  CHECK(names.type("", TypeSource::kUnknown).empty());
  CHECK(names.source_file("/home/ann/src/s.cpp").empty());
  CHECK(names.program_name() == "program");
  CHECK(names.names() == 5);
  // What heapsnap knows by name: ways to malloc, and structures that it recognized.
  CHECK(names.function("operator new(unsigned long)") == "operator new");
  CHECK(
      names.function("std::vector<Secret, std::allocator<Secret> >::_M_realloc_insert(Secret&&)") ==
      "std::vector::_M_realloc_insert");
  CHECK(names.type("std::string characters", TypeSource::kStructure) == "std::string characters");
  CHECK(names.type("thread-local storage of libtax.so", TypeSource::kStructure) ==
        "thread-local storage of module-4");
}

TEST_CASE("threads and processes get numbers of their own") {
  NameCut names = cut_of_server(true);
  CHECK(names.thread(4711) == 1);
  CHECK(names.thread(4713) == 2);
  CHECK(names.thread(4712) == 3);
  CHECK(names.thread(4713) == 2);
  CHECK(names.thread(0) == 0);
  CHECK(names.thread(-1) == -1);
  CHECK(names.thread_name("server") == "server");
  CHECK(names.thread_name("for ann") == "thread-1");
  CHECK(names.thread_name("for bob") == "thread-2");
  CHECK(names.thread_name("for ann") == "thread-1");
  CHECK(names.thread_name("").empty());
}

TEST_CASE("sentences of heapsnap lose what they say of this process") {
  CHECK(NameCut::sentence("fork takes 3 ms, stop 90 ms") == "fork takes ... ms, stop ... ms");
  CHECK(NameCut::sentence("size 0x6e6e61 at chunk 0x55d0c8a00050") == "size ... at chunk ...");
  CHECK(NameCut::sentence("memory limit of /ann's slice/web") == "memory limit of ...");
  CHECK(NameCut::sentence("/home/ann is full") == "...");
  CHECK(NameCut::sentence("values a_b c.d@e 1 2 3") == "values ...");
  CHECK(NameCut::sentence("memory of this machine") == "memory of this machine");
  CHECK(NameCut::sentence("").empty());
  CHECK(NameCut::word("heapsnap 0.1.0") == "heapsnap 0.1.0");
  CHECK(NameCut::word("table L2/P35") == "table L2/P35");
  CHECK(NameCut::word("/home/ann").empty());
  CHECK(NameCut::word(std::string(41, 'a')).empty());
  CHECK(NameCut::word("a\nb").empty());
}
