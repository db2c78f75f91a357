#include "platform/linux/proc/process_memory.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "platform/linux/proc/blocking_call.h"
#include "platform/linux/proc/target_refusal.h"

namespace heapsnap {

namespace {

// Per call, so that each returns soon even if the pages are in swap.
constexpr size_t kLargestTransfer = size_t{2} << 20;
constexpr const char* kCall = "reading the memory of the process";

}  // namespace

ProcessMemory::ProcessMemory(const ProcFs& proc, int pid, Way way)
    : pid_(pid), way_(way), mem_(::open(proc.path(pid, "mem").c_str(), O_RDONLY | O_CLOEXEC)) {
  if (!mem_) {
    throw TargetRefusal(pid, errno);
  }
}

size_t ProcessMemory::read(Address from, std::span<std::byte> out) {
  size_t count = 0;
  while (count < out.size()) {
    if (is_void_ != nullptr && *is_void_) fail_gone();
    const auto piece = out.subspan(count, std::min(out.size() - count, kLargestTransfer));
    // Wraps only past the top of the address space, where nothing is readable.
    const size_t got = way_ == Way::kVmReadv ? read_by_vm_readv(from + count, piece)
                                             : read_by_proc_mem(from + count, piece);
    count += got;
    if (got < piece.size()) break;
  }
  return count;
}

size_t ProcessMemory::read_by_vm_readv(Address from, std::span<std::byte> out) {
  size_t count = 0;
  while (count < out.size()) {
    const iovec local{out.data() + count, out.size() - count};
    const iovec remote{reinterpret_cast<void*>((from + count).value()), out.size() - count};
    const ssize_t got = [&] {
      const BlockingCall call(kCall);
      return ::process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    }();
    if (got > 0) {
      count += static_cast<size_t>(got);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ESRCH) fail_gone();
    if (got < 0 && (errno == EPERM || errno == ENOSYS)) {
      way_ = Way::kProcMem;
      return count + read_by_proc_mem(from + count, out.subspan(count));
    }
    // EFAULT: the first remaining byte cannot be read, or its page is protected (PROT_NONE).
    return count + read_by_proc_mem(from + count, out.subspan(count));
  }
  return count;
}

size_t ProcessMemory::read_by_proc_mem(Address from, std::span<std::byte> out) {
  size_t count = 0;
  while (count < out.size()) {
    // The offset is the address; to pread, addresses from 2^63 up (vsyscall) are negative.
    const auto offset = static_cast<off_t>((from + count).value());
    if (offset < 0) break;
    const ssize_t got = [&] {
      const BlockingCall call(kCall);
      return ::pread(mem_.get(), out.data() + count, out.size() - count, offset);
    }();
    if (got > 0) {
      count += static_cast<size_t>(got);
      continue;
    }
    if (got == 0) fail_gone();  // mem_read() of fs/proc/base.c: the mm has no users left
    if (errno == EINTR) continue;
    break;  // EIO: the first remaining byte cannot be read
  }
  return count;
}

void ProcessMemory::fail_gone() const {
  throw Error(ErrorKind::kNoProcess, "process " + std::to_string(pid_) + " is gone",
              "it ended or executed another program while it was read", kFindSuccessor);
}

}  // namespace heapsnap
