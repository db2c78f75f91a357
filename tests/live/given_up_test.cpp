// What the target has mapped shared and where it is, and whether anybody notices that its copy has
// or was, too.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "platform/linux/freeze/frozen_process.h"
#include "tests/live/checks.h"
#include "tests/live/live_target.h"

namespace heapsnap::live {

namespace {

// Mappings of files that are shared, as text.
std::vector<std::string> shared_of(const std::vector<Mapping>& mappings) {
  std::vector<std::string> shared;
  for (const Mapping& mapping : mappings) {
    if (mapping.shared) {
      shared.push_back(std::to_string(mapping.range.begin.value()) + " " + mapping.path);
    }
  }
  return shared;
}

}  // namespace

TEST_CASE("a target gives up what it has mapped shared while its copy lives") {
  for (int i = 0; i < scaled(3, 100); ++i) {
    LiveTarget target({SHARED_HOLDER});
    const Address marked(std::stoull(target.read_line(), nullptr, 16));
    const auto mapped = shared_of(ProcFs().maps(target.pid()));
    FrozenProcess frozen(target.pid(), choose(FreezeChoice::kFork));
    REQUIRE(frozen.record().method == FreezeMethod::kFork);
    CHECK(shared_of(frozen.address_space().mappings()) == mapped);
    std::array<char, sizeof "shared with all"> text{};
    CHECK(frozen.memory().read(marked, std::as_writable_bytes(std::span(text))) == text.size());
    CHECK(std::string(text.data()) == "shared with all");
    auto seen = target.finish();
    CHECK(seen.at("seals") == 0);
    CHECK(seen.at("lease") == 0);
    CHECK(seen.at("attached") == 0);
    frozen.thaw();
    CHECK(target.exit_status() == 0);
  }
}

TEST_CASE("what a target has mapped shared since it was looked at is given up, too") {
  LiveTarget target({SHARED_SEALER});
  for (int i = 0; i < scaled(40, 1000); ++i) {
    FrozenProcess frozen(target.pid(), choose(FreezeChoice::kFork));
    REQUIRE(frozen.record().method == FreezeMethod::kFork);
    // As long as one piece of its work takes, and for as long the target runs beside its copy.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  auto seen = target.finish();
  CHECK(seen.at("refused") == 0);
  CHECK(seen.at("sealed") > 0);
  CHECK(target.exit_status() == 0);
}

TEST_CASE("a target can leave its process group and its directory while its copy lives") {
  for (int i = 0; i < scaled(3, 100); ++i) {
    LiveTarget target({PLACE_LEAVER});
    FrozenProcess frozen(target.pid(), choose(FreezeChoice::kFork));
    REQUIRE(frozen.record().method == FreezeMethod::kFork);
    auto seen = target.finish();
    CHECK(seen.at("setsid") == 0);
    if (seen.at("umount") < 0) MESSAGE("umount(2) was not tried: it is not permitted");
    CHECK(seen.at("umount") <= 0);
    frozen.thaw();
    CHECK(target.exit_status() == 0);
  }
}

TEST_CASE("a copy has no real-time priority once its target runs again") {
  LiveTarget target({PLACE_LEAVER});
  FrozenProcess frozen(target.pid(), choose(FreezeChoice::kFork));
  REQUIRE(frozen.record().method == FreezeMethod::kFork);
  const ProcFs proc;
  std::vector<int> copies = proc.children(target.pid());
  std::erase_if(copies, [&proc](int child) { return proc.comm(child) != "heapsnap-copy"; });
  REQUIRE(copies.size() == 1);
  CHECK(::sched_getscheduler(copies.front()) == SCHED_OTHER);
  frozen.thaw();
  target.finish();
  CHECK(target.exit_status() == 0);
}

TEST_CASE("a target with thousands of shared mappings is not held up by them") {
  LiveTarget target({SHARED_HOLDER, "20000"});
  target.read_line();
  const auto mapped = shared_of(ProcFs().maps(target.pid()));
  CHECK(mapped.size() > 20000);
  FrozenProcess frozen(target.pid(), choose(FreezeChoice::kFork));
  REQUIRE(frozen.record().method == FreezeMethod::kFork);
  CHECK(shared_of(frozen.address_space().mappings()) == mapped);
  frozen.thaw();
  MESSAGE("paused for ", frozen.record().pause_ns / 1000, " us");
  target.finish();
  CHECK(target.exit_status() == 0);
}

}  // namespace heapsnap::live
