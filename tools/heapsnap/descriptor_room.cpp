#include "tools/heapsnap/descriptor_room.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace heapsnap {

namespace {

constexpr size_t kNeeded = 64;
constexpr rlim_t kAdvised = 256;

std::string remedy_for(int error_number) {
  if (error_number != EMFILE) return "see fs.file-max and fs.file-nr of sysctl(8), and try again";
  rlimit limit{};
  const std::string number = std::to_string(kAdvised);
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < kAdvised) {
    return "sudo prlimit --pid $$ --nofile=" + number;
  }
  return "ulimit -n " + number;
}

}  // namespace

void require_descriptor_room() {
  std::vector<UniqueFd> files;
  files.reserve(kNeeded);
  while (files.size() < kNeeded) {
    files.emplace_back(::open("/", O_PATH | O_CLOEXEC));
    if (files.back()) continue;
    const int refusal = errno;
    throw Error(ErrorKind::kNotPermitted,
                "heapsnap cannot open the " + std::to_string(kNeeded) + " files that it needs",
                "after opening " + std::to_string(files.size() - 1) + ": " + errno_text(refusal),
                remedy_for(refusal));
  }
}

void take_standard_descriptors() noexcept {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // The lowest that is free. Closed again in a program that is executed.
    if (::open("/", O_PATH | O_CLOEXEC) != descriptor) return;
  }
}

}  // namespace heapsnap
