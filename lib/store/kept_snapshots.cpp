#include "store/kept_snapshots.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "snapshot/output_file.h"

namespace heapsnap {

KeptSnapshots::KeptSnapshots(const std::string& folder, uint64_t count)
    : path_(folder), count_(count) {
  folder_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_ || ::faccessat(folder_.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    throw Error(ErrorKind::kOutput, "cannot write snapshots to " + folder, errno_text(errno),
                output_remedy(errno));
  }
}

KeptSnapshots::WrittenFile KeptSnapshots::look_at(const std::string& name) const {
  struct stat status {};
  if (::fstatat(folder_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return {name};
  return {name,           status.st_dev,         status.st_ino,
          status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

std::vector<std::string> KeptSnapshots::add(const std::string& name) {
  std::vector<std::string> left;
  if (count_ == 0) return left;
  files_.push_back(look_at(name));
  while (files_.size() > count_) {
    std::string why = remove(files_.front());
    if (!why.empty())
      left.push_back(path_ + "/" + files_.front().name + " was not removed: " + why);
    files_.pop_front();
  }
  return left;
}

std::string KeptSnapshots::remove(const WrittenFile& file) const {
  errno = 0;
  const WrittenFile now = look_at(file.name);
  if (errno == ENOENT) return {};
  if (errno != 0) return errno_text(errno);
  if (file.inode == 0 || !(now == file)) return "it was changed or replaced since it was written";
  if (::unlinkat(folder_.get(), file.name.c_str(), 0) != 0 && errno != ENOENT) {
    return errno_text(errno);
  }
  return {};
}

}  // namespace heapsnap
