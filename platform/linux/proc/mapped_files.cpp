#include "platform/linux/proc/mapped_files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>

#include "base/regular_file.h"
#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

namespace {

#ifndef BTRFS_SUPER_MAGIC
constexpr long BTRFS_SUPER_MAGIC = 0x9123683E;
#endif

bool is_mapped_file(int fd, const Mapping& mapping) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || status.st_ino != mapping.inode) return false;
  if (major(status.st_dev) == mapping.device_major &&
      minor(status.st_dev) == mapping.device_minor) {
    return true;
  }
  // maps shows the underlying file system's device, stat() the subvolume's or the overlay's.
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
  // The range may have been remapped since the mapping was read.
  return file && is_mapped_file(file.get(), mapping) ? std::move(file) : UniqueFd();
}

UniqueFd MappedFiles::open_path(const std::string& path) const {
  if (!path.starts_with('/')) return UniqueFd();
  const UniqueFd root(::open(proc_.path(pid_, "root").c_str(), O_PATH | O_CLOEXEC | O_DIRECTORY));
  if (!root) return UniqueFd();
  return reopen_regular(find_in_root(root.get(), path));
}

UniqueFd MappedFiles::open_by_path(const Mapping& mapping) const {
  if (mapping.deleted) return UniqueFd();
  const auto open_if_mapped = [&](const std::string& path) {
    UniqueFd file = open_path(path);
    return file && is_mapped_file(file.get(), mapping) ? std::move(file) : UniqueFd();
  };
  if (UniqueFd file = open_if_mapped(mapping.path)) return file;
  // After chroot(2), maps has the path from the root folder of the mount namespace.
  const std::string root = link_target_or_empty(proc_.path(pid_, "root"));
  if (root.size() <= 1 || !mapping.path.starts_with(root + "/")) return UniqueFd();
  return open_if_mapped(mapping.path.substr(root.size()));
}

}  // namespace heapsnap
