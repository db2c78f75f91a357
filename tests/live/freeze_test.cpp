// Does a freeze leave its target unharmed? The targets watch themselves and tell.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <set>

#include "platform/linux/freeze/frozen_process.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/self/realtime_priority.h"
#include "tests/live/checks.h"
#include "tests/live/forked_child.h"
#include "tests/live/live_target.h"
#include "tests/live/stepped_process.h"

namespace heapsnap::live {

namespace {

// malloc.o of glibc is one block of 23 to 28 KB that ends with malloc_info(). The target runs the
// same libc as this program.
std::vector<AddressRange> malloc_text_of(pid_t pid) {
  constexpr uint64_t kBlock = 0x6000;
  Dl_info found{};
  const ElfW(Sym)* symbol = nullptr;
  REQUIRE(dladdr1(reinterpret_cast<void*>(&malloc_info), &found,
                  reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) != 0);
  const uint64_t end = symbol->st_value + symbol->st_size;
  for (const Mapping& mapping : ProcFs().maps(pid)) {
    if (mapping.file_offset == 0 && mapping.path == std::string(found.dli_fname)) {
      return {{mapping.range.begin + (end - kBlock), mapping.range.begin + end}};
    }
  }
  const Dl_info& libc = found;
  for (const Mapping& mapping : ProcFs().maps(pid)) {
    if (mapping.file_offset == 0 && mapping.path.find("/libc.so") != std::string::npos) {
      return {{mapping.range.begin + (end - kBlock), mapping.range.begin + end}};
    }
  }
  FAIL("the target has no libc like " << libc.dli_fname);
  return {};
}

// A word of the target's memory, to see that memory can be read at all.
bool can_read_stack(FrozenProcess& frozen) {
  for (const Thread& thread : frozen.threads()) {
    if (thread.registers && frozen.memory().read_value<uint64_t>(thread.registers->stack_pointer)) {
      return true;
    }
  }
  return false;
}

void freeze_often(pid_t pid, const FreezeOptions& options, int times, FreezeMethod method) {
  for (int i = 0; i < times; ++i) {
    const auto frozen = std::make_unique<FrozenProcess>(pid, options);
    CHECK(can_read_stack(*frozen));
    frozen->thaw();
    const FreezeRecord& record = frozen->record();
    INFO(record.why);
    REQUIRE(record.method == method);
    for (const std::string& note : record.notes) FAIL_CHECK(note);
  }
}

constexpr FreezeChoice kBothWays[] = {FreezeChoice::kStop, FreezeChoice::kFork};

FreezeMethod method_of(FreezeChoice choice) {
  return choice == FreezeChoice::kFork ? FreezeMethod::kFork : FreezeMethod::kStop;
}

// How the footprint of `pid` differs from `before`, when it has had time to become the same.
std::string last_difference(pid_t pid, const Footprint& before) {
  std::string last;
  eventually([&] {
    last = difference(before, footprint_of(pid));
    return last.empty();
  });
  return last;
}

// The same, of the signals that its threads block: a caller that returns by itself needs a
// processor to do so, and some calls have a mask of their own while they wait.
std::string last_mask_difference(pid_t pid, const Footprint& before) {
  std::string last;
  eventually([&] {
    Footprint after = before;
    after.blocked_signals = footprint_of(pid).blocked_signals;
    last = difference(before, after);
    return last.empty();
  });
  return last;
}

}  // namespace

TEST_CASE("blocking system calls neither fail nor end early") {
  for (const FreezeChoice choice : kBothWays) {
    CAPTURE(std::string(to_string(method_of(choice))));
    LiveTarget target({SYSCALL_SLEEPER});
    const Footprint before = footprint_of(target.pid());
    freeze_often(target.pid(), choose(choice), scaled(30, 1000), method_of(choice));
    CHECK(last_difference(target.pid(), before) == "");
    auto seen = target.finish();
    CHECK(target.exit_status() == 0);
    CHECK(seen.at("eintr") == 0);
    CHECK(seen.at("errors") == 0);
    CHECK(seen.at("early") == 0);
    CHECK(seen.at("sigchld") == 0);
    CHECK(seen.at("children") == 0);
  }
}

TEST_CASE("a sleep that was stopped goes on with the time that was left") {
  for (const FreezeChoice choice : kBothWays) {
    CAPTURE(std::string(to_string(method_of(choice))));
    LiveTarget target({LONE_SLEEPER});
    const Footprint before = footprint_of(target.pid());
    freeze_often(target.pid(), choose(choice), scaled(30, 1000), method_of(choice));
    CHECK(last_difference(target.pid(), before) == "");
    auto seen = target.finish();
    CHECK(target.exit_status() == 0);
    CHECK(seen.at("errors") == 0);
    CHECK(seen.at("early") == 0);
    CHECK(seen.at("late") == 0);
  }
}

TEST_CASE("registers, flags and red zone of running threads stay what they are") {
  for (const FreezeChoice choice : kBothWays) {
    CAPTURE(std::string(to_string(method_of(choice))));
    LiveTarget target({REGISTER_KEEPER, "3"});
    const Footprint before = footprint_of(target.pid());
    freeze_often(target.pid(), choose(choice), scaled(30, 1000), method_of(choice));
    CHECK(last_difference(target.pid(), before) == "");
    auto seen = target.finish();
    CHECK(target.exit_status() == 0);
    CHECK(seen.at("errors") == 0);
    CHECK(seen.at("rounds") > 0);
  }
}

// The code of its program stands for the allocator's here.
TEST_CASE("of a thread that does not leave the allocator a copy is made, not a long stop") {
  LiveTarget target({REGISTER_KEEPER, "1"});
  FreezeOptions options = choose(FreezeChoice::kAuto);
  for (const Mapping& mapping : ProcFs().maps(target.pid())) {
    if (mapping.executable && mapping.path.ends_with("/register_keeper")) {
      options.malloc_text.push_back(mapping.range);
    }
  }
  FrozenProcess frozen(target.pid(), options);
  frozen.thaw();
  CAPTURE(frozen.record().why);
  CHECK(frozen.record().method == FreezeMethod::kFork);
  CHECK(frozen.record().why.find("stayed inside malloc") != std::string::npos);
  CHECK(frozen.paused_ns() > frozen.record().pause_ns);
  CHECK(notes_of(frozen.record()).find("already been paused") != std::string::npos);
  auto seen = target.finish();
  CHECK(target.exit_status() == 0);
  CHECK(seen.at("errors") == 0);
}

TEST_CASE("a target that is stopped is read with real-time priority, for a moment") {
  if (!gets_realtime_priority()) {
    MESSAGE("skipped: this process gets no real-time priority");
    return;
  }
  LiveTarget target({LONE_SLEEPER});
  const auto policy = [] { return ::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK; };
  for (const FreezeChoice choice : kBothWays) {
    FrozenProcess frozen(target.pid(), choose(choice));
    CHECK(policy() == (choice == FreezeChoice::kStop ? SCHED_FIFO : SCHED_OTHER));
    frozen.thaw();
    CHECK(policy() == SCHED_OTHER);
  }
  FrozenProcess frozen(target.pid(), choose(FreezeChoice::kStop));
  CHECK(eventually([&] { return policy() == SCHED_OTHER; }));
  CHECK(frozen.target_is_stopped());
}

TEST_CASE("general registers are shown as the threads have them") {
  for (const FreezeChoice choice : kBothWays) {
    CAPTURE(std::string(to_string(method_of(choice))));
    LiveTarget target({REGISTER_KEEPER, "3"});
    int keeping = 0;
    for (int i = 0; i < 50 && keeping < 3; ++i) {
      FrozenProcess frozen(target.pid(), choose(choice));
      keeping = 0;
      for (const Thread& thread : frozen.threads()) {
        REQUIRE(thread.registers);
        const auto& values = thread.registers->general.values;
        CHECK(thread.registers->general.are_known);
        CHECK(values[7] == thread.registers->stack_pointer.value());
        // Within keep_registers(): rdi is the seed, all others but rax are that and more.
        const uint64_t seed = values[5];
        const bool is_keeping = values[3] == seed + 1 && values[15] == seed + 13;
        if (seed >> 32 != 0x11111111 || !is_keeping) continue;
        ++keeping;
        const std::vector<std::pair<unsigned, uint64_t>> held = {
            {2, 2},  {1, 3},  {4, 4},   {6, 5},   {8, 6},  {9, 7},
            {10, 8}, {11, 9}, {12, 10}, {13, 11}, {14, 12}};
        for (const auto& [number, more] : held) CHECK(values.at(number) == seed + more);
      }
    }
    CHECK(keeping == 3);  // they spend nearly all their time there
    target.finish();
    CHECK(target.exit_status() == 0);
  }
}

TEST_CASE("a server whose threads come and go serves on") {
  for (const FreezeChoice choice : kBothWays) {
    CAPTURE(std::string(to_string(method_of(choice))));
    LiveTarget target({BUSY_SERVER, "3", "4"});
    const int times = scaled(30, 1000);
    freeze_often(target.pid(), choose(choice), times, method_of(choice));
    const Footprint after = footprint_of(target.pid());
    CHECK(difference("child", {}, after.children) == "");
    CHECK(after.tracer == 0);
    auto seen = target.finish();
    CHECK(target.exit_status() == 0);
    CHECK(seen.at("errors") == 0);
    CHECK(seen.at("eintr") == 0);
    CHECK(seen.at("requests") > times);
    CHECK(seen.at("threads") > times / 20);
  }
}

TEST_CASE("nobody is inside the allocator in what is read, and the target's heap stays sound") {
  for (const FreezeChoice choice : kBothWays) {
    for (const std::string threads : {"0", "1", "4"}) {
      CAPTURE(std::string(to_string(method_of(choice))));
      CAPTURE(threads);
      LiveTarget target({MALLOC_CHURN, threads, "greedy"});
      FreezeOptions options = choose(choice);
      options.malloc_text = malloc_text_of(target.pid());
      uint64_t met_inside = 0;
      constexpr int kMostAttempts = 400;  // the moment is chance
      for (int i = 0; i < scaled(12, kMostAttempts) || (met_inside == 0 && i < kMostAttempts);
           ++i) {
        const auto frozen = std::make_unique<FrozenProcess>(target.pid(), options);
        for (const Thread& thread : frozen->threads()) {
          REQUIRE(thread.registers);
          CHECK(!options.malloc_text.front().contains(thread.registers->instruction_pointer));
        }
        met_inside += frozen->record().threads_in_malloc;
        frozen->thaw();
        for (const std::string& note : frozen->record().notes) FAIL_CHECK(note);
      }
      CHECK(met_inside > 0);
      CHECK(difference("child", {}, footprint_of(target.pid()).children) == "");
      auto seen = target.finish();
      CHECK(target.exit_status() == 0);
      CHECK(seen.at("errors") == 0);
    }
  }
}

namespace {

// Until it is killed.
[[noreturn]] void freeze_again_and_again(pid_t pid, const FreezeOptions& options) {
  while (true) {
    const auto frozen = std::make_unique<FrozenProcess>(pid, options);
    can_read_stack(*frozen);
    frozen->thaw();
  }
}

// Kills freezers at random moments, spread over more than one whole cycle; after each, nothing may
// be left but a zombie that nobody sees.
void kill_freezers(LiveTarget& target, const FreezeOptions& options, int times) {
  const auto begin = std::chrono::steady_clock::now();
  FrozenProcess(target.pid(), options).thaw();
  const std::chrono::nanoseconds cycle = std::chrono::steady_clock::now() - begin;
  std::mt19937_64 random(4711);
  std::uniform_int_distribution<int64_t> moment(0, cycle.count() * 2);
  std::set<int> zombies;
  for (int i = 0; i < times; ++i) {
    const pid_t freezer =
        run_in_child([&]() -> int { freeze_again_and_again(target.pid(), options); });
    const int64_t delay = moment(random);
    const timespec time{delay / 1'000'000'000, delay % 1'000'000'000};
    ::nanosleep(&time, nullptr);  // the moment is what is tested
    ::kill(freezer, SIGKILL);
    int status = 0;
    ::waitpid(freezer, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    REQUIRE(::kill(target.pid(), 0) == 0);
    REQUIRE(eventually([&] { return children_of(target.pid(), false).empty(); }));
    REQUIRE(footprint_of(target.pid()).tracer == 0);
  }
}

}  // namespace

TEST_CASE("a freezer that is killed at any moment harms nobody") {
  SUBCASE("registers") {
    for (const FreezeChoice choice : kBothWays) {
      LiveTarget target({REGISTER_KEEPER, "2"});
      const Footprint before = footprint_of(target.pid());
      kill_freezers(target, choose(choice), scaled(10, 300));
      CHECK(last_mask_difference(target.pid(), before) == "");
      const Footprint after = footprint_of(target.pid());
      CHECK(difference("file", before.descriptors, after.descriptors) == "");
      CHECK(difference("mapping", before.mappings, after.mappings) == "");
      auto seen = target.finish();
      CHECK(target.exit_status() == 0);
      CHECK(seen.at("errors") == 0);
    }
  }
  SUBCASE("system calls") {
    LiveTarget target({SYSCALL_SLEEPER});
    const Footprint before = footprint_of(target.pid());
    kill_freezers(target, choose(FreezeChoice::kFork), scaled(10, 300));
    CHECK(last_mask_difference(target.pid(), before) == "");
    auto seen = target.finish();
    CHECK(target.exit_status() == 0);
    CHECK(seen.at("errors") == 0);
    CHECK(seen.at("early") == 0);
    CHECK(seen.at("sigchld") == 0);
    MESSAGE("EINTR seen by the target: ", seen.at("eintr"));
  }
  SUBCASE("the allocator") {
    for (const FreezeChoice choice : kBothWays) {
      LiveTarget target({MALLOC_CHURN, "3", "greedy"});
      FreezeOptions options = choose(choice);
      options.malloc_text = malloc_text_of(target.pid());
      kill_freezers(target, options, scaled(10, 300));
      auto seen = target.finish();
      CHECK(target.exit_status() == 0);
      CHECK(seen.at("errors") == 0);
    }
  }
}

TEST_CASE("a freezer that is killed after any of its acts harms nobody") {
  // Its acts, one after the other, until a freeze is through; in ordinary runs not all of them.
  const int stride = scaled(11, 1);
  const auto die_everywhere = [&](LiveTarget& target, const FreezeOptions& options) {
    int step = 1;
    while (kill_after_step(step, [&] {
      const auto frozen = std::make_unique<FrozenProcess>(target.pid(), options);
      can_read_stack(*frozen);
      frozen->thaw();
    })) {
      CAPTURE(step);
      REQUIRE(::kill(target.pid(), 0) == 0);
      REQUIRE(eventually([&] { return children_of(target.pid(), false).empty(); }));
      REQUIRE(footprint_of(target.pid()).tracer == 0);
      step += stride;
    }
    MESSAGE("about ", step, " acts");
    CHECK(step > 5);
  };
  SUBCASE("registers") {
    for (const FreezeChoice choice : kBothWays) {
      LiveTarget target({REGISTER_KEEPER, "2"});
      const Footprint before = footprint_of(target.pid());
      die_everywhere(target, choose(choice));
      CHECK(last_mask_difference(target.pid(), before) == "");
      auto seen = target.finish();
      CHECK(target.exit_status() == 0);
      CHECK(seen.at("errors") == 0);
    }
  }
  SUBCASE("one thread that sleeps") {
    for (const FreezeChoice choice : kBothWays) {
      LiveTarget target({LONE_SLEEPER});
      const Footprint before = footprint_of(target.pid());
      die_everywhere(target, choose(choice));
      CHECK(last_mask_difference(target.pid(), before) == "");
      auto seen = target.finish();
      CHECK(target.exit_status() == 0);
      CHECK(seen.at("errors") == 0);
      CHECK(seen.at("early") == 0);
    }
  }
  SUBCASE("the allocator") {
    for (const FreezeChoice choice : kBothWays) {
      LiveTarget target({MALLOC_CHURN, "3", "greedy"});
      FreezeOptions options = choose(choice);
      options.malloc_text = malloc_text_of(target.pid());
      die_everywhere(target, options);
      auto seen = target.finish();
      CHECK(target.exit_status() == 0);
      CHECK(seen.at("errors") == 0);
    }
  }
}

}  // namespace heapsnap::live
