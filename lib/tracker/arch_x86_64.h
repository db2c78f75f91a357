// All that the tracker knows of the machine: system calls without errno, the thread pointer, and
// how a frame and a signal frame lie on the stack.
#pragma once

#include <emmintrin.h>

#include <cstdint>

namespace heapsnap::tracker {

#if !defined(__x86_64__)
#error "the tracker knows x86-64 only"
#endif

inline constexpr uint64_t kPage = 4096;

inline long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                        long f = 0) {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

inline bool failed(long result) {
  return static_cast<unsigned long>(result) > -4096UL;
}

// The thread control block; the stack of a thread made by pthread_create ends below it.
inline uint64_t thread_pointer() {
  uint64_t pointer;
  asm("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
}

inline void relax() {
  asm volatile("pause");
}

// DWARF numbers of the registers (System V ABI, figure 3.36).
inline constexpr unsigned kRegisterRbx = 3;
inline constexpr unsigned kRegisterRbp = 6;
inline constexpr unsigned kRegisterRsp = 7;
inline constexpr unsigned kRegisterR12 = 12;
inline constexpr unsigned kReturnAddress = 16;
inline constexpr unsigned kRegisterCount = 17;

// Where the kernel put the interrupted registers, from the stack pointer that __restore_rt starts
// with: ucontext_t, uc_mcontext.gregs[REG_...].
inline constexpr uint64_t kSignalFrameRbp = 40 + 8 * 10;
inline constexpr uint64_t kSignalFrameRsp = 40 + 8 * 15;
inline constexpr uint64_t kSignalFrameRip = 40 + 8 * 16;

struct Registers {
  uint64_t value[kRegisterCount];
};

// The registers that a function keeps for its caller, as of inside this (inlined) function.
__attribute__((always_inline)) inline void capture_registers(Registers& out) {
  for (uint64_t& value : out.value) value = 0;
  uint64_t* at = out.value;
  asm volatile(
      "mov %%rbx, 24(%0)\n\tmov %%rbp, 48(%0)\n\tmov %%rsp, 56(%0)\n\t"
      "mov %%r12, 96(%0)\n\tmov %%r13, 104(%0)\n\tmov %%r14, 112(%0)\n\tmov %%r15, 120(%0)\n\t"
      "lea 0f(%%rip), %%rcx\n0:\tmov %%rcx, 128(%0)"
      :
      : "r"(at)
      : "rcx", "memory");
}

// A bit for each of the 16 bytes below `address` that is that of `then`, which is aligned to 16.
inline uint32_t equal_bytes(uint64_t address, const uint64_t* then) {
  const __m128i now = _mm_loadu_si128(reinterpret_cast<const __m128i*>(address - 16));
  const __m128i equal = _mm_cmpeq_epi8(now, *reinterpret_cast<const __m128i*>(then));
  return static_cast<uint32_t>(_mm_movemask_epi8(equal));
}
// Are the 16 bytes below each of two addresses what they were?
inline bool are_equal_pairs(uint64_t address0, const uint64_t* then0, uint64_t address1,
                            const uint64_t* then1) {
  const __m128i now0 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(address0 - 16));
  const __m128i now1 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(address1 - 16));
  const __m128i equal =
      _mm_and_si128(_mm_cmpeq_epi8(now0, *reinterpret_cast<const __m128i*>(then0)),
                    _mm_cmpeq_epi8(now1, *reinterpret_cast<const __m128i*>(then1)));
  return _mm_movemask_epi8(equal) == 0xffff;
}
inline constexpr uint32_t kLowerWord = 0x00ff;
inline constexpr uint32_t kBothWords = 0xffff;

// What the caller of a hook sees when the hook returns to it. A hook keeps a frame pointer.
struct CallerFrame {
  uint64_t pc;
  uint64_t sp;
  uint64_t rbp;
};
inline CallerFrame caller_of_frame(const void* frame_address) {
  const auto* frame = static_cast<const uint64_t*>(frame_address);
  return {frame[1], reinterpret_cast<uint64_t>(frame + 2), frame[0]};
}

}  // namespace heapsnap::tracker
