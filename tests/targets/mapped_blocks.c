// Mmapped chunks in places where a search for them may go wrong.
//
//   mapped_blocks CASE
//
//   merged      mappings of its own on both sides, which the kernel joins with theirs; in these lie
//               words that look like headers
//   covered     such words claim a size that takes in all of the chunks
//   stack       one is the stack of a thread
//   coroutine   a thread runs on one, its own stack lies above the others in the same line of maps
//   aligned     by memalign, of all alignments; some of them moved by realloc
//   protected   a program may not write to one, nor read another
//   looped      none; a thread makes system calls, and in its frame lies an old return address into
//               malloc
//   spun        the same, without system calls
//   returned    the same, with calls of malloc
//   handled     none; a thread in malloc is interrupted by one signal after the other
//
// Prints the address of each block, then "ready" or why not, and ends when its standard input does.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

enum { kPage = 4096, kRoom = 64 * kPage, kBlock = 1 << 20, kBlocks = 8, kStackSize = 512 << 10 };

static char* blocks[64];
static int count;
static ucontext_t own, other;

static void fail(const char* why) {
  perror(why);
  printf("%s\n", why);
  exit(2);
}

static char* note(void* block) {
  if (block == NULL) fail("malloc");
  printf("%p\n", block);
  return blocks[count++] = block;
}

static char* map(char* at, size_t size) {
  const int where = at == NULL ? 0 : MAP_FIXED_NOREPLACE;
  char* memory = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | where, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  return memory;
}

static char* mapping_of(char* block) {
  return block - 2 * sizeof(size_t);
}

static size_t mapped_size_of(char* block) {
  return (malloc_usable_size(block) + 2 * sizeof(size_t) + kPage - 1) / kPage * kPage;
}

// As in an mmapped chunk of so many bytes.
static void put_header(char* at, size_t size) {
  ((size_t*)at)[0] = 0;
  ((size_t*)at)[1] = size | 2;
}

static int is_one_line(const char* begin, const char* end) {
  FILE* maps = fopen("/proc/self/maps", "re");
  char line[512];
  int found = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long first = 0;
    unsigned long last = 0;
    if (sscanf(line, "%lx-%lx", &first, &last) == 2) {
      found |= first <= (uintptr_t)begin && (uintptr_t)end <= last;
    }
  }
  if (maps != NULL) fclose(maps);
  return found;
}

// Blocks, each below the one before it, with `room` above them; gives where the lowest begins.
static char* row_below(const char* room) {
  for (int i = 0; i < kBlocks; ++i) {
    char* block = note(malloc(kBlock));
    const char* above = i == 0 ? room : mapping_of(blocks[count - 2]);
    if (mapping_of(block) + mapped_size_of(block) != above) {
      fail("the blocks do not lie in a row");
    }
  }
  return mapping_of(blocks[count - 1]);
}

static void merge(int covers) {
  char* above = map(NULL, kRoom);
  char* lowest = row_below(above);
  char* below = map(lowest - kRoom, kRoom);
  memset(below, 7, kPage);
  memset(above + kRoom - kPage, 7, kPage);
  if (!is_one_line(below, above + kRoom)) fail("the mappings were not merged");
  char* look = below + 4 * kPage;
  put_header(look, covers ? (size_t)(above + 2 * kPage - look) : 8 * kPage);

  // A block of its own, and elsewhere what looks like one of that size.
  char* block = note(malloc(kBlock / 2));
  if (mmap(mapping_of(block) - kPage, kPage, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED) {
    fail("mmap");
  }
  char* far = map(NULL, 4 * kBlock);
  memset(far, 7, 4 * kBlock);
  put_header(far + kBlock, mapped_size_of(block));
}

static void* wait_for_ever(void* unused) {
  for (;;) pause();
  return unused;
}

static void wait_there(void) {
  printf("ready\n");
  fflush(stdout);
  wait_for_ever(NULL);
}

static void* switch_stack(void* stack) {
  getcontext(&other);
  other.uc_stack.ss_sp = stack;
  other.uc_stack.ss_size = kStackSize;
  other.uc_link = &own;
  makecontext(&other, wait_there, 0);
  swapcontext(&own, &other);
  return NULL;
}

static void start(void* stack, size_t size, void* (*function)(void*), void* argument) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  if (stack != NULL) pthread_attr_setstack(&attributes, stack, size);
  if (pthread_create(&thread, &attributes, function, argument) != 0) fail("pthread_create");
}

