// What does a process keep of the threads and libraries that were put into it, and what can it, or
// anybody who looks at it, make of them?
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/unique_fd.h"
#include "platform/linux/freeze/frozen_process.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/proc/target_refusal.h"
#include "platform/linux/trace/tracer_thread.h"
#include "tests/live/checks.h"
#include "tests/live/injection_probe.h"
#include "tests/live/live_target.h"
#include "tests/live/stepped_process.h"
#include "tools/inject/library_load.h"
#include "tools/inject/running_program.h"
#include "tools/inject/tracking.h"
#include "tools/inject/trim.h"
#include "tools/tracker_image/tracker_image.h"

namespace heapsnap::live {

namespace {

// More than glibc makes arenas for on this machine: one that stays in use is told by the next.
constexpr int kManyCycles = 1000;
int cycles() {
  return scaled(40, kManyCycles);
}

class FolderOfItsOwn {
 public:
  FolderOfItsOwn() {
    std::string name = "/tmp/heapsnap-live.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder");
    path_ = name;
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
  }
  FolderOfItsOwn(const FolderOfItsOwn&) = delete;
  FolderOfItsOwn& operator=(const FolderOfItsOwn&) = delete;
  ~FolderOfItsOwn() { std::filesystem::remove_all(path_); }

  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// What malloc's counters say, and what the kernel's do.
std::map<std::string, long> counters_of(LiveTarget& target) {
  target.write_line("");
  std::map<std::string, long> counters;
  std::istringstream words(target.read_line());
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    counters[word.substr(0, equals)] = std::atol(word.c_str() + equals + 1);
  }
  const Footprint footprint = footprint_of(target.pid());
  counters["descriptors"] = static_cast<long>(footprint.descriptors.size());
  const ProcFs proc;
  const std::string status =
      proc.read(proc.live_tid(target.pid()).value_or(target.pid()), "status");
  counters["address_space_kb"] = static_cast<long>(status_number(status, "VmSize").value_or(0));
  counters["threads"] = static_cast<long>(footprint.blocked_signals.size());
  return counters;
}

std::string text_of(const std::map<std::string, long>& counters) {
  std::string text;
  for (const auto& [name, value] : counters) text += name + "=" + std::to_string(value) + " ";
  return text;
}

void cycle_often(const char* threads, const std::function<void(pid_t)>& cycle, int settling) {
  LiveTarget target({MALLOC_COUNTERS, threads});
  for (int i = 0; i < settling; ++i) cycle(target.pid());
  const std::string before = text_of(counters_of(target));
  for (int i = 0; i < cycles(); ++i) {
    CAPTURE(i);
    cycle(target.pid());
    REQUIRE(text_of(counters_of(target)) == before);
  }
  MESSAGE(std::string(threads), " threads, ", cycles(), " cycles: ", before);
  CHECK(target.finish().at("errors") == 0);
}

void check_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) FAIL_CHECK(note);
}

}  // namespace

TEST_CASE("a trim does not change malloc's counters") {
  for (const char* threads : {"0", "3"}) {
    LiveTarget target({MALLOC_COUNTERS, threads});
    auto before = counters_of(target);
    check_notes(trim_process(target.pid()).call.notes);
    auto after = counters_of(target);
    for (const char* const trimmed : {"system", "address_space_kb"}) {
      CHECK(after[trimmed] <= before[trimmed]);
      before.erase(trimmed);
      after.erase(trimmed);
    }
    CHECK(text_of(after) == text_of(before));
    CHECK(target.finish().at("errors") == 0);
  }
}

TEST_CASE("many trims leave nothing in the process") {
  for (const char* threads : {"0", "3", "alone"}) {
    cycle_often(
        threads, [](pid_t pid) { check_notes(trim_process(pid).call.notes); }, 1);
  }
}

TEST_CASE("the first inject makes no arena and leaves no thread and no descriptor") {
  for (const char* threads : {"0", "3"}) {
    LiveTarget target({MALLOC_COUNTERS, threads});
    auto before = counters_of(target);
    start_tracking(target.pid(), tracker_image(), {});
    auto after = counters_of(target);
    for (const char* what : {"arenas", "threads", "descriptors", "mapped"}) {
      CHECK_MESSAGE(after[what] == before[what], what);
    }
    CHECK(target.finish().at("errors") == 0);
  }
}

