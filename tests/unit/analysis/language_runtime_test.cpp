#include "analysis/language_runtime.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace heapsnap;

TEST_CASE("whether the tracker can record what an interpreter runs is told by its file's name") {
  const std::pair<const char*, bool> files[] = {
      {"/usr/bin/python3.9", false},
      {"/usr/bin/python3.11", true},
      {"/usr/lib/x86_64-linux-gnu/libpython3.13.so.1.0", true},
      {"/usr/bin/python3.14", false},
      {"/usr/lib/x86_64-linux-gnu/libruby-2.7.so.2.7.4", false},
      {"/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2", true},
      {"/opt/ruby/lib/libruby.so.3.2.1", true},
      {"/opt/ruby/lib/libruby.so.3.5.0", false},
      {"/opt/ruby/lib/libruby.so.3.4.1", true},
      {"/usr/bin/ruby3.3", true},
      {"/usr/bin/ruby", false},
      {"/usr/bin/node", false},
  };
  for (const auto& file : files) {
    CAPTURE(file.first);
    Mapping mapping;
    mapping.path = file.first;
    mapping.inode = 1;
    const auto found = mapped_runtimes({mapping});
    REQUIRE(found.size() == 1);
    CHECK(can_record_functions(found.front()) == file.second);
  }
}
