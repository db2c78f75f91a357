#include "platform/linux/remote_call/caller_candidates.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/linux/fixture_tree.h"

namespace heapsnap {

namespace {

// Process 7 with threads 7, 8 and 9.
class Threads {
 public:
  Threads() {
    put(7, 'R');
    put(8, 'S');
    put(9, 'D');
  }

  ProcFs proc() const { return ProcFs(tree_.path()); }
  void put(int tid, char state, int flags = 0) const { put(tid, stat_of(tid, state, flags)); }
  // As the kernel shows it: by its tid, and as a thread of the process.
  void put(int tid, const std::string& stat) const {
    const std::string name = std::to_string(tid);
    tree_.write(name + "/stat", stat);
    tree_.write("7/task/" + name + "/stat", stat);
  }
  void take_away(int tid) const {
    std::filesystem::remove_all(tree_.path(std::to_string(tid)));
    std::filesystem::remove_all(tree_.path("7/task/" + std::to_string(tid)));
  }

 private:
  static std::string stat_of(int tid, char state, int flags) {
    constexpr int kFlagsField = 9;
    std::string text = std::to_string(tid) + " (server) " + state;
    for (int field = 4; field <= 38; ++field) {
      text += " " + std::to_string(field == kFlagsField ? flags : 0);
    }
    return text;
  }

  FixtureTree tree_;
};

}  // namespace

TEST_CASE("sleeping threads are asked first") {
  const Threads threads;
  const CallerCandidates found = list_caller_candidates(threads.proc(), 7);
  CHECK(found.alive == 3);
  REQUIRE(found.tids.size() == 3);
  CHECK(found.tids.front() == 8);
}

TEST_CASE("one other thread that lives is enough to know that one is not alone") {
  const Threads threads;
  const CallerCandidates before = list_caller_candidates(threads.proc(), 7);
  threads.put(9, "damaged");  // not looked at, or this would throw
  CHECK_FALSE(is_only_thread(threads.proc(), 7, 7, before));
}

TEST_CASE("a thread is alone when all others have ended") {
  const Threads threads;
  const CallerCandidates before = list_caller_candidates(threads.proc(), 7);
  threads.take_away(9);
  threads.put(8, 'Z');
  CHECK(is_only_thread(threads.proc(), 7, 7, before));
}

TEST_CASE("a thread that is exiting runs nothing any more") {
  constexpr int kExiting = 4;  // PF_EXITING
  const Threads threads;
  const CallerCandidates before = list_caller_candidates(threads.proc(), 7);
  threads.take_away(9);
  threads.put(8, 'R', kExiting);
  CHECK(is_only_thread(threads.proc(), 7, 7, before));
  CHECK(list_caller_candidates(threads.proc(), 7).alive == 1);
}

TEST_CASE("a thread that came into being meanwhile counts") {
  const Threads threads;
  const CallerCandidates before = list_caller_candidates(threads.proc(), 7);
  threads.take_away(8);
  threads.take_away(9);
  threads.put(10, 'S');
  CHECK_FALSE(is_only_thread(threads.proc(), 7, 7, before));
}

TEST_CASE("a tid that another process has got is no thread") {
  const Threads threads;
  const CallerCandidates before = list_caller_candidates(threads.proc(), 7);
  threads.take_away(9);
  std::filesystem::remove_all(threads.proc().path(7, "task/8"));
  CHECK(is_only_thread(threads.proc(), 7, 7, before));
}

}  // namespace heapsnap
