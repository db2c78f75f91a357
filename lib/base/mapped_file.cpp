#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace heapsnap {

MappedFile MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not hang; fstat refuses it below.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    throw Error(ErrorKind::kBadInput, "cannot open " + path, errno_text(errno),
                "check the path and that you may read it");
  }
  return from_fd(std::move(fd), path);
}

MappedFile MappedFile::from_fd(UniqueFd fd, const std::string& name) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    throw Error(ErrorKind::kBadInput, "cannot read " + name, errno_text(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::kBadInput, "cannot read " + name, "not a regular file");
  }
  MappedFile file;
  if (status.st_size == 0) return file;
  const auto size = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    throw Error(ErrorKind::kBadInput, "cannot map " + name, errno_text(errno));
  }
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = size;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

MappedFile::~MappedFile() {
  unmap();
}

void MappedFile::unmap() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace heapsnap