static void align(void) {
  for (size_t alignment = 32; alignment <= 2 << 20; alignment *= 2) {
    char* block = memalign(alignment, kBlock / 4);
    if (block == NULL) fail("memalign");
    note(alignment % 3 == 2 ? realloc(block, kBlock / 2) : block);
  }
}

static void protect(void) {
  for (int i = 0; i < 4; ++i) {
    char* block = note(malloc(kBlock));
    const int access = i == 1 ? PROT_READ : i == 2 ? PROT_NONE : PROT_READ | PROT_WRITE;
    if (mprotect(mapping_of(block), kBlock, access) != 0) fail("mprotect");
  }
}

// What follows a call in malloc.
static uintptr_t return_address(void) {
  const unsigned char* code = (const unsigned char*)malloc;
  for (int i = 5; i < 512; ++i) {
    if (code[i - 5] == 0xe8) return (uintptr_t)(code + i);
  }
  fail("malloc calls nothing");
  return 0;
}

static void* run_on(void* argument) {
  volatile uintptr_t frame[32];
  for (int i = 0; i < 32; ++i) frame[i] = *(uintptr_t*)argument;
  const int calls = ((uintptr_t*)argument)[1] == 1;
  for (;;) {
    for (int i = 0; i < 300; ++i) frame[i % 2] = frame[2];
    // Not by a function of the C library: the frame is to lie near the stack pointer.
    long number = SYS_getppid;
    if (((uintptr_t*)argument)[1] == 2) free(malloc(100));
    if (calls) __asm__ volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory");
  }
  return NULL;
}

static void handle(int signal) {
  for (volatile int i = signal; i < 500; ++i) {
  }
}

static void* be_interrupted(void* unused) {
  for (;;) {
    char* volatile block = malloc(kBlock / 16);
    free(block);
  }
  return unused;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  setvbuf(stdout, NULL, _IOLBF, 0);
  static uintptr_t frame[2];
  frame[0] = return_address();
  frame[1] = strcmp(what, "looped") == 0 ? 1 : strcmp(what, "returned") == 0 ? 2 : 0;
  if (strcmp(what, "merged") == 0) {
    merge(0);
  } else if (strcmp(what, "covered") == 0) {
    merge(1);
  } else if (strcmp(what, "stack") == 0) {
    char* block = note(malloc(kBlock));
    start(mapping_of(block) + kPage, kBlock - kPage, wait_for_ever, NULL);
    note(malloc(kBlock));
  } else if (strcmp(what, "coroutine") == 0) {
    char* room = map(NULL, kStackSize);
    char* lowest = row_below(room);
    if (!is_one_line(lowest, room + kStackSize)) fail("the mappings were not merged");
    start(room, kStackSize, switch_stack, blocks[kBlocks - 1]);
    wait_for_ever(NULL);
  } else if (strcmp(what, "aligned") == 0) {
    align();
  } else if (strcmp(what, "protected") == 0) {
    protect();
  } else if (frame[1] != 0 || strcmp(what, "spun") == 0) {
    start(NULL, 0, run_on, frame);
  } else if (strcmp(what, "handled") == 0) {
    signal(SIGALRM, handle);
    start(NULL, 0, be_interrupted, NULL);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    const struct itimerval always = {{0, 1}, {0, 1}};
    setitimer(ITIMER_REAL, &always, NULL);
  } else {
    return 2;
  }
  printf("ready\n");
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
