#include "base/mapped_file.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/regular_file.h"
#include "base/resource_limit.h"

namespace heapsnap {

namespace {

[[noreturn]] void refuse(const std::string& path, int error_number) {
  if (error_number == EINVAL) {
    throw Error(ErrorKind::kBadInput, "cannot read " + path, "not a regular file",
                "give the path of a file");
  }
  throw Error(ErrorKind::kBadInput, "cannot open " + path, errno_text(error_number),
              "check the path and that you may read it");
}

}  // namespace

MappedFile MappedFile::open(const std::string& path) {
  UniqueFd fd = open_regular(path);
  if (!fd) refuse(path, errno);
  return from_fd(std::move(fd), path);
}

MappedFile MappedFile::open_in(const std::string& root, const std::string& path) {
  UniqueFd fd = open_regular_in(root, path);
  if (!fd) refuse(root + path, errno);
  return from_fd(std::move(fd), root + path);
}

MappedFile MappedFile::from_fd(UniqueFd fd, const std::string& name) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    throw Error(ErrorKind::kBadInput, "cannot read " + name, errno_text(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::kBadInput, "cannot read " + name, "not a regular file",
                "give the path of a file");
  }
  MappedFile file;
  if (status.st_size == 0) return file;
  const auto size = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    const int refusal = errno;
    // Our own limit, and no fault of the file's, which those who can do without it pass over.
    if (refusal == ENOMEM && resource_limit(RLIMIT_AS)) throw std::bad_alloc();
    throw Error(ErrorKind::kBadInput, "cannot map " + name, errno_text(refusal));
  }
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = size;
  file.watched_ = watch_range(data, size, name);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      watched_(std::exchange(other.watched_, nullptr)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    watched_ = std::exchange(other.watched_, nullptr);
  }
  return *this;
}

MappedFile::~MappedFile() {
  unmap();
}

void MappedFile::unmap() noexcept {
  if (watched_ != nullptr) forget_range(watched_);
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::check_whole(const std::string& name) const {
  if (watched_ == nullptr || !has_lost_pages(*watched_)) return;
  throw Error(ErrorKind::kBadInput, "cannot read " + name,
              "it was truncated or its disk failed while it was being read",
              "try again when nothing writes to it, or copy it first");
}

}  // namespace heapsnap
