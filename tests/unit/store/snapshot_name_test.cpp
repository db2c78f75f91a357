#include "store/snapshot_name.h"

#include <doctest/doctest.h>

using namespace heapsnap;

TEST_CASE("a name says when and of which process, and is read back") {
  const SnapshotName name{1769903999, 4711};
  CHECK(to_text(name) == "20260131T235959Z-4711.hsnap");
  CHECK(parse_snapshot_name("20260131T235959Z-4711.hsnap") == name);
  for (const int64_t time : {int64_t{0}, int64_t{951782400}, int64_t{4102444799}}) {
    CHECK(parse_snapshot_name(to_text(SnapshotName{time, 1})) == SnapshotName{time, 1});
  }
}

TEST_CASE("what collect does not write is no name of a snapshot") {
  for (const char* text :
       {"", ".hsnap", "20260131T235959Z-4711", "20260131T235959Z-4711.hsnap.bak",
        "20260230T000000Z-1.hsnap", "20260131T245959Z-1.hsnap", "20260131T236059Z-1.hsnap",
        "20260131T235960Z-1.hsnap", "20260131T235959Z-0.hsnap", "20260131T235959Z--1.hsnap",
        "20260131T235959Z-01.hsnap", "20260131T235959Z-+1.hsnap", "20260131T235959Z-.hsnap",
        "20260131T235959Z-99999999999.hsnap", "20260131 235959Z-1.hsnap",
        "19691231T235959Z-1.hsnap", "nginx.4711.20260131T235959Z.hsnap"}) {
    CAPTURE(text);
    CHECK(!parse_snapshot_name(text));
  }
}

TEST_CASE("names of targets are folders that cannot lead elsewhere") {
  for (const char* name : {"web", "db-1", "a.b_c", "X"}) CHECK(is_target_name(name));
  for (const char* name : {"", ".", "..", ".hidden", "a/b", "a b", "\xc3\xa4", "a\n"}) {
    CHECK(!is_target_name(name));
  }
  CHECK(is_target_name(std::string(64, 'a')));
  CHECK(!is_target_name(std::string(65, 'a')));
}

TEST_CASE("a machine has a folder whatever it is called") {
  CHECK(host_folder("web-1.example.org") == "web-1.example.org");
  CHECK(host_folder("") == "unknown");
  CHECK(host_folder("..") == "_.");
  CHECK(host_folder("a/b\n") == "a_b_");
}
