#include "platform/linux/remote_call/sigreturn_stack.h"

#include <cpuid.h>

#include <algorithm>
#include <cstring>

#include "base/byte_fields.h"
#include "platform/linux/remote_call/signal_frame.h"

namespace heapsnap {

namespace {

constexpr size_t kSignalInfoSize = 128;
constexpr size_t kFrameSize = sizeof(uint64_t) + sizeof(UserContext) + kSignalInfoSize;

constexpr uint64_t kHasExtendedState = 1;    // UC_FP_XSTATE
constexpr uint64_t kHasStackSegment = 2;     // UC_SIGCONTEXT_SS
constexpr uint64_t kStrictStackSegment = 4;  // UC_STRICT_RESTORE_SS
// Not a mode that sigaltstack(2) knows: the kernel refuses it and ignores the refusal, so the
// alternate stack stays as it is (restore_altstack(), kernel/signal.c).
constexpr uint64_t kKeepAlternateStack = 0x7fff0000;

constexpr size_t kLegacySize = 512;
constexpr size_t kHeaderEnd = 576;
constexpr size_t kSoftwareBytes = 464;  // struct _fpx_sw_bytes
constexpr uint32_t kMagic1 = 0x46505853;
constexpr uint32_t kMagic2 = 0x46505845;
constexpr uint64_t kProtectionKeys = uint64_t{1} << 9;
constexpr size_t kStateAlignment = 64;

// End of component `index` in the standard layout; 0 if the processor has none.
size_t component_end(unsigned index) {
  unsigned size = 0;
  unsigned offset = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(0xd, index, &size, &offset, &c, &d) == 0) return 0;
  return size_t{offset} + size;
}

}  // namespace

std::vector<std::byte> signal_frame_state(std::span<const std::byte> extended_state) {
  if (extended_state.size() < kHeaderEnd) return {};
  uint64_t enabled = 0;  // XCR0, where ptrace puts it
  uint64_t in_use = 0;   // XSTATE_BV
  std::memcpy(&enabled, extended_state.data() + kSoftwareBytes, sizeof enabled);
  std::memcpy(&in_use, extended_state.data() + kLegacySize, sizeof in_use);
  // Since 5.14 the kernel keeps the protection keys elsewhere and may show their value without the
  // bit; restoring them without it would open them all.
  in_use |= enabled & kProtectionKeys;
  size_t size = kHeaderEnd;
  for (unsigned index = 2; index < 63; ++index) {
    if ((in_use >> index & 1) != 0) size = std::max(size, component_end(index));
  }
  if (size > extended_state.size()) return {};
  std::vector<std::byte> state(extended_state.begin(),
                               extended_state.begin() + static_cast<ptrdiff_t>(size));
  state.resize(size + sizeof kMagic2);
  put_field(state, kLegacySize, in_use);
  std::fill_n(state.begin() + kSoftwareBytes, kLegacySize - kSoftwareBytes, std::byte{0});
  put_field(state, kSoftwareBytes, kMagic1);
  put_field(state, kSoftwareBytes + 4, static_cast<uint32_t>(state.size()));
  put_field(state, kSoftwareBytes + 8, in_use);
  put_field(state, kSoftwareBytes + 16, static_cast<uint32_t>(size));
  put_field(state, size, kMagic2);
  return state;
}

uint64_t SigreturnStack::push(const user_regs_struct& context, uint64_t signal_mask,
                              std::span<const std::byte> extended_state) {
  const std::vector<std::byte> state = signal_frame_state(extended_state);
  const uint64_t state_at = (bottom_ - state.size()) & ~uint64_t{kStateAlignment - 1};
  const uint64_t slot = (state_at - kFrameSize) & ~uint64_t{15};

  UserContext user{};
  user.flags = kHasStackSegment | kStrictStackSegment | (state.empty() ? 0 : kHasExtendedState);
  user.stack_flags = kKeepAlternateStack;
  user.signal_mask = signal_mask;
  SignalContext& machine = user.machine;
  machine.r8 = context.r8;
  machine.r9 = context.r9;
  machine.r10 = context.r10;
  machine.r11 = context.r11;
  machine.r12 = context.r12;
  machine.r13 = context.r13;
  machine.r14 = context.r14;
  machine.r15 = context.r15;
  machine.di = context.rdi;
  machine.si = context.rsi;
  machine.bp = context.rbp;
  machine.bx = context.rbx;
  machine.dx = context.rdx;
  machine.ax = context.rax;
  machine.cx = context.rcx;
  machine.sp = context.rsp;
  machine.ip = context.rip;
  machine.flags = context.eflags;
  machine.cs = static_cast<uint16_t>(context.cs);
  machine.ss = static_cast<uint16_t>(context.ss);
  machine.extended_state = state.empty() ? 0 : state_at;

  std::vector<std::byte> grown(bottom_ - slot);
  put_field(grown, 0, restore_rt_);
  put_field(grown, sizeof(uint64_t), user);
  std::copy(state.begin(), state.end(), grown.begin() + static_cast<ptrdiff_t>(state_at - slot));
  grown.insert(grown.end(), bytes_.begin(), bytes_.end());
  bytes_ = std::move(grown);
  bottom_ = slot;
  return slot;
}

}  // namespace heapsnap
