// A page of memory that is not there until somebody serves it, by userfaultfd(2).
#pragma once

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace heapsnap::live {

class ServedPage {
 public:
  ServedPage() : fd_(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC))) {
    if (fd_ < 0) return;
    uffdio_api api{};
    api.api = UFFD_API;
    page_ = static_cast<char*>(
        ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    uffdio_register range{};
    range.range = {reinterpret_cast<uint64_t>(page_), kPageSize};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    is_ready_ = page_ != MAP_FAILED && ::ioctl(fd_, UFFDIO_API, &api) == 0 &&
                ::ioctl(fd_, UFFDIO_REGISTER, &range) == 0;
  }
  ServedPage(const ServedPage&) = delete;
  ServedPage& operator=(const ServedPage&) = delete;
  ~ServedPage() = default;  // with its process

  bool is_ready() const { return is_ready_; }
  // By a system call: waits for serve().
  bool fill_by_read() const {
    const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    return ::read(zeros, page_ + 8, 8) == 8 && page_[0] == 'x';
  }
  bool await_fault() const {
    uffd_msg message{};
    return ::read(fd_, &message, sizeof message) == sizeof message;
  }
  bool serve() const {
    alignas(kPageSize) static std::array<char, kPageSize> contents;
    contents.fill('x');
    uffdio_copy copy{};
    copy.dst = reinterpret_cast<uint64_t>(page_);
    copy.src = reinterpret_cast<uint64_t>(contents.data());
    copy.len = kPageSize;
    return ::ioctl(fd_, UFFDIO_COPY, &copy) == 0;
  }

 private:
  static constexpr size_t kPageSize = 4096;

  int fd_;
  char* page_ = nullptr;
  bool is_ready_ = false;
};

}  // namespace heapsnap::live
