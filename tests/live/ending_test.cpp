// Is everything undone when heapsnap is asked to end, by SIGINT, SIGTERM or SIGHUP, after each of
// its acts? And does it die by that signal?
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/live/checks.h"
#include "tests/live/injection_probe.h"
#include "tests/live/live_target.h"
#include "tests/live/stepped_process.h"

namespace heapsnap::live {

namespace {

namespace fs = std::filesystem;
using Command = std::vector<std::string>;

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "heapsnap-ending-XXXXXX").string()) {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  // Names of what is in it, without those of whole snapshots.
  std::string left_over() const {
    std::string names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.path().extension() == ".hsnap" && is_whole(entry.path())) continue;
      names += entry.path().filename().string() + " ";
    }
    return names;
  }
  void empty() const {
    for (const auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry.path());
  }

 private:
  static bool is_whole(const fs::path& path) {
    const std::string check =
        std::string(HEAPSNAP) + " report " + path.string() + " >/dev/null 2>&1";
    return std::system(check.c_str()) == 0;
  }

  std::string path_;
};

// Becomes heapsnap with these arguments, in `folder`.
int become_heapsnap(const Command& words, const Folder& folder) {
  Command command = words;
  command.insert(command.begin(), HEAPSNAP);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  // doctest catches these.
  for (const int signal : kSignals) ::signal(signal, SIG_DFL);
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (::chdir(folder.path().c_str()) != 0 || ::dup2(nowhere, STDOUT_FILENO) < 0) ::_exit(126);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

struct Visit {
  int visited = 0;
  int died = 0;
};

// Sends one of the three signals after each act, or each `stride`th; `check` looks at the target.
template <typename Check>
Visit end_everywhere(const Command& words, int stride, const Folder& folder, const Check& check) {
  Visit visit;
  for (int step = 1;; step += stride) {
    const int signal = kSignals[static_cast<size_t>(visit.visited) % kSignals.size()];
    const auto status = end_after_step(
        step, [&] { return become_heapsnap(words, folder); },
        [&](pid_t process) { ::kill(process, signal); });
    if (!status) break;
    CAPTURE(words.front());
    CAPTURE(step);
    CAPTURE(*status);
    // A signal that comes when all is done may come too late.
    const bool died = WIFSIGNALED(*status) && WTERMSIG(*status) == signal;
    CHECK((died || (WIFEXITED(*status) && WEXITSTATUS(*status) == 0)));
    ++visit.visited;
    visit.died += died ? 1 : 0;
    CHECK(folder.left_over() == "");
    check();
    folder.empty();
  }
  return visit;
}

void check_footprint(const Footprint& before, pid_t pid) {
  const Footprint now = footprint_of(pid);
  CHECK(now.tracer == 0);
  CHECK(difference("child", before.children, now.children) == "");
  CHECK(difference("file", before.descriptors, now.descriptors) == "");
  CHECK(difference("mapping", before.mappings, now.mappings) == "");
}

}  // namespace

TEST_CASE("an attach that is asked to end leaves nothing behind") {
  for (const std::string how : {"fork", "stop"}) {
    CAPTURE(how);
    const Folder folder;
    LiveTarget target({REGISTER_KEEPER, "2"});
    const Footprint before = footprint_of(target.pid());
    const Visit visit = end_everywhere(
        {"attach", "--freeze", how, "-q", "-o", "x.hsnap", std::to_string(target.pid())},
        scaled(7, 1), folder, [&] { check_footprint(before, target.pid()); });
    CHECK(visit.visited >= 3);
    CHECK(visit.died > visit.visited / 2);
    check_end(target);
  }
}

TEST_CASE("the snapshot that a command takes for itself is gone with it, also when it is killed") {
  const Folder folder;
  LiveTarget target({REGISTER_KEEPER, "2"});
  int killed = 0;
  for (int step = 1;; step += scaled(7, 1)) {
    const auto status = end_after_step(
        step,
        [&] {
          return become_heapsnap({"owners", std::to_string(target.pid())}, folder);
        },
        [](pid_t process) { ::kill(process, SIGKILL); });
    if (!status) break;
    killed += WIFSIGNALED(*status) ? 1 : 0;
    CAPTURE(step);
    CHECK(folder.left_over() == "");
    folder.empty();
  }
  CHECK(killed >= 3);
  check_end(target);
}

TEST_CASE("a command that puts the tracker in, asked to end, leaves no hook behind") {
  const Folder folder;
  LiveTarget target({"/usr/bin/env", "LD_BIND_NOW=1", MALLOC_CHURN, "1"});
  const MappedWords before = code_and_bindings(target.pid());
  const std::string pid = std::to_string(target.pid());
  const Visit visit = end_everywhere({"inject", pid}, scaled(17, 1), folder, [&] {
    CHECK(footprint_of(target.pid()).tracer == 0);
    if (changes_of(before, code_and_bindings(target.pid())) == "") return;
    // It was done before the signal came.
    const auto status = end_after_step(
        1 << 30,
        [&] {
          return become_heapsnap({"eject", pid}, folder);
        },
        [](pid_t) {});
    CHECK(!status);
    CHECK(changes_of(before, code_and_bindings(target.pid())) == "");
  });
  CHECK(visit.visited >= 3);
  CHECK(visit.died > 0);
  check_end(target);
}

TEST_CASE("a trim that is asked to end leaves nothing behind") {
  const Folder folder;
  LiveTarget target({LONE_SLEEPER});
  const std::string pid = std::to_string(target.pid());
  const Visit visit = end_everywhere({"trim", pid}, scaled(9, 1), folder, [&] {
    CHECK(footprint_of(target.pid()).tracer == 0);
    // The thread that trims may still be at its end.
    CHECK(eventually([&] { return footprint_of(target.pid()).blocked_signals.size() == 1; }));
  });
  CHECK(visit.visited >= 3);
  CHECK(visit.died > 0);
  check_end(target);
}

}  // namespace heapsnap::live
