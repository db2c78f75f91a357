#include "base/regular_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

namespace heapsnap {

namespace {

constexpr int kReading = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// Puts the components of `path` before those that are left; the next one is the last of `left`.
void push_components(const std::string& path, std::vector<std::string>& left) {
  for (size_t end = path.size(); end > 0;) {
    const size_t slash = path.rfind('/', end - 1);
    const size_t begin = slash == std::string::npos ? 0 : slash + 1;
    if (begin < end) left.push_back(path.substr(begin, end - begin));
    end = slash == std::string::npos ? 0 : slash;
  }
}

std::string link_target(int link) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlinkat(link, "", target.data(), target.size());
  return length < 0 ? std::string() : std::string(target.data(), static_cast<size_t>(length));
}

// What openat2(RESOLVE_IN_ROOT) does, a component at a time, for kernels before 5.6.
UniqueFd walk_in_root(int root, const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel
  constexpr size_t kMostComponents = PATH_MAX;
  int links = 0;
  std::vector<std::string> left;
  push_components(path, left);
  std::vector<UniqueFd> at;  // the folders from below the root to where we are
  while (!left.empty()) {
    const std::string name = std::move(left.back());
    left.pop_back();
    if (name == ".") continue;
    if (name == "..") {
      if (!at.empty()) at.pop_back();
      continue;
    }
    const int folder = at.empty() ? root : at.back().get();
    UniqueFd next(::openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!next || ::fstat(next.get(), &status) != 0) return UniqueFd();
    if (!S_ISLNK(status.st_mode)) {
      at.push_back(std::move(next));
      continue;
    }
    const std::string target = link_target(next.get());
    if (++links > kMostLinks || target.empty() || left.size() > kMostComponents) {
      errno = ELOOP;
      return UniqueFd();
    }
    if (target.front() == '/') at.clear();
    push_components(target, left);
  }
  if (!at.empty()) return std::move(at.back());
  return UniqueFd(::fcntl(root, F_DUPFD_CLOEXEC, 0));
}

bool is_same_file(const UniqueFd& one, const UniqueFd& other) {
  struct stat a {};
  struct stat b {};
  return ::fstat(one.get(), &a) == 0 && ::fstat(other.get(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace

UniqueFd reopen_regular(const UniqueFd& file) {
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return UniqueFd();
  if (!S_ISREG(status.st_mode)) {
    errno = EINVAL;
    return UniqueFd();
  }
  return UniqueFd(::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), kReading));
}

UniqueFd open_regular(const std::string& path) {
  const UniqueFd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  UniqueFd file = reopen_regular(found);
  if (file || !found || errno != ENOENT) return file;
  // There is no /proc here, as in a bare root folder.
  file = UniqueFd(::open(path.c_str(), kReading));
  return file && is_same_file(found, file) ? std::move(file) : UniqueFd();
}

UniqueFd find_in_root(int root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  // EPERM: a seccomp filter that does not know the call.
  return errno == ENOSYS || errno == EPERM ? walk_in_root(root, path) : UniqueFd();
}

UniqueFd open_regular_in(const std::string& root, const std::string& path) {
  if (root.empty() || root == "/") return open_regular(path);
  const UniqueFd folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return folder ? reopen_regular(find_in_root(folder.get(), path)) : UniqueFd();
}

}  // namespace heapsnap
