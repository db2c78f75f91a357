#include "platform/linux/freeze/spliced_memory.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/page.h"

namespace heapsnap {

namespace {

// The two ways cost the same for about this much: a system call of the child takes some 15 µs.
constexpr size_t kWorthSplicing = 128 << 10;
constexpr int kWantedCapacity = 1 << 20;  // what any user may ask for (pipe-max-size)

}  // namespace

SplicedMemory::SplicedMemory(const ProcFs& proc, SnapshotChild& child, OnTracer on_tracer)
    : direct_(proc, child.pid(), ProcessMemory::Way::kProcMem),
      child_(child),
      on_tracer_(std::move(on_tracer)) {
  if (const auto* const is_void = child.void_flag()) direct_.gone_when(*is_void);
  open_pipe(proc);
}

void SplicedMemory::open_pipe(const ProcFs& proc) {
  constexpr uint64_t kNothing = ~uint64_t{0};
  const uint64_t place = child_.put_bytes(&kNothing, sizeof kNothing);
  if (place == 0 || child_.call({SYS_pipe2, {place, O_CLOEXEC, 0, 0, 0, 0}}) != 0) return;
  const auto ends = child_.peek(place);
  if (!ends) return;
  child_end_ = static_cast<int>(*ends >> 32);
  const std::string end = "fd/" + std::to_string(static_cast<int>(*ends & 0xffffffff));
  UniqueFd pipe(::open(proc.path(child_.pid(), end).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!pipe || ::fcntl(pipe.get(), F_SETPIPE_SZ, kWantedCapacity) < kWantedCapacity) return;
  capacity_ = kWantedCapacity;
  pipe_ = std::move(pipe);
}

size_t SplicedMemory::read(Address from, std::span<std::byte> out) {
  size_t count = 0;
  if (pipe_ && out.size() >= kWorthSplicing) on_tracer_([&] { count = splice(from, out); });
  if (count < out.size()) count += direct_.read(from + count, out.subspan(count));
  return count;
}

size_t SplicedMemory::splice(Address from, std::span<std::byte> out) {
  size_t count = 0;
  while (pipe_ && !child_.is_void() && out.size() - count >= kWorthSplicing) {
    const Address at = from + count;
    const uint64_t room = capacity_ - at.value() % kPage;
    const auto piece = out.subspan(count, std::min<uint64_t>(room, out.size() - count));
    const iovec pages{reinterpret_cast<void*>(at.value()), piece.size()};
    const uint64_t place = child_.put_bytes(&pages, sizeof pages);
    if (place == 0) break;
    const auto got = child_.call(
        {SYS_vmsplice, {static_cast<uint64_t>(child_end_), place, 1, SPLICE_F_NONBLOCK, 0, 0}});
    if (!got || *got <= 0) break;  // a hole
    const auto size = static_cast<size_t>(*got);
    if (size > piece.size() || !drain_into(piece.first(size))) break;
    count += size;
  }
  return count;
}

// A failed read leaves the pipe in an unknown state: it is not used again.
bool SplicedMemory::drain_into(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::read(pipe_.get(), out.data(), out.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      pipe_.reset();
      return false;
    }
    out = out.subspan(static_cast<size_t>(got));
  }
  return true;
}

}  // namespace heapsnap
