#include "platform/linux/freeze/child_code.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/page.h"
#include "platform/linux/proc/blocking_call.h"

namespace heapsnap {

namespace {

constexpr uint64_t kStackSize = 16 << 10;
constexpr uint64_t kMostRoom = 1 << 30;

}  // namespace

bool ChildCode::map(const PortableCode& code, uint64_t code_size, uint64_t size) {
  const auto mapped = child_.call(
      {SYS_mmap, {0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0}});
  constexpr long kLastError = -4095;
  if (!mapped || (*mapped < 0 && *mapped >= kLastError)) return false;
  base_ = static_cast<uint64_t>(*mapped);
  end_ = base_ + size;
  return child_.write(base_, code.bytes) &&
         child_.call({SYS_mprotect, {base_, code_size, PROT_READ | PROT_EXEC, 0, 0, 0}}) == 0;
}

Address ChildCode::load(const PortableCode& code, uint64_t room) {
  if (room > kMostRoom || code.bytes.size() > kMostRoom) return {};
  const uint64_t code_size = (code.bytes.size() + kPage - 1) / kPage * kPage;
  bool is_loaded = false;
  tracer_.run([&] { is_loaded = map(code, code_size, code_size + room + kStackSize); });
  code_ = code;
  return is_loaded ? Address(base_ + code_size) : Address();
}

void ChildCode::start(size_t function, Address argument) {
  tracer_.start([this, function, argument] {
    is_done_ = !child_.is_void() && child_.execute({.entry = base_ + code_.entry,
                                                    .end = base_ + code_.trap,
                                                    .function = base_ + function,
                                                    .argument = argument.value(),
                                                    .stack = end_ & ~uint64_t{15}});
  });
}

bool ChildCode::finish() {
  const BlockingCall waiting(kWorkOfCopy);
  tracer_.wait();
  return is_done_;
}

bool ChildCode::read(Address from, std::span<std::byte> bytes) {
  return !child_.is_void() && child_.read(from.value(), bytes);
}

bool ChildCode::write(Address to, std::span<const std::byte> bytes) {
  return child_.write(to.value(), bytes);
}

}  // namespace heapsnap
