#include "platform/linux/proc/memory_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "platform/linux/proc/target_refusal.h"

namespace heapsnap {

MemoryWriter::MemoryWriter(const ProcFs& proc, int pid)
    // A leader that has exited has no memory, even while other threads are alive.
    : mem_(::open(proc.path(proc.live_tid(pid).value_or(pid), "mem").c_str(), O_RDWR | O_CLOEXEC)) {
  if (!mem_) {
    throw TargetRefusal(pid, errno);
  }
}

bool MemoryWriter::write(Address to, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pwrite(mem_.get(), bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>((to + done).value()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace heapsnap
