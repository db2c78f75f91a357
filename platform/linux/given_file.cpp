#include "platform/linux/given_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <random>

namespace heapsnap {

namespace {

// "." and doubled slashes spell a random number.
std::string unique_path(uint64_t descriptor) {
  std::random_device random;
  const uint32_t nonce = random();
  std::string path = "/proc/self/fd/";
  for (unsigned bit = 0; bit < 24; ++bit) path += (nonce >> bit & 1) != 0 ? "./" : "/";
  return path + std::to_string(descriptor);
}

// A folder of the root folder `root`: links in it lead nowhere else (openat2(2), 5.6).
UniqueFd open_folder(int root, const char* path) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root, path, &how, sizeof how)));
}

}  // namespace

FileInTarget::FileInTarget(const ProcFs& proc, int pid, const GivenFile& file)
    : proc_(proc),
      pid_(pid),
      file_(file),
      sees_proc_(::access(proc.path(pid, "root/proc/self/fd").c_str(), F_OK) == 0) {}

std::string FileInTarget::open(uint64_t descriptor) {
  if (!sees_proc_) {
    std::string path = open_visible();
    if (!path.empty()) return path;
  }
  fd_ = UniqueFd(
      ::open(proc_.path(pid_, "fd/" + std::to_string(descriptor)).c_str(), O_RDWR | O_CLOEXEC));
  return unique_path(descriptor);
}

// Its path as the process sees it; empty when no folder takes it.
std::string FileInTarget::open_visible() {
  constexpr std::array kFolders{"/dev/shm", "/run", "/tmp", "/var/tmp", "/"};
  constexpr mode_t kReadableByAll = 0755;
  std::random_device random;
  name_ = "." + std::to_string(random()) + "-" + file_.name;
  const UniqueFd root(::open(proc_.path(pid_, "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const char* const path : kFolders) {
    folder_ = open_folder(root.get(), path);
    if (!folder_) continue;
    fd_ = UniqueFd(::openat(folder_.get(), name_.c_str(),
                            O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kReadableByAll));
    if (!fd_) continue;
    ::fchmod(fd_.get(), kReadableByAll);
    return std::string(path) + "/" + name_;
  }
  folder_.reset();
  return {};
}

bool FileInTarget::fill() {
  size_t done = 0;
  while (fd_ && done < file_.bytes.size()) {
    const ssize_t count = ::pwrite(fd_.get(), file_.bytes.data() + done, file_.bytes.size() - done,
                                   static_cast<off_t>(done));
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  fd_.reset();
  return done == file_.bytes.size();
}

void FileInTarget::remove() noexcept {
  if (folder_) ::unlinkat(folder_.get(), name_.c_str(), 0);
  folder_.reset();
}

}  // namespace heapsnap
