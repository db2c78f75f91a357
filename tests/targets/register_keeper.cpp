// A target whose threads hold known values in every register that they can, in their flags and in
// the red zone below the stack pointer, and look without end whether they are still there.
//
//   register_keeper THREADS
//
// Says "ready", runs until its standard input ends, and then says "errors=0 rounds=123".
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

std::atomic<int> begun{0};
std::atomic<long> errors{0};
std::atomic<long> rounds{0};
std::atomic<bool> ending{false};

// Loads every general register but the stack pointer with seed + k, sixteen vector registers, as
// wide as the processor has them, with copies of one, puts two words into the red zone and sets the
// carry flag; then compares in a loop, with nothing in memory but the red zone. Gives 0 when all
// held after all turns, else the number of the check that failed.
//
// `wide` is 32 readable bytes.
extern "C" uint64_t keep_registers(uint64_t seed, uint64_t turns, const void* wide);

asm(R"(
    .text
    .globl keep_registers
    .type keep_registers, @function
keep_registers:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    sub $8, %rsp
    mov %rdi, -8(%rsp)
    mov %rsi, -128(%rsp)
    vmovdqu (%rdx), %ymm0
    vmovdqa %ymm0, %ymm1
    vmovdqa %ymm0, %ymm2
    vmovdqa %ymm0, %ymm3
    vmovdqa %ymm0, %ymm4
    vmovdqa %ymm0, %ymm5
    vmovdqa %ymm0, %ymm6
    vmovdqa %ymm0, %ymm7
    vmovdqa %ymm0, %ymm8
    vmovdqa %ymm0, %ymm9
    vmovdqa %ymm0, %ymm10
    vmovdqa %ymm0, %ymm11
    vmovdqa %ymm0, %ymm12
    vmovdqa %ymm0, %ymm13
    vmovdqa %ymm0, %ymm14
    vmovdqa %ymm0, %ymm15
    lea 1(%rdi), %rbx
    lea 2(%rdi), %rcx
    lea 3(%rdi), %rdx
    lea 4(%rdi), %rsi
    lea 5(%rdi), %rbp
    lea 6(%rdi), %r8
    lea 7(%rdi), %r9
    lea 8(%rdi), %r10
    lea 9(%rdi), %r11
    lea 10(%rdi), %r12
    lea 11(%rdi), %r13
    lea 12(%rdi), %r14
    lea 13(%rdi), %r15
1:
    stc
    mov $1, %eax
    jnc 9f
    .macro check register, offset, number
    mov $\number, %eax
    lea \offset(%rdi), %rax
    cmp %rax, \register
    mov $\number, %eax
    jne 9f
    .endm
    check %rbx, 1, 2
    check %rcx, 2, 3
    check %rdx, 3, 4
    check %rsi, 4, 5
    check %rbp, 5, 6
    check %r8, 6, 7
    check %r9, 7, 8
    check %r10, 8, 9
    check %r11, 9, 10
    check %r12, 10, 11
    check %r13, 11, 12
    check %r14, 12, 13
    check %r15, 13, 14
    mov $15, %eax
    cmp %rdi, -8(%rsp)
    jne 9f
    .macro check_wide register, number
    vpxor \register, %ymm0, %ymm1
    vptest %ymm1, %ymm1
    mov $\number, %eax
    jnz 9f
    .endm
    check_wide %ymm2, 16
    check_wide %ymm3, 17
    check_wide %ymm4, 18
    check_wide %ymm5, 19
    check_wide %ymm6, 20
    check_wide %ymm7, 21
    check_wide %ymm8, 22
    check_wide %ymm9, 23
    check_wide %ymm10, 24
    check_wide %ymm11, 25
    check_wide %ymm12, 26
    check_wide %ymm13, 27
    check_wide %ymm14, 28
    check_wide %ymm15, 29
    decq -128(%rsp)
    jnz 1b
    xor %eax, %eax
9:
    vzeroupper
    add $8, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret
    .size keep_registers, . - keep_registers
)");

void keep(uint64_t seed) {
  alignas(32) uint64_t wide[4] = {seed, ~seed, seed * 3, seed * 0x9e3779b97f4a7c15};
  ++begun;
  while (!ending) {
    if (const uint64_t failed = keep_registers(seed, 20'000, wide); failed != 0) {
      ++errors;
      std::fprintf(stderr, "check %lu failed\n", static_cast<unsigned long>(failed));
    }
    ++rounds;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!__builtin_cpu_supports("avx")) {
    std::puts("unsupported");
    return 77;
  }
  const int count = argc > 1 ? std::atoi(argv[1]) : 2;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back(keep, 0x1111111100000000ULL + static_cast<uint64_t>(i) * 0x10101);
  }
  while (begun < count) sched_yield();
  std::puts("ready");
  std::fflush(stdout);
  char byte;
  while (read(0, &byte, 1) != 0) {
  }
  ending = true;
  for (auto& thread : threads) thread.join();
  std::printf("errors=%ld rounds=%ld\n", errors.load(), rounds.load());
  return errors == 0 ? 0 : 1;
}
