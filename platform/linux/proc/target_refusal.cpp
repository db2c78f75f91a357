#include "platform/linux/proc/target_refusal.h"

#include <cerrno>

namespace heapsnap {

namespace {

bool is_gone(int error_number) {
  return error_number == ESRCH || error_number == ENOENT;
}

}  // namespace

TargetRefusal::TargetRefusal(int pid, int error_number)
    : Error(is_gone(error_number) ? ErrorKind::kNoProcess : ErrorKind::kNotPermitted,
            "cannot attach to process " + std::to_string(pid),
            is_gone(error_number) ? "it has ended"
                                  : "the kernel refused: " + errno_text(error_number)),
      pid_(pid),
      error_number_(error_number) {}

}  // namespace heapsnap
