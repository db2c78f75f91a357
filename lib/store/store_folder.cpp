#include "store/store_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/regular_file.h"
#include "snapshot/output_file.h"

namespace heapsnap {

namespace {

constexpr mode_t kFolderMode = 0750;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr const char* kReadAsAnother = "run it as a user who may read the store, or with sudo";
// Where the file system cannot tell whether somebody has a file open.
constexpr time_t kOldTemporarySeconds = 24 * 3600;

// The regular file `name` of `folder`, no link; closed, with errno, when it is none.
UniqueFd open_regular_below(int folder, const std::string& name) {
  UniqueFd file(::openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  return file ? reopen_regular(file) : UniqueFd();
}

bool is_left_over(const UniqueFd& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || status.st_uid != ::geteuid()) return false;
  // A write lease is had by who is the only one that has the file open.
  if (::fcntl(file.get(), F_SETLEASE, F_WRLCK) == 0) {
    ::fcntl(file.get(), F_SETLEASE, F_UNLCK);
    return true;
  }
  return errno != EAGAIN && ::time(nullptr) - status.st_mtime > kOldTemporarySeconds;
}

[[noreturn]] void cannot_list(int error_number) {
  throw Error(ErrorKind::kBadInput, "cannot list a folder of the store", errno_text(error_number),
              "look at the kernel log (dmesg), and at the limit of open files: ulimit -n");
}

}  // namespace

UniqueFd open_store(const std::string& path) {
  UniqueFd store(::open(path.c_str(), kFolderFlags));
  if (!store) {
    throw Error(ErrorKind::kOutput, "cannot open the store " + path, errno_text(errno),
                errno == ENOENT   ? "it is made by the first heapsnap collect"
                : errno == EACCES ? kReadAsAnother
                                  : output_remedy(errno));
  }
  return store;
}

UniqueFd make_store(const std::string& path) {
  if (::mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    throw Error(ErrorKind::kOutput, "cannot make the store " + path, errno_text(errno),
                output_remedy(errno));
  }
  return open_store(path);
}

UniqueFd open_folder(int parent, const std::string& name) {
  return UniqueFd(::openat(parent, name.c_str(), kFolderFlags | O_NOFOLLOW));
}

UniqueFd open_folder_if_any(int parent, const std::string& name, const std::string& path) {
  UniqueFd folder = open_folder(parent, name);
  if (folder || errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return folder;
  throw Error(ErrorKind::kBadInput, "cannot open the folder " + path, errno_text(errno),
              kReadAsAnother);
}

UniqueFd make_folder(int parent, const std::string& name, const std::string& path) {
  if (::mkdirat(parent, name.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    throw Error(ErrorKind::kOutput, "cannot make the folder " + path, errno_text(errno),
                output_remedy(errno));
  }
  UniqueFd folder = open_folder(parent, name);
  if (folder) return folder;
  const bool is_none = errno == ELOOP || errno == ENOTDIR;
  throw Error(ErrorKind::kOutput, "cannot write to " + path,
              is_none ? "it is a symbolic link or a file, not a folder" : errno_text(errno),
              is_none ? "remove it: collect makes the folder by itself" : output_remedy(errno));
}

std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  UniqueFd again(::openat(folder, ".", kFolderFlags));
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(again ? ::fdopendir(again.get()) : nullptr,
                                                    ::closedir);
  if (listing == nullptr) cannot_list(errno);
  again.release();  // closedir() closes it
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(listing.get());
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  if (errno != 0) cannot_list(errno);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<SnapshotName> snapshot_names_in(int folder) {
  std::vector<SnapshotName> names;
  for (const std::string& text : names_in(folder)) {
    if (const auto name = parse_snapshot_name(text)) names.push_back(*name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

StoredSnapshot read_stored_snapshot(int folder, const SnapshotName& name, const std::string& path) {
  UniqueFd file = open_regular_below(folder, to_text(name));
  if (!file) {
    const int why = errno;
    if (why == EACCES) {
      throw Error(ErrorKind::kNotPermitted, "cannot read " + path, errno_text(why), kReadAsAnother);
    }
    throw Error(ErrorKind::kBadInput, "cannot read " + path,
                why == EINVAL ? "it is no regular file" : errno_text(why));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw Error(ErrorKind::kBadInput, "cannot read " + path, errno_text(errno));
  }
  StoredSnapshot snapshot{
      name, static_cast<uint64_t>(status.st_size), status.st_dev, status.st_ino, {}};
  snapshot.facts = read_snapshot_facts(MappedFile::from_fd(std::move(file), path), path);
  return snapshot;
}

std::string why_foreign(const StoredSnapshot& snapshot, const std::string& place) {
  if (!snapshot.facts.collection) return "it was not taken by heapsnap collect";
  if (snapshot.facts.collection->place != place) {
    return "heapsnap collect wrote it as " + snapshot.facts.collection->place;
  }
  if (snapshot.facts.process.pid != snapshot.name.pid) return "its name has another pid";
  return {};
}

std::string remove_snapshot(int folder, const StoredSnapshot& snapshot) {
  const std::string name = to_text(snapshot.name);
  struct stat status {};
  if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? std::string() : errno_text(errno);
  }
  if (status.st_dev != snapshot.device || status.st_ino != snapshot.inode) {
    return "it was replaced since it was read";
  }
  if (::unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT) return errno_text(errno);
  return {};
}

size_t remove_left_temporaries(int folder) {
  size_t count = 0;
  for (const std::string& name : names_in(folder)) {
    if (!is_temporary_name(name)) continue;
    const UniqueFd file = open_regular_below(folder, name);
    if (file && is_left_over(file) && ::unlinkat(folder, name.c_str(), 0) == 0) ++count;
  }
  return count;
}

}  // namespace heapsnap
