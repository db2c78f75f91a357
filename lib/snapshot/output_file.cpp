#include "snapshot/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include "base/alteration.h"
#include "base/error.h"
#include "base/resource_limit.h"
#include "snapshot/write_signals.h"

namespace heapsnap {
namespace {

constexpr size_t kBufferSize = 1U << 20;
constexpr std::string_view kTemporaryBegin = ".heapsnap-";
constexpr std::string_view kTemporaryEnd = ".tmp";
constexpr size_t kTemporaryDigits = 16;

std::string random_name() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    number = static_cast<uint64_t>(::getpid());
  }
  char digits[kTemporaryDigits + 1];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return std::string(kTemporaryBegin) + digits + std::string(kTemporaryEnd);
}

// The file is reached through its descriptor, so no name is looked up twice. AT_EMPTY_PATH needs
// CAP_DAC_READ_SEARCH, /proc/self/fd needs a mounted /proc.
int link_descriptor(int fd, int directory, const char* name) {
  if (::linkat(fd, "", directory, name, AT_EMPTY_PATH) == 0) return 0;
  if (errno == EEXIST) return -1;
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return ::linkat(AT_FDCWD, link.c_str(), directory, name, AT_SYMLINK_FOLLOW);
}

}  // namespace

bool is_temporary_name(std::string_view name) {
  if (name.size() != kTemporaryBegin.size() + kTemporaryDigits + kTemporaryEnd.size()) return false;
  if (!name.starts_with(kTemporaryBegin) || !name.ends_with(kTemporaryEnd)) return false;
  return name.substr(kTemporaryBegin.size(), kTemporaryDigits)
             .find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string output_remedy(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return "free some space there or write to another file system";
    case EFBIG: return how_to_raise_limit(RLIMIT_FSIZE);
    case EPIPE: return "the program reading the pipe exited: look at its messages";
    case EIO: return "look at the kernel log (dmesg) and write to another device";
    case EACCES:
    case EPERM:
    case EROFS: return "choose a folder that you may write to";
    case ENOENT: return "create the folder first";
    case ENOTDIR: return "a part of the path is a file: name a folder";
    default: return "choose another place for the file";
  }
}

