#include "platform/linux/inject/sole_thread_hold.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/unit/linux/fixture_tree.h"

using namespace heapsnap;

namespace {

constexpr int kHeldTid = 10;
constexpr int kWorkerTid = 11;
constexpr std::chrono::milliseconds kIdle = SoleThreadHold::kLongestIdleness;

// A process with one thread, and one of ours.
class HeldProcess {
 public:
  HeldProcess() {
    set_state(kHeldTid, 't');
    tree_.write("proc/10/task/10/stat", "");
  }
  void set_worker(char state) {
    set_state(kWorkerTid, state);
    tree_.write("proc/10/task/11/stat", "");
  }
  ProcFs proc() const { return ProcFs(tree_.path("proc")); }

 private:
  void set_state(int tid, char state) {
    std::string text = std::to_string(tid) + " (x) " + state;
    for (int field = 4; field <= 52; ++field) text += " 0";
    tree_.write("proc/" + std::to_string(tid) + "/stat", text + "\n");
  }
  FixtureTree tree_;
};

}  // namespace

TEST_CASE("the only thread is held while another works, until the deadline") {
  for (const char state : {'R', 'D'}) {
    CAPTURE(state);
    HeldProcess process;
    process.set_worker(state);
    const ProcFs proc = process.proc();
    const TraceClock::time_point begin{};
    SoleThreadHold hold(proc, kHeldTid, kHeldTid, begin + kIdle * 20);
    CHECK(hold.bears_another_look(begin));
    CHECK(hold.at_work() == kWorkerTid);
    CHECK(hold.bears_another_look(begin + kIdle * 19));
    CHECK_FALSE(hold.bears_another_look(begin + kIdle * 20));
  }
}

TEST_CASE("a thread that others may wait for is released") {
  for (const char state : {'S', 'T', 't', 'Z'}) {
    CAPTURE(state);
    HeldProcess process;
    process.set_worker(state);
    const ProcFs proc = process.proc();
    const TraceClock::time_point begin{};
    SoleThreadHold hold(proc, kHeldTid, kHeldTid, begin + kIdle * 20);
    CHECK(hold.bears_another_look(begin));
    CHECK_FALSE(hold.at_work());
    CHECK(hold.bears_another_look(begin + kIdle / 2));
    CHECK_FALSE(hold.bears_another_look(begin + kIdle));
  }
}

TEST_CASE("a short wait of the others does not end it, nor do several") {
  HeldProcess process;
  const ProcFs proc = process.proc();
  TraceClock::time_point now{};
  SoleThreadHold hold(proc, kHeldTid, kHeldTid, now + kIdle * 20);
  for (int i = 0; i < 10; ++i) {
    process.set_worker(i % 2 == 0 ? 'S' : 'R');
    CHECK(hold.bears_another_look(now));
    now += kIdle * 3 / 4;
  }
}

TEST_CASE("nobody else is there to wait for") {
  const HeldProcess process;
  const ProcFs proc = process.proc();
  const TraceClock::time_point begin{};
  SoleThreadHold hold(proc, kHeldTid, kHeldTid, begin + kIdle * 20);
  CHECK(hold.bears_another_look(begin));
  CHECK_FALSE(hold.bears_another_look(begin + kIdle));
}
