#include "platform/linux/trace/tracee_memory.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "platform/linux/proc/blocking_call.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

TraceeMemory::TraceeMemory(const Tracee& thread) : tid_(thread.tid()) {
  const std::string path = ProcFs().path(tid_, "mem");
  mem_.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!mem_ && errno == EACCES) {
    pokes_ = true;
    mem_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (!thread.is_still_stopped()) mem_.reset();
}

size_t TraceeMemory::read(Address from, std::span<std::byte> out) {
  size_t count = 0;
  while (mem_ && count < out.size()) {
    const BlockingCall call("reading the memory of a thread");
    const ssize_t got = ::pread(mem_.get(), out.data() + count, out.size() - count,
                                static_cast<off_t>((from + count).value()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    count += static_cast<size_t>(got);
  }
  return count;
}

bool TraceeMemory::write(Address to, std::span<const std::byte> bytes) {
  if (pokes_) return poke(to, bytes);
  size_t count = 0;
  while (mem_ && count < bytes.size()) {
    const BlockingCall call("writing to the stack of a thread");
    const ssize_t put = ::pwrite(mem_.get(), bytes.data() + count, bytes.size() - count,
                                 static_cast<off_t>((to + count).value()));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    count += static_cast<size_t>(put);
  }
  return count == bytes.size();
}

bool TraceeMemory::poke(Address to, std::span<const std::byte> bytes) {
  std::array<std::byte, sizeof(long)> word;
  for (size_t done = 0; done < bytes.size(); done += word.size()) {
    // If nothing can be read here, the program whose memory was opened is gone.
    if (read(to + done, word) != word.size()) return false;
    std::memcpy(word.data(), bytes.data() + done, std::min(word.size(), bytes.size() - done));
    if (::ptrace(PTRACE_POKEDATA, tid_, (to + done).value(), std::bit_cast<long>(word)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace heapsnap
