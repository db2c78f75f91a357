// Where heapsnap's frames go on a stack that lies inside of another one.
#include "platform/linux/remote_call/frame_place.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "platform/linux/freeze/frozen_process.h"
#include "platform/linux/trace/ptrace_session.h"
#include "platform/linux/trace/tracer_thread.h"
#include "target/mapping.h"
#include "tests/live/checks.h"
#include "tests/live/live_target.h"
#include "tests/live/stepped_process.h"

namespace heapsnap::live {

namespace {

constexpr std::chrono::seconds kPatience{20};

struct NestedStack {
  int tid = 0;
  AddressRange range;
};

NestedStack nested_stack(LiveTarget& target) {
  NestedStack found;
  unsigned long begin = 0;
  unsigned long end = 0;
  REQUIRE(std::sscanf(target.read_line().c_str(), "%d %lx %lx", &found.tid, &begin, &end) == 3);
  found.range = {Address(begin), Address(end)};
  return found;
}

}  // namespace

TEST_CASE("on a stack inside of another one there is no room below its end") {
  for (const std::string who : {"handler", "thread"}) {
    CAPTURE(who);
    LiveTarget target({NESTED_STACK, who});
    const NestedStack nested = nested_stack(target);
    bool was_there = false;
    for (int look = 0; look < 1000 && !was_there; ++look) {
      TracerThread tracer;
      tracer.run([&] {
        PtraceSession session(ProcFs(), target.pid());
        const Tracee* const thread = session.stop_one(nested.tid, TraceClock::now() + kPatience);
        REQUIRE(thread != nullptr);
        const uint64_t at = thread->registers().rsp;
        was_there = nested.range.contains(Address(at));
        if (!was_there) return;
        const auto place = [&](uint64_t room) {
          return find_frame_place(ProcFs(), *thread, room, false);
        };
        const uint64_t left = at - nested.range.begin.value() - kRedZone;
        CHECK(place(left) == at - kRedZone);
        CHECK(place(left + 1) == std::nullopt);
      });
    }
    CHECK(was_there);
    check_end(target);
  }
}

TEST_CASE("what lies below a stack inside of another one stays as it is when heapsnap is killed") {
  for (const std::string who : {"handler", "thread"}) {
    CAPTURE(who);
    LiveTarget target({NESTED_STACK, who});
    nested_stack(target);
    const auto freeze = [&] { FrozenProcess(target.pid(), choose(FreezeChoice::kFork)).thaw(); };
    for (int step = 1; kill_after_step(step, freeze); step += scaled(3, 1)) {
    }
    check_end(target);
  }
}

}  // namespace heapsnap::live
