#include "base/free_name.h"

#include <doctest/doctest.h>

#include "tests/unit/temporary_folder.h"

using namespace heapsnap;
using namespace heapsnap::test;

TEST_CASE("a name that a file has gets a number before its end") {
  const TemporaryFolder folder;
  const std::string name = folder.at("first.hsnap");
  CHECK(free_file_name(name) == name);
  folder.write("first.hsnap", "");
  CHECK(free_file_name(name) == folder.at("first.2.hsnap"));
  folder.write("first.2.hsnap", "");
  CHECK(free_file_name(name) == folder.at("first.3.hsnap"));
  CHECK(free_file_name(folder.at("a")) == folder.at("a"));
}
