#include "tools/tracker_image/tracker_image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

// HEAPSNAP_TRACKER_FILE is the path of the library where it was built.
asm(R"(
        .pushsection .rodata
        .balign 16
        .globl kTrackerImageBegin
        .globl kTrackerImageEnd
kTrackerImageBegin:
        .incbin ")" HEAPSNAP_TRACKER_FILE R"("
kTrackerImageEnd:
        .byte 0
        .popsection
)");
extern "C" const std::byte kTrackerImageBegin[];
extern "C" const std::byte kTrackerImageEnd[];

namespace heapsnap {

namespace {

constexpr unsigned kExecutable = 0x10;  // MFD_EXEC of Linux 6.3; older kernels refuse it

}  // namespace

std::span<const std::byte> tracker_image() {
  return {kTrackerImageBegin, kTrackerImageEnd};
}

UniqueFd open_tracker_image() {
  constexpr const char* kName = "heapsnap_tracker";
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd file(::memfd_create(kName, kFlags | kExecutable));
  if (!file && errno == EINVAL) file.reset(::memfd_create(kName, kFlags));
  const auto fail = [] {
    throw Error(ErrorKind::kOutput, "cannot make room for the tracker's library",
                errno_text(errno));
  };
  if (!file) fail();
  for (auto rest = tracker_image(); !rest.empty();) {
    const ssize_t written = ::write(file.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail();
    rest = rest.subspan(static_cast<size_t>(written));
  }
  ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  return file;
}

}  // namespace heapsnap