// A second inject finds everything that the first one has made.
TEST_CASE("many injects and ejects leave what the first ones have left") {
  const auto cycle = [](pid_t pid) {
    check_notes(start_tracking(pid, tracker_image(), {}).notes);
    check_notes(stop_tracking(pid, tracker_image()).notes);
  };
  for (const char* threads : {"0", "3", "alone"}) cycle_often(threads, cycle, 2);
}

namespace {

// What opening `path` in this process says: an errno, or 0.
int openable(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  return file ? 0 : errno;
}

}  // namespace

// Debuggers open the loader's name for a library in their own process.
TEST_CASE("the loader's name for a library is no file of anybody else's, at any time") {
  const FolderOfItsOwn folder;
  const std::string gate = folder.file("gate");
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  LiveTarget target({"/usr/bin/env", "SLOW_LIBRARY_GATE=" + gate, MALLOC_COUNTERS, "0"});
  const MappedFile library = MappedFile::open(SLOW_LIBRARY);
  LibraryLoad load;
  load.name = "slow_library.so";
  load.bytes = library.bytes();
  load.call.function = "tell_name";
  auto loading = std::async(std::launch::async, [&] {
    return work_on(target.pid(), [&](RunningProgram& program) {
      return load_library(program, CLibrary::find(program), load);
    });
  });

  const std::string early = target.read_line();
  MESSAGE(early);
  REQUIRE(early.starts_with("loading /proc/self/task/"));
  CHECK(openable(early.substr(8)) == ENOENT);
  { const UniqueFd opened(::open(gate.c_str(), O_WRONLY | O_CLOEXEC)); }
  const std::string late = target.read_line();
  CHECK(late == "loaded /memfd:slow_library.so (deleted)");
  CHECK(openable(late.substr(7)) == ENOENT);
  CHECK(loading.get().value == 42);
  CHECK(target.finish().at("errors") == 0);
}

// The victim is a file that heapsnap may write and the target may not: a confused deputy would.
TEST_CASE("a target that swaps descriptors has nothing written into files of its choice") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: it takes root to have more rights than the target");
    return;
  }
  constexpr const char* kNoThread = "65534";
  const std::string text = "what must stay\n";
  const FolderOfItsOwn folder;
  const std::string victim = folder.file("victim");
  std::ofstream(victim) << text;
  std::optional<int> code = 0;
  int swaps = 0;
  for (int step = 1; code; ++step) {
    CAPTURE(step);
    LiveTarget target({DESCRIPTOR_SWAPPER, victim, kNoThread});
    const auto inject = [&] {
      ::alarm(60);
      try {
        start_tracking(target.pid(), tracker_image(), {});
      } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
      }
      return 0;
    };
    code = act_after_step(step, inject, [&] {
      target.write_line("");
      REQUIRE(target.read_line() == "swapped");
      ++swaps;
    });
    std::ifstream file(victim);
    REQUIRE(std::string(std::istreambuf_iterator<char>(file), {}) == text);
    CHECK(target.finish().at("errors") == 0);
  }
  CHECK(swaps > 30);
}

TEST_CASE("a copy that another tracer keeps from being reaped is reaped, or told of") {
  LiveTarget target({LONE_SLEEPER});
  const pid_t pid = target.pid();
  std::optional<TracerThread> other;
  const auto leave_copy = [&] {
    FrozenProcess frozen(pid, choose(FreezeChoice::kFork));
    Tracee tracee(pid, pid);
    int refused = -1;
    other.emplace().run([&] { refused = tracee.seize(); });
    REQUIRE(refused == 0);
    frozen.thaw();
    REQUIRE(children_of(pid, true).size() == 1);
  };
  const auto look = [&](bool lets_go) {
    return work_on(pid, [&](RunningProgram&) {
      leave_copy();
      if (lets_go) other.reset();
      return TrimResult();
    });
  };
  CHECK(look(true).call.notes.empty());
  CHECK(children_of(pid, true).empty());
  CHECK(look(false).call.notes == std::vector<std::string>{kCopyRemains});
  CHECK(children_of(pid, true).size() == 1);
  other.reset();

  const auto fail = [&](RunningProgram&) -> int {
    leave_copy();
    throw TargetRefusal(pid, EPERM);
  };
  std::string remark;
  try {
    work_on(pid, fail);
  } catch (const TargetRefusal& refusal) {
    remark = refusal.remark();
  }
  CHECK(remark == kCopyRemains);
  CHECK(children_of(pid, true).size() == 1);
  other.reset();
  FrozenProcess(pid, choose(FreezeChoice::kFork)).thaw();
  CHECK(children_of(pid, true).empty());
  check_end(target);
}

}  // namespace heapsnap::live
