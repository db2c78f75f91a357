#include "platform/linux/mapped_files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>

namespace heapsnap {

namespace {

#ifndef BTRFS_SUPER_MAGIC
constexpr long BTRFS_SUPER_MAGIC = 0x9123683E;
#endif

// A path that stays inside `root`, also where a symbolic link is absolute. Kernels before 5.6 have
// no openat2; there the caller's check of device and inode alone decides.
UniqueFd open_inside(int root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  const size_t name = path.find_first_not_of('/');
  if (name == std::string::npos) return UniqueFd();
  return UniqueFd(::openat(root, path.c_str() + name, O_PATH | O_CLOEXEC));
}

// An O_PATH descriptor becomes a readable one. Only of a regular file: opening anything else may
// block or act.
UniqueFd reopen_regular(const UniqueFd& file) {
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return UniqueFd();
  const std::string self = "/proc/self/fd/" + std::to_string(file.get());
  return UniqueFd(::open(self.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
}

bool is_mapped_file(int fd, const Mapping& mapping) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || status.st_ino != mapping.inode) return false;
  if (major(status.st_dev) == mapping.device_major &&
      minor(status.st_dev) == mapping.device_minor) {
    return true;
  }
  // maps shows the device of the file system below, stat() one of the subvolume or the overlay.
  struct statfs file_system {};
  return ::fstatfs(fd, &file_system) == 0 &&
         (file_system.f_type == BTRFS_SUPER_MAGIC || file_system.f_type == OVERLAYFS_SUPER_MAGIC);
}

}  // namespace

UniqueFd MappedFiles::open(const Mapping& mapping) const {
  if (mapping.inode == 0 || mapping.is_anonymous_hugetlb()) return UniqueFd();
  if (UniqueFd file = open_by_range(mapping)) return file;
  return open_by_path(mapping);
}

UniqueFd MappedFiles::open_by_range(const Mapping& mapping) const {
  char range[64];
  std::snprintf(range, sizeof range, "map_files/%" PRIx64 "-%" PRIx64, mapping.range.begin.value(),
                mapping.range.end.value());
  const UniqueFd link(::open(proc_.path(pid_, range).c_str(), O_PATH | O_CLOEXEC));
  UniqueFd file = reopen_regular(link);
  // The range may have been mapped anew since the mapping was read.
  return file && is_mapped_file(file.get(), mapping) ? std::move(file) : UniqueFd();
}

UniqueFd MappedFiles::open_path(const std::string& path) const {
  if (!path.starts_with('/')) return UniqueFd();
  const UniqueFd root(::open(proc_.path(pid_, "root").c_str(), O_PATH | O_CLOEXEC | O_DIRECTORY));
  if (!root) return UniqueFd();
  return reopen_regular(open_inside(root.get(), path));
}

UniqueFd MappedFiles::open_by_path(const Mapping& mapping) const {
  if (mapping.deleted) return UniqueFd();
  UniqueFd file = open_path(mapping.path);
  return file && is_mapped_file(file.get(), mapping) ? std::move(file) : UniqueFd();
}

}  // namespace heapsnap
