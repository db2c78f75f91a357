#include "tools/collect/collect_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/error.h"
#include "platform/linux/proc/kernel_text.h"
#include "snapshot/output_file.h"

namespace heapsnap {

namespace {

constexpr const char* kRunFolder = "/run/heapsnap";
constexpr mode_t kLockMode = 0640;

UniqueFd open_lock(int folder, const std::string& name) {
  return UniqueFd(::openat(folder, name.c_str(),
                           O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           kLockMode));
}

// The first bytes of the file, more than a pid takes; without the end of the line.
std::string read_start(int file) {
  std::array<char, 16> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  std::string word(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  if (word.ends_with('\n')) word.pop_back();
  return word;
}

// Why a file that is there already is no lock of ours: a PID is written into it, and whoever owns
// it could hold it for ever. Empty for ours and for root's.
std::string refusal_of(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return errno_text(errno);
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  if (status.st_uid != ::geteuid() && status.st_uid != 0) return "it belongs to another user";
  if (status.st_nlink > 1) return "it has another name, too (a hard link)";
  // Empty: nobody had it yet, or who has it is about to write into it.
  const std::string start = read_start(file);
  if (!start.empty() && !parse_number(start)) return "it is a file with other contents";
  return {};
}

UniqueFd open_run_lock() {
  ::mkdir(kRunFolder, 0755);
  const UniqueFd folder(::open(kRunFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return folder ? open_lock(folder.get(), kCollectLockName) : UniqueFd();
}

std::string read_holder(int file) {
  const auto pid = parse_number(read_start(file));
  return pid ? "process " + std::to_string(*pid) : "another process";
}

}  // namespace

CollectLock::CollectLock(const CollectConfig& config, int folder, const std::string& folder_path) {
  std::string path = config.lock;
  if (!path.empty()) {
    file_ = open_lock(AT_FDCWD, path);
  } else if (file_ = open_run_lock(); file_) {
    path = std::string(kRunFolder) + "/" + kCollectLockName;
  } else {
    path = folder_path + "/" + kCollectLockName;
    file_ = open_lock(folder, kCollectLockName);
  }
  if (!file_) {
    throw Error(ErrorKind::kOutput, "cannot open the lock " + path, errno_text(errno),
                output_remedy(errno));
  }
  if (const std::string refusal = refusal_of(file_.get()); !refusal.empty()) {
    throw Error(ErrorKind::kOutput, "cannot use the lock " + path, refusal,
                "remove it if nobody needs it, or name a file in a folder that only you can write "
                "to: lock = "
                "\"/run/heapsnap/collect.lock\"");
  }
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      throw Error(ErrorKind::kOutput, "cannot lock " + path, errno_text(errno),
                  "name a file on a local disk: lock = \"/run/heapsnap/collect.lock\"");
    }
    holder_ = read_holder(file_.get());
    return;
  }
  is_held_ = true;
  const std::string pid = std::to_string(::getpid()) + "\n";
  // Who waits reads it; the lock holds without it.
  if (::ftruncate(file_.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t written = ::pwrite(file_.get(), pid.data(), pid.size(), 0);
  }
}

}  // namespace heapsnap
