// Do several who change one process at once keep out of each other's way, and does whatever one of
// them leaves behind come to a good end?
#include <doctest/doctest.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "elf/elf_image.h"
#include "platform/linux/proc/memory_writer.h"
#include "platform/linux/remote_call/remote_call.h"
#include "platform/linux/trace/target_lock.h"
#include "target/free_place.h"
#include "tests/live/checks.h"
#include "tests/live/forked_child.h"
#include "tests/live/injection_probe.h"
#include "tests/live/live_target.h"
#include "tests/live/stepped_process.h"
#include "tools/inject/c_library.h"
#include "tools/inject/hook_page.h"
#include "tools/inject/running_program.h"
#include "tools/inject/tracker_presence.h"
#include "tools/inject/tracking.h"
#include "tools/inject/trim.h"
#include "tools/tracker_image/tracker_image.h"

namespace heapsnap::live {

namespace {

using Command = std::vector<std::string>;

const Command kBusy{"/usr/bin/env", "LD_BIND_NOW=1", MALLOC_CHURN, "2"};

bool is_locked(pid_t pid) {
  try {
    const TargetLock lock(ProcFs(), pid, std::chrono::milliseconds(0));
    return false;
  } catch (const Error& error) {
    return error.why().find("another heapsnap (process ") != std::string::npos;
  }
}

int inject_and_eject(pid_t pid) {
  start_tracking(pid, tracker_image(), {});
  stop_tracking(pid, tracker_image());
  return 0;
}

// A process of ours that makes `count` changes, in an order of its own.
pid_t start_changes(pid_t pid, unsigned seed, int count) {
  return run_in_child([=] {
    std::mt19937 random(seed);
    for (int i = 0; i < count; ++i) {
      switch (random() % 3) {
        case 0: start_tracking(pid, tracker_image(), {}); break;
        case 1: trim_process(pid); break;
        default: try { stop_tracking(pid, tracker_image());
          } catch (const Error& error) {
            if (error.why().find("nothing to remove") == std::string::npos) throw;
          }
      }
    }
    return 0;
  });
}

// Maps a page within the reach of `code`. The threads run on: one may take the place first.
Address map_hook_page(pid_t pid, const AddressRange& code, MemoryReader& memory) {
  for (int tries = 0; tries < 100; ++tries) {
    const auto place = free_place(ProcFs().maps(pid), code, HookPage::kSize, uint64_t{1} << 30);
    REQUIRE(place);
    const SystemCall map{SYS_mmap,
                         {place->value(), HookPage::kSize, PROT_READ | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, ~uint64_t{0}, 0}};
    const long value = make_remote_call(ProcFs(), pid, map, memory).value;
    if (value == static_cast<long>(place->value())) return *place;
    REQUIRE(value == -EEXIST);
  }
  FAIL("each place was taken");
  return Address();
}

}  // namespace

TEST_CASE("an injector has its process for itself from its first act to its last") {
  LiveTarget target(kBusy);
  int locked = 0;
  const int acts = act_after_each_step([&] { return inject_and_eject(target.pid()); },
                                       [&] { locked += is_locked(target.pid()) ? 1 : 0; });
  MESSAGE(acts, " acts");
  CHECK(locked == acts);
  CHECK(acts > 30);
  CHECK_FALSE(is_locked(target.pid()));
  check_end(target);
}

TEST_CASE("an injector that is killed keeps nobody out") {
  LiveTarget target(kBusy);
  const MappedWords before = code_and_bindings(target.pid(), NAMESPACE_BLOCKS);
  const int stride = scaled(29, 1);
  for (int step = 1; kill_after_step(step, [&] { inject_and_eject(target.pid()); });
       step += stride) {
    CAPTURE(step);
    CHECK_FALSE(is_locked(target.pid()));
    inject_and_eject(target.pid());
    REQUIRE(changes_of(before, code_and_bindings(target.pid(), NAMESPACE_BLOCKS)) == "");
  }
  check_end(target);
}

TEST_CASE("several that inject, eject and trim at once leave nothing that eject does not undo") {
  for (int round = 0; round < scaled(3, 100); ++round) {
    CAPTURE(round);
    LiveTarget target(kBusy);
    const MappedWords before = code_and_bindings(target.pid(), NAMESPACE_BLOCKS);
    std::vector<pid_t> processes;
    for (unsigned i = 0; i < 3; ++i) {
      processes.push_back(start_changes(target.pid(), static_cast<unsigned>(round) * 3 + i, 4));
    }
    for (const pid_t process : processes) CHECK(status_of(process) == 0);
    inject_and_eject(target.pid());
    CHECK(changes_of(before, code_and_bindings(target.pid(), NAMESPACE_BLOCKS)) == "");
    check_end(target);
  }
}

// As two injectors left it which did not know of each other: the entry points lead to the first
// one's page, and the hooks to the code in the second one's.
TEST_CASE("hooks of two pages come off") {
  LiveTarget target(kBusy);
  const MappedWords before = code_and_bindings(target.pid(), NAMESPACE_BLOCKS);
  start_tracking(target.pid(), tracker_image(), {});
  work_on(target.pid(), [&](RunningProgram& program) {
    const CLibrary libc = CLibrary::find(program);
    const auto presence = find_tracker(program, libc, tracker_image());
    REQUIRE(presence);
    const auto directory = read_tracker_directory(program, *presence);
    REQUIRE(directory);
    std::vector<HookTarget> targets;
    for (const tracker::HookEntry& hook : read_hook_table(program, *directory)) {
      const Address entry = exported_address(libc.libc(), hook.name);
      const bool is_known =
          std::any_of(targets.begin(), targets.end(),
                      [&](const HookTarget& each) { return each.entry == entry; });
      if (entry.is_null() || is_known) continue;
      targets.push_back({hook.name, entry, Address(hook.hook), Address(hook.original)});
    }
    // The library's code as it was.
    auto holding = before.upper_bound(targets.front().entry.value());
    REQUIRE(holding != before.begin());
    --holding;
    const AddressRange range{Address(holding->first),
                             Address(holding->first + holding->second.size())};
    const Address place = map_hook_page(target.pid(), range, program.memory());
    std::vector<std::byte> bytes;
    const HookPage page = make_hook_page(place, targets, holding->second, range.begin, bytes);
    MemoryWriter writer(ProcFs(), target.pid());
    REQUIRE(writer.write(place, bytes));
    for (size_t i = 0; i < targets.size(); ++i) {
      REQUIRE(writer.write_value(targets[i].original_word, page.slots[i].original.value()));
    }
    return 0;
  });
  CHECK(eventually([&] { return recorded_allocations(target.pid()) > 1000; }, kInjectionPatience));
  stop_tracking(target.pid(), tracker_image());
  CHECK(changes_of(before, code_and_bindings(target.pid(), NAMESPACE_BLOCKS)) == "");
  inject_and_eject(target.pid());
  check_end(target);
}

}  // namespace heapsnap::live
