#include "platform/linux/remote_call/signal_frame.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include "platform/linux/remote_call/stack_words.h"
#include "platform/linux/remote_call/syscall_gadget.h"

namespace heapsnap {

namespace {

constexpr uint64_t kUserCodeSegment = 0x33;
constexpr uint64_t kNoSystemCall = ~uint64_t{0};

struct SignalFrame {
  uint64_t restorer;
  UserContext context;  // siginfo_t follows, written for SA_SIGINFO only
};
constexpr size_t kCodeSegmentAt =
    offsetof(SignalFrame, context) + offsetof(UserContext, machine) + offsetof(SignalContext, cs);

// Rejects nearly all words of a stack with one comparison.
bool has_code_segment(const std::byte* frame) {
  uint16_t segment = 0;
  std::memcpy(&segment, frame + kCodeSegmentAt, sizeof segment);
  return segment == kUserCodeSegment;
}

// A handler runs with its signal blocked, and with those of its sa_mask.
bool adds_to(uint64_t mask, uint64_t saved) {
  return (saved & ~mask) == 0 && saved != mask;
}

bool returns_from_handler(uint64_t address, MemoryReader& memory) {
  std::array<std::byte, SyscallGadget::kRestoreSize> code{};
  return memory.read_exact(Address(address), code) && find_restore_rt(code) == 0;
}

bool is_of_running_handler(const SignalFrame& frame, std::optional<uint64_t> mask,
                           MemoryReader& memory) {
  if (frame.context.link != 0) return false;
  return !mask || (adds_to(*mask, frame.context.signal_mask) &&
                   returns_from_handler(frame.restorer, memory));
}

bool is_syscall_at(uint64_t address, MemoryReader& memory) {
  constexpr uint16_t kSyscall = 0x050f;
  return memory.read_value<uint16_t>(Address(address)) == kSyscall;
}

user_regs_struct interrupted_registers(const SignalContext& machine, user_regs_struct like,
                                       MemoryReader& memory) {
  like.rip = machine.ip;
  like.rsp = machine.sp;
  like.rax = machine.ax;
  if (is_syscall_at(machine.ip, memory)) {
    like.orig_rax = machine.ax;  // to be restarted
  } else if (static_cast<int64_t>(machine.ax) != -EINTR &&
             is_syscall_at(machine.ip - SyscallGadget::kSyscallSize, memory)) {
    like.orig_rax =
        kNoSystemCall;  // it has just returned: perhaps brk(2), half way through sysmalloc()
  } else {
    like.orig_rax = SYS_restart_syscall;  // old return addresses on the stack prove nothing
  }
  return like;
}

}  // namespace

std::vector<user_regs_struct> interrupted_by_handlers(const user_regs_struct& registers,
                                                      uint64_t signal_mask,
                                                      const AddressSpace& space,
                                                      MemoryReader& memory) {
  std::vector<user_regs_struct> found;
  if (signal_mask == 0) return found;
  std::vector<std::byte> stack;  // bytes in which a frame may still begin
  SignalFrame frame{};
  read_stack_pieces(space, memory, registers.rsp, [&](std::span<const uint64_t> words) {
    const auto piece = std::as_bytes(words);
    stack.insert(stack.end(), piece.begin(), piece.end());
    size_t at = 0;
    for (; at + sizeof frame <= stack.size(); at += sizeof(uint64_t)) {
      if (!has_code_segment(&stack[at])) continue;
      std::memcpy(&frame, &stack[at], sizeof frame);
      if (!is_of_running_handler(frame, signal_mask, memory)) continue;
      found.push_back(interrupted_registers(frame.context.machine, registers, memory));
      signal_mask = frame.context.signal_mask;  // the one below it ran with this mask
    }
    stack.erase(stack.begin(), stack.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
  });
  return found;
}

std::optional<HandlerReturn> find_handler_return(uint64_t stack_pointer,
                                                 std::optional<uint64_t> signal_mask, size_t room,
                                                 const std::function<bool(uint64_t)>& wanted,
                                                 MemoryReader& memory) {
  constexpr uint64_t kRestorer = sizeof(SignalFrame::restorer);
  const uint64_t begin = (stack_pointer & ~uint64_t{7}) - kRestorer;
  room += kRestorer;
  std::vector<std::byte> stack(room + sizeof(SignalFrame));
  stack.resize(memory.read(Address(begin), stack));
  SignalFrame frame{};
  for (size_t at = 0; at < room && at + sizeof frame <= stack.size(); at += sizeof(uint64_t)) {
    if (!has_code_segment(&stack[at])) continue;
    std::memcpy(&frame, &stack[at], sizeof frame);
    if (!wanted(frame.context.machine.ip) || !is_of_running_handler(frame, signal_mask, memory)) {
      continue;
    }
    return HandlerReturn{frame.restorer, begin + at + offsetof(SignalFrame, context)};
  }
  return std::nullopt;
}

}  // namespace heapsnap
