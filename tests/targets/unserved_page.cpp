// A target with a page in its heap that nobody fills: who reads it waits for a reader of a
// userfaultfd(2) that does not read.
//
//   unserved_page early   before it says "ready"
//   unserved_page late    when it is told to: it reads a line and says "done"
//
// Says "ready", or why there is no userfaultfd, gives back lines that it reads, and ends when its
// standard input does.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr uintptr_t kPage = 4096;
constexpr size_t kSize = 1000;

std::vector<char*> blocks;

bool leave_unserved(int fd) {
  uffdio_api api{};
  api.api = UFFD_API;
  if (ioctl(fd, UFFDIO_API, &api) != 0) return false;
  // The page with the header of a block in the middle.
  const uintptr_t page = reinterpret_cast<uintptr_t>(blocks[blocks.size() / 2]) & ~(kPage - 1);
  uffdio_register range{};
  range.range = {page, kPage};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  return madvise(reinterpret_cast<void*>(page), kPage, MADV_DONTNEED) == 0 &&
         ioctl(fd, UFFDIO_REGISTER, &range) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
  if (fd < 0) {
    std::printf("userfaultfd: %s\n", std::strerror(errno));
    return 0;
  }
  for (int i = 0; i < 4000; ++i) {
    blocks.push_back(static_cast<char*>(std::malloc(kSize)));
    std::memset(blocks.back(), 1, kSize);
  }
  static char line[64];
  static char output[4096];
  std::setvbuf(stdout, output, _IOFBF, sizeof output);
  static char input[4096];
  std::setvbuf(stdin, input, _IOFBF, sizeof input);
  if (std::strcmp(argv[1], "early") == 0 && !leave_unserved(fd)) {
    std::printf("userfaultfd: %s\n", std::strerror(errno));
    return 0;
  }
  std::puts("ready");
  std::fflush(stdout);
  bool is_late = std::strcmp(argv[1], "late") == 0;
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    if (is_late) leave_unserved(fd);
    is_late = false;
    std::fputs(line, stdout);
    std::fflush(stdout);
  }
  return 0;
}