OutputFile::OutputFile(const std::string& path, bool overwrite, Temporary temporary, int folder,
                       int file)
    : path_(path == "-" ? "standard output" : path), overwrite_(overwrite) {
  buffer_.reserve(kBufferSize);
  if (path == "-") {
    if (::isatty(STDOUT_FILENO) == 1) {
      throw Error(ErrorKind::kUsage, "cannot write a snapshot to standard output",
                  "it is a terminal, and a snapshot is binary",
                  "redirect it to a file or a pipe, or give a file name");
    }
    fd_.reset(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    struct stat status {};
    if (!fd_ || ::fstat(fd_.get(), &status) != 0) fail(errno);
    if (S_ISSOCK(status.st_mode)) kind_ = Kind::kSocket;
    if (S_ISFIFO(status.st_mode)) open_pipe();
    return;
  }
  if (file >= 0) {
    open_given(file);
    return;
  }
  const size_t slash = path.rfind('/');
  name_ = slash == std::string::npos ? path : path.substr(slash + 1);
  directory_ = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (name_.empty() || name_ == "." || name_ == "..") {
    throw Error(ErrorKind::kUsage, "cannot write to '" + path + "'", "that is not a file name",
                "give a file name");
  }
  directory_fd_.reset(folder < 0 ? ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                 : ::fcntl(folder, F_DUPFD_CLOEXEC, 3));
  if (!directory_fd_) fail(errno);
  // The path may lead elsewhere by now.
  if (folder >= 0) directory_ = "/proc/self/fd/" + std::to_string(directory_fd_.get());
  struct stat status {};
  if (::fstatat(directory_fd_.get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISLNK(status.st_mode)) {
      throw Error(ErrorKind::kUsage, "cannot write to " + path,
                  "it is a symbolic link, and heapsnap never writes through one",
                  "give the file itself, or remove the link");
    }
    if (!S_ISREG(status.st_mode)) {
      throw Error(ErrorKind::kUsage, "cannot write to " + path, "it is not a regular file",
                  "give a file name, or use - for standard output");
    }
    if (!overwrite_) refuse_existing();
  } else if (errno != ENOENT) {
    fail(errno);
  }
  open_temporary(temporary);
}

OutputFile::~OutputFile() {
  if (!temporary_name_.empty()) ::unlinkat(directory_fd_.get(), temporary_name_.c_str(), 0);
}

void OutputFile::open_given(int file) {
  directory_ = path_;
  path_ = "a file in " + directory_;
  fd_.reset(::fcntl(file, F_DUPFD_CLOEXEC, 3));
  if (!fd_ || ::ftruncate(fd_.get(), 0) != 0 || ::lseek(fd_.get(), 0, SEEK_SET) != 0) fail(errno);
}

void OutputFile::open_temporary(Temporary kind) {
  // Without /proc a file that has no name could not be given one (see link_descriptor).
  if (kind == Temporary::kUnnamedIfPossible && ::access("/proc/self/fd", X_OK) == 0) {
    fd_.reset(::openat(directory_fd_.get(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    // EOPNOTSUPP: the file system cannot; EISDIR: a kernel before 3.11 opened the folder instead.
    if (!fd_ && errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) fail(errno);
  }
  if (!fd_) {
    alteration_.emplace();
    const std::string name = random_name();
    fd_.reset(::openat(directory_fd_.get(), name.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd_) fail(errno);
    temporary_name_ = name;
  }
  if (::fchmod(fd_.get(), 0600) != 0) fail(errno);
}

void OutputFile::let_everyone_read() {
  if (::fchmod(fd_.get(), 0644) != 0) fail(errno);
}

void OutputFile::append(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferSize) flush();
  if (bytes.size() >= kBufferSize) {
    write_all(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void OutputFile::flush() {
  write_all(buffer_);
  buffer_.clear();
}

// Once more, so that it does not block, and who else has it does not notice.
void OutputFile::open_pipe() {
  if ((::fcntl(fd_.get(), F_GETFL) & O_ACCMODE) == O_RDONLY) return;  // write(2) will tell
  const std::string link = "/proc/self/fd/" + std::to_string(fd_.get());
  UniqueFd pipe(::open(link.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  kind_ = pipe ? Kind::kPipe : Kind::kBlockingPipe;
  if (pipe) fd_ = std::move(pipe);
}

void OutputFile::wait_for_reader() const {
  constexpr int kBetweenLooksMs = 50;
  pollfd output{fd_.get(), POLLOUT, 0};
  for (;;) {
    const int ready = ::poll(&output, 1, kBetweenLooksMs);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;  // what is wrong, write(2) tells
    check_end();
  }
}

// Does not wait for a reader: the signal that asks heapsnap to end may interrupt another thread.
ssize_t OutputFile::write_some(std::span<const std::byte> bytes) const {
  switch (kind_) {
    case Kind::kSocket: return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    case Kind::kBlockingPipe:
      // For so much there is room then, unless others write there, too (pipe(7)).
      wait_for_reader();
      return ::write(fd_.get(), bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    default: return ::write(fd_.get(), bytes.data(), bytes.size());
  }
}

void OutputFile::write_all(std::span<const std::byte> bytes) {
  const WriteSignalsHeld held;
  while (!bytes.empty()) {
    const ssize_t written = write_some(bytes);
    if (written < 0 && errno == EAGAIN && kind_ != Kind::kOther) {
      wait_for_reader();
      continue;
    }
    if (written < 0 && errno == EINTR) {
      check_end();
      continue;
    }
    if (written < 0) fail(errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void OutputFile::commit() {
  flush();
  // Pipes and sockets cannot be synced (EINVAL); everything else must be.
  if (::fsync(fd_.get()) != 0 && !(name_.empty() && (errno == EINVAL || errno == EROFS))) {
    fail(errno);
  }
  if (name_.empty()) return;
  if (overwrite_) {
    publish_over();
  } else {
    publish_new();
  }
  // The file is complete and has its name; a folder that cannot be synced changes neither.
  ::fsync(directory_fd_.get());
}

void OutputFile::publish_new() {
  if (temporary_name_.empty()) {
    link_to(name_);
    return;
  }
  const int directory = directory_fd_.get();
  if (::renameat2(directory, temporary_name_.c_str(), directory, name_.c_str(), RENAME_NOREPLACE) ==
      0) {
    temporary_name_.clear();
    return;
  }
  if (errno == EEXIST) refuse_existing();
  // Not every file system knows RENAME_NOREPLACE (NFS, 9p: EINVAL); a hard link does not replace
  // either. The destructor takes the temporary name away.
  if (::linkat(directory, temporary_name_.c_str(), directory, name_.c_str(), 0) == 0) return;
  if (errno == EEXIST) refuse_existing();
  fail(errno);
}

void OutputFile::publish_over() {
  if (temporary_name_.empty()) {
    alteration_.emplace();
    const std::string name = random_name();
    link_to(name);
    temporary_name_ = name;
  }
  const int directory = directory_fd_.get();
  // rename(2) replaces a symlink that came into being meanwhile, it does not follow it.
  if (::renameat(directory, temporary_name_.c_str(), directory, name_.c_str()) != 0) fail(errno);
  temporary_name_.clear();
}

void OutputFile::link_to(const std::string& name) {
  if (link_descriptor(fd_.get(), directory_fd_.get(), name.c_str()) == 0) return;
  if (errno == EEXIST) refuse_existing();
  fail(errno);
}

void OutputFile::fail(int error_number) const {
  throw Error(ErrorKind::kOutput, "cannot write " + path_, errno_text(error_number),
              output_remedy(error_number));
}

void OutputFile::refuse_existing() const {
  throw Error(ErrorKind::kUsage, "cannot write to " + path_, "the file already exists",
              "choose another name, or pass -f to replace it");
}

}  // namespace heapsnap
