#include "platform/linux/proc/pid_namespaces.h"

#include <doctest/doctest.h>

#include "tests/unit/linux/fixture_tree.h"

using namespace heapsnap;

TEST_CASE("children come into another PID namespace, also into one that has had none yet") {
  const FixtureTree tree;
  for (const char* pid : {"proc/70/", "proc/71/", "proc/72/", "proc/73/"}) {
    tree.link(std::string(pid) + "ns/pid", "pid:[1]");
  }
  tree.link("proc/70/ns/pid_for_children", "pid:[1]");
  tree.link("proc/71/ns/pid_for_children", "pid:[2]");
  // It is there and cannot be read.
  tree.write("proc/72/ns/pid_for_children", "");
  const ProcFs proc(tree.path("proc"));
  CHECK_FALSE(creates_children_elsewhere(proc, 70));
  CHECK(creates_children_elsewhere(proc, 71));
  CHECK(creates_children_elsewhere(proc, 72));
  CHECK_FALSE(creates_children_elsewhere(proc, 73));  // Linux before 4.12
  CHECK_FALSE(creates_children_elsewhere(proc, 74));  // no such thread
}
