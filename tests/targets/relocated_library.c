// A library that waits while the loader relocates it: its C library has been relocated, and nobody
// has called that yet. Says "relocating" and goes on when standard input has a line for it. Once
// loaded it has a block, which it frees when it is unloaded.
#include <stdlib.h>
#include <sys/syscall.h>

// The loader calls this before it has initialised the C library, errno included.
static long system_call(long number, long a, const char* b, long c) {
#if defined __x86_64__
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c)
                   : "rcx", "r11", "memory");
  return result;
#elif defined __aarch64__
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register const char* x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
#else
#error "no system calls for this machine"
#endif
}

static int answer(void) {
  return 42;
}

__attribute__((used)) static int (*choose(void))(void) {
  char line[1];
  system_call(SYS_write, 1, "relocating\n", 11);
  system_call(SYS_read, 0, line, 1);
  return answer;
}

int chosen(void) __attribute__((ifunc("choose")));
int (*volatile relocated_library_chosen)(void) = chosen;  // a reference, which the loader resolves

static void* block;

__attribute__((constructor)) static void take(void) {
  block = malloc(500);
}

__attribute__((destructor)) static void give_back(void) {
  free(block);
}
