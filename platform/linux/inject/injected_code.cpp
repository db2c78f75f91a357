#include "platform/linux/inject/injected_code.h"

// Numbers here are offsets in ThreadBlock and CallStep; 60 is exit(2), %fs:16 the thread pointer.
asm(R"(
  .pushsection .rodata.heapsnap_injected, "a", @progbits
  .balign 16
heapsnap_injected_begin:
heapsnap_injected_bootstrap:
  endbr64
  movq %rdi, %rbx
  movq 0(%rbx), %rdi
  call heapsnap_injected_calls
  xorl %edi, %edi
  movl $60, %eax
  syscall
  hlt

  .balign 16
heapsnap_injected_worker:
  endbr64
  pushq %rbx
  movq %rdi, %rbx
  movl $1, 16(%rbx)
  call heapsnap_injected_take_over
  movq 8(%rbx), %rdi
  call heapsnap_injected_calls
  movq 64(%rbx), %rax
  testq %rax, %rax
  jz 1f
  movq 72(%rbx), %rdx
  cmpq %rdx, %fs:(%rax)
  jne 1f
  movq $0, %fs:(%rax)
1:
  movl $1, 20(%rbx)
  xorl %eax, %eax
  popq %rbx
  ret

  # A variable that the bootstrap has changed, and this thread has not.
  .balign 16
heapsnap_injected_take_over:
  movq %fs:16, %rax
  addq 32(%rbx), %rax
  movq 40(%rbx), %rcx
  movq 48(%rbx), %rsi
  movq 56(%rbx), %rdi
1:
  subq $1, %rcx
  jb 2f
  movq (%rdi,%rcx,8), %r8
  movq (%rsi,%rcx,8), %rdx
  cmpq %r8, %rdx
  je 1b
  cmpq %r8, (%rax,%rcx,8)
  jne 1b
  movq %rdx, (%rax,%rcx,8)
  jmp 1b
2:
  movq 64(%rbx), %rax
  testq %rax, %rax
  jz 3f
  cmpq $0, %fs:(%rax)
  jne 3f
  movq 72(%rbx), %rdx
  movq %rdx, %fs:(%rax)
3:
  ret

  .balign 16
heapsnap_injected_calls:
  pushq %rbp
  movq %rdi, %rbp
1:
  testq %rbp, %rbp
  jz 3f
  movq 8(%rbp), %rdi
  movq (%rdi), %rdi
  movq 16(%rbp), %rsi
  movq (%rsi), %rsi
  movq 24(%rbp), %rdx
  movq (%rdx), %rdx
  movq 32(%rbp), %rcx
  movq (%rcx), %rcx
  movq 0(%rbp), %rax
  movq (%rax), %rax
  testq %rax, %rax
  jz 2f
  call *%rax
2:
  movq %rax, 40(%rbp)
  testq %rax, %rax
  movq 48(%rbp), %rdx
  movq 56(%rbp), %rbp
  cmovnzq %rdx, %rbp
  jmp 1b
3:
  popq %rbp
  ret

  .balign 16
heapsnap_injected_copy_text:
  endbr64
  xorl %ecx, %ecx
4:
  cmpq %rdx, %rcx
  jae 5f
  movb (%rsi,%rcx), %al
  movb %al, (%rdi,%rcx)
  incq %rcx
  testb %al, %al
  jnz 4b
5:
  xorl %eax, %eax
  ret

  # link_map::l_name is its second word.
  .balign 16
heapsnap_injected_rename:
  endbr64
  movq 8(%rdi), %rdi
6:
  cmpb $0, (%rdi)
  je 7f
  movb (%rsi), %al
  movb %al, (%rdi)
  incq %rdi
  incq %rsi
  testb %al, %al
  jnz 6b
7:
  xorl %eax, %eax
  ret
heapsnap_injected_end:
  .popsection
)");

// NOLINTBEGIN(readability-identifier-naming): symbols of the assembly above
extern "C" {
extern const std::byte heapsnap_injected_begin[];
extern const std::byte heapsnap_injected_bootstrap[];
extern const std::byte heapsnap_injected_worker[];
extern const std::byte heapsnap_injected_copy_text[];
extern const std::byte heapsnap_injected_rename[];
extern const std::byte heapsnap_injected_end[];
}
// NOLINTEND(readability-identifier-naming)

namespace heapsnap {

InjectedCode injected_code() {
  const auto offset = [](const std::byte* label) {
    return static_cast<size_t>(label - heapsnap_injected_begin);
  };
  InjectedCode code;
  code.bytes = {heapsnap_injected_begin, offset(heapsnap_injected_end)};
  code.bootstrap = offset(heapsnap_injected_bootstrap);
  code.worker = offset(heapsnap_injected_worker);
  code.copy_text = offset(heapsnap_injected_copy_text);
  code.rename = offset(heapsnap_injected_rename);
  return code;
}

}  // namespace heapsnap
