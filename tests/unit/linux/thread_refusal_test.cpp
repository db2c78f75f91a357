#include "platform/linux/inject/thread_refusal.h"

#include <doctest/doctest.h>

#include <cerrno>

#include "tests/unit/linux/fixture_tree.h"

using namespace heapsnap;

namespace {

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

bool is_about_limits(const ThreadRefusal& refusal) {
  return has(refusal.remedy, "pids.max");
}

}  // namespace

TEST_CASE("a refused clone: the limit, the PID namespace of the children, or something else") {
  const FixtureTree tree;
  for (const char* pid : {"proc/70/", "proc/71/", "proc/72/"}) {
    tree.link(std::string(pid) + "ns/pid", "pid:[1]");
  }
  tree.link("proc/70/ns/pid_for_children", "pid:[1]");
  tree.link("proc/71/ns/pid_for_children", "pid:[2]");
  tree.write("proc/72/ns/pid_for_children", "");  // there, but names nothing: no child yet
  const ProcFs proc(tree.path("proc"));

  CHECK(is_about_limits(clone_refusal(proc, 70, 70, EAGAIN)));
  CHECK(is_about_limits(clone_refusal(proc, 70, 71, EAGAIN)));
  CHECK(is_about_limits(clone_refusal(proc, 70, 70, 0)));
  for (const int error : {EINVAL, EPERM, ENOMEM}) {
    CAPTURE(error);
    const ThreadRefusal refusal = clone_refusal(proc, 70, 70, error);
    CHECK(has(refusal.why, "clone did not succeed"));
    CHECK_FALSE(is_about_limits(refusal));
    CHECK_FALSE(refusal.remedy.empty());
  }
  for (const int tid : {71, 72}) {
    for (const int error : {EINVAL, 0}) {
      CAPTURE(tid);
      const ThreadRefusal refusal = clone_refusal(proc, 70, tid, error);
      CHECK(has(refusal.why, "PID namespace"));
      CHECK(has(refusal.remedy, "/proc/self/ns/pid"));
      CHECK(has(refusal.remedy, "heapsnap attach 70"));
    }
  }
  CHECK_FALSE(has(clone_refusal(proc, 70, 71, EPERM).why, "namespace"));
}

TEST_CASE("a refused pthread_create: the limit, a filter of clone3, or something else") {
  CHECK(is_about_limits(creation_refusal(70, EAGAIN, false)));
  CHECK(is_about_limits(creation_refusal(70, EAGAIN, true)));
  CHECK(has(creation_refusal(70, EPERM, true).why, "clone3"));
  CHECK(has(creation_refusal(70, EPERM, true).remedy, "ENOSYS"));
  CHECK_FALSE(has(creation_refusal(70, EPERM, false).why, "clone3"));
  CHECK_FALSE(is_about_limits(creation_refusal(70, EPERM, false)));
}
