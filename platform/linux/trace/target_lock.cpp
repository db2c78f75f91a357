#include "platform/linux/trace/target_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <thread>

#include "base/error.h"
#include "platform/linux/proc/ask_again.h"
#include "platform/linux/proc/target_refusal.h"

namespace heapsnap {

namespace {

constexpr std::chrono::milliseconds kFirstNap{1};
constexpr std::chrono::milliseconds kLongestNap{50};

// " (process 4242)", from /proc/locks: "1: FLOCK  ADVISORY  WRITE 4242 00:15:827097 0 EOF".
std::string holder_text(int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return {};
  const std::string inode = ":" + std::to_string(file.st_ino);
  std::ifstream locks("/proc/locks");
  std::string number;
  std::string kind;
  std::string manner;
  std::string access;
  std::string pid;
  std::string place;
  std::string rest;
  while (locks >> number >> kind >> manner >> access >> pid >> place && std::getline(locks, rest)) {
    if (kind == "FLOCK" && place.ends_with(inode)) return " (process " + pid + ")";
  }
  return {};
}

UniqueFd open_memory(const ProcFs& proc, int pid) {
  return ask_again(proc, pid, [&] {
    const int tid = proc.live_tid(pid).value_or(pid);
    UniqueFd memory(::open(proc.path(tid, "mem").c_str(), O_RDONLY | O_CLOEXEC));
    if (!memory) throw TargetRefusal(pid, errno);
    return memory;
  });
}

}  // namespace

TargetLock::TargetLock(const ProcFs& proc, int pid, std::chrono::milliseconds patience)
    : memory_(open_memory(proc, pid)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::chrono::milliseconds nap = kFirstNap;
  while (::flock(memory_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;  // a kernel without locks there
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorKind::kUnsupported, "cannot work on process " + std::to_string(pid),
                  "another heapsnap" + holder_text(memory_.get()) + " is working in it",
                  "try again when that has finished");
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, kLongestNap);
  }
}

}  // namespace heapsnap
