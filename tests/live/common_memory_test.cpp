// Processes that run in the target's memory stand while it does, whatever kcmp(2) says.
#include <doctest/doctest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <exception>
#include <sstream>
#include <string>
#include <thread>

#include "platform/linux/freeze/frozen_process.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/proc_fs.h"
#include "tests/live/checks.h"
#include "tests/live/live_target.h"

namespace heapsnap::live {

namespace {

// From here on kcmp(2) gives `error` to the calling thread and to those that it makes.
void refuse_kcmp(int error) {
  std::array<sock_filter, 4> code = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kcmp, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{code.size(), code.data()};
  REQUIRE(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

// A seccomp filter cannot be taken off again, so what is done under one has a thread of its own.
template <typename Work>
void under_filter(int error, Work work) {
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      if (error != 0) refuse_kcmp(error);
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

bool is_traced(int pid) {
  return status_number(ProcFs().read(pid, "status"), "TracerPid") != 0;
}

struct Pids {
  int writer = 0;
  int forked = 0;
};

Pids pids_in(const std::string& line) {
  Pids pids;
  std::istringstream(line) >> pids.writer >> pids.forked;
  REQUIRE(pids.writer > 0);
  REQUIRE(pids.forked > 0);
  return pids;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a process that runs in the target's memory stands with it, a forked child goes on") {
  for (const int error : {0, EPERM, ENOSYS}) {
    for (const std::string way : {"vfork", "nested", "clone"}) {
      CAPTURE(error);
      CAPTURE(way);
      LiveTarget target({MEMORY_SHARER, way});
      const Pids pids = pids_in(target.read_line());
      under_filter(error, [&] {
        for (int i = 0; i < scaled(3, 200); ++i) {
          const auto frozen =
              std::make_unique<FrozenProcess>(target.pid(), choose(FreezeChoice::kStop));
          CHECK(ProcFs().stat(pids.writer).state == 't');
          CHECK_FALSE(is_traced(pids.forked));
          frozen->thaw();
          const std::string notes = notes_of(frozen->record());
          CHECK(holds(notes, "process " + std::to_string(pids.writer)));
          CHECK(holds(notes, "kcmp(2)") == (error != 0));
          CHECK_FALSE(holds(notes, std::to_string(pids.forked)));
          CHECK_FALSE(holds(notes, "was not found"));
          CHECK_FALSE(is_traced(pids.writer));
        }
      });
      CHECK(target.finish().at("writes") > 0);
      CHECK(target.exit_status() == 0);
    }
  }
}

TEST_CASE("a copy is made while such a process stands") {
  for (const int error : {0, EPERM}) {
    LiveTarget target({MEMORY_SHARER, "clone"});
    pids_in(target.read_line());
    under_filter(error, [&] {
      const auto frozen =
          std::make_unique<FrozenProcess>(target.pid(), choose(FreezeChoice::kFork));
      CHECK(frozen->record().method == FreezeMethod::kFork);
      frozen->thaw();
      CHECK(holds(notes_of(frozen->record()), "same memory"));
    });
    CHECK(target.finish().at("writes") > 0);
  }
}

TEST_CASE("where the child of a vfork cannot be found, the record says so") {
  LiveTarget target({MEMORY_SHARER, "parent"});
  const Pids pids = pids_in(target.read_line());
  const auto frozen = std::make_unique<FrozenProcess>(target.pid(), choose(FreezeChoice::kStop));
  frozen->thaw();
  CHECK(holds(notes_of(frozen->record()), "was not found"));
  CHECK(target.finish().at("writes") > 0);
  CHECK(::waitpid(pids.writer, nullptr, 0) == pids.writer);
}

}  // namespace heapsnap::live
