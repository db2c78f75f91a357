// Kinds whose mappings are odd, or change all the time.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "odd_process.h"

enum { kPage = 4096 };

static unsigned char* map(size_t size) {
  unsigned char* const memory =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) skip("mmap");
  return memory;
}

static void locked_memory(void) {
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) skip("mlockall");
  say_ready();
  while (!is_over()) churn();
}

// Pages that children do not get, get as zeros, or that nobody may touch: by turns.
static void changing_advice(void) {
  enum { kPages = 32, kGuardInstall = 102, kGuardRemove = 103 };
  unsigned char* const memory = aligned_alloc(kPage, kPages * kPage);
  memset(memory, 7, kPages * kPage);
  const bool has_guards = madvise(memory, kPage, kGuardInstall) == 0;
  if (has_guards) madvise(memory, kPage, kGuardRemove);
  memset(memory, 7, kPages * kPage);
  say_ready();
  for (size_t i = 0; !is_over(); i = (i + 1) % (kPages - 1)) {
    unsigned char* const page = memory + i * kPage;
    EXPECT_EQUAL(madvise(page, kPage, MADV_DONTFORK), 0);
    EXPECT_EQUAL(madvise(page + kPage, kPage, MADV_WIPEONFORK), 0);
    churn();
    EXPECT(page[0] == 7 && page[kPage] == 7);
    EXPECT_EQUAL(madvise(page, kPage, MADV_DOFORK), 0);
    EXPECT_EQUAL(madvise(page + kPage, kPage, MADV_KEEPONFORK), 0);
    if (has_guards) {
      EXPECT_EQUAL(madvise(page, kPage, kGuardInstall), 0);
      churn();
      EXPECT_EQUAL(madvise(page, kPage, kGuardRemove), 0);
      EXPECT_EQUAL(page[0], 0);
      memset(page, 7, kPage);
    }
  }
}

// Grows and shrinks a mapping, which moves; what it holds stays.
static void moving_mappings(void) {
  size_t pages = 4;
  unsigned char* memory = map(pages * kPage);
  memset(memory, 3, pages * kPage);
  say_ready();
  while (!is_over()) {
    const size_t wanted = pages == 4 ? 400 : 4;
    unsigned char* const moved = mremap(memory, pages * kPage, wanted * kPage, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) {
      wrong(__FILE__, __LINE__, "mremap", errno);
      continue;
    }
    memory = moved;
    pages = wanted;
    for (size_t i = 0; i < 4; ++i) EXPECT_EQUAL(memory[i * kPage], 3);
    churn();
  }
}

// Nearly as many mappings as the kernel allows; the rest of them comes and goes.
static void many_mappings(void) {
  enum { kSpare = 24 };
  long most = 0;
  FILE* const file = fopen("/proc/sys/vm/max_map_count", "re");
  if (file == NULL || fscanf(file, "%ld", &most) != 1) skip("max_map_count");
  fclose(file);
  if (most > 100000) skip("vm.max_map_count is large");
  const size_t size = (size_t)(most + 100) * kPage;
  unsigned char* const memory = map(size);
  churn();
  size_t pages = 1;
  while (mprotect(memory + pages * kPage, kPage, PROT_READ) == 0) pages += 2;
  const size_t border = pages - 2 * kSpare;
  say_ready();
  while (!is_over()) {
    for (size_t i = border; i < pages; i += 2) {
      EXPECT_EQUAL(mprotect(memory + i * kPage, kPage, PROT_READ | PROT_WRITE), 0);
    }
    for (size_t i = border; i < pages - 8; i += 2) {
      EXPECT_EQUAL(mprotect(memory + i * kPage, kPage, PROT_READ), 0);
    }
    churn();
  }
}

// A thread fills the pages of the others when they are touched.
static int fault_descriptor;
static atomic_int needs_pages = 1;
static void* fill_pages(void* unused) {
  (void)unused;
  static unsigned char page[kPage] __attribute__((aligned(kPage)));
  memset(page, 9, sizeof page);
  while (atomic_load(&needs_pages)) {
    struct pollfd ready = {fault_descriptor, POLLIN, 0};
    if (poll(&ready, 1, 50) != 1) continue;
    struct uffd_msg message;
    if (read(fault_descriptor, &message, sizeof message) != sizeof message) continue;
    const uint64_t address = message.arg.pagefault.address & ~(uint64_t)(kPage - 1);
    struct uffdio_copy copy = {address, (uint64_t)(uintptr_t)page, kPage, 0, 0};
    if (ioctl(fault_descriptor, UFFDIO_COPY, &copy) != 0) EXPECT_EQUAL(errno, EEXIST);
  }
  return NULL;
}
static void fills_its_pages(void) {
  enum { kPages = 16 };
  fault_descriptor = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
  struct uffdio_api api = {.api = UFFD_API};
  if (fault_descriptor < 0 || ioctl(fault_descriptor, UFFDIO_API, &api) != 0) skip("userfaultfd");
  unsigned char* const memory = map(kPages * kPage);
  struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
  range.range.start = (uint64_t)(uintptr_t)memory;
  range.range.len = kPages * kPage;
  if (ioctl(fault_descriptor, UFFDIO_REGISTER, &range) != 0) skip("UFFDIO_REGISTER");
  pthread_t thread;
  pthread_create(&thread, NULL, fill_pages, NULL);
  say_ready();
  while (!is_over()) {
    for (int i = 0; i < kPages; ++i) EXPECT_EQUAL(memory[i * kPage], 9);
    EXPECT_EQUAL(madvise(memory, kPages * kPage, MADV_DONTNEED), 0);
    churn();
  }
  atomic_store(&needs_pages, 0);
  pthread_join(thread, NULL);
}

// Gives pages to a pipe and reads them back.
static void spliced_pages(void) {
  int ends[2];
  if (pipe(ends) != 0) skip("pipe");
  unsigned char* const memory = map(4 * kPage);
  say_ready();
  for (unsigned char round = 1; !is_over(); ++round) {
    memset(memory, round, 4 * kPage);
    const struct iovec piece = {memory, 4 * kPage};
    EXPECT_EQUAL(vmsplice(ends[1], &piece, 1, 0), 4 * kPage);
    churn();
    unsigned char received[4 * kPage];
    EXPECT_EQUAL(read(ends[0], received, sizeof received), sizeof received);
    for (size_t i = 0; i < sizeof received; ++i) EXPECT_EQUAL(received[i], round);
  }
}

// Writes code and executes it.
static void makes_code(void) {
  unsigned char* const code =
      mmap(NULL, kPage, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) skip("executable memory");
  say_ready();
  for (uint32_t round = 1; !is_over(); ++round) {
    code[0] = 0xb8;  // mov eax, round
    memcpy(code + 1, &round, sizeof round);
    code[5] = 0xc3;
    EXPECT_EQUAL(((uint32_t(*)(void))(uintptr_t)code)(), round);
    churn();
  }
}

// No memory may be executed that could ever be written to.
static void no_new_code(void) {
  enum { kSetMdwe = 65, kRefuseExecGain = 1 };
  if (prctl(kSetMdwe, kRefuseExecGain, 0L, 0L, 0L) != 0) skip("PR_SET_MDWE");
  say_ready();
  while (!is_over()) churn();
}

static void huge_pages(void) {
  enum { kSize = 8 << 20 };
  unsigned char* const memory = aligned_alloc(2 << 20, kSize);
  if (madvise(memory, kSize, MADV_HUGEPAGE) != 0) skip("MADV_HUGEPAGE");
  say_ready();
  for (unsigned char round = 1; !is_over(); ++round) {
    for (size_t i = 0; i < kSize; i += kPage) memory[i] = round;
    churn();
    for (size_t i = 0; i < kSize; i += kPage) EXPECT_EQUAL(memory[i], round);
  }
}

static void pages_given_back(void) {
  enum { kSize = 4 << 20 };
  unsigned char* const memory = aligned_alloc(kPage, kSize);
  say_ready();
  for (unsigned char round = 1; !is_over(); ++round) {
    memset(memory, round, kSize);
    EXPECT_EQUAL(madvise(memory, kSize / 2, MADV_FREE), 0);
    churn();
    for (size_t i = 0; i < kSize / 2; i += kPage) {
      EXPECT(memory[i] == round || memory[i] == 0);
    }
    for (size_t i = kSize / 2; i < kSize; i += kPage) EXPECT_EQUAL(memory[i], round);
  }
}

const struct Kind memory_kinds[] = {{"locked_memory", locked_memory},
                                    {"changing_advice", changing_advice},
                                    {"moving_mappings", moving_mappings},
                                    {"many_mappings", many_mappings},
                                    {"fills_its_pages", fills_its_pages},
                                    {"spliced_pages", spliced_pages},
                                    {"makes_code", makes_code},
                                    {"no_new_code", no_new_code},
                                    {"huge_pages", huge_pages},
                                    {"pages_given_back", pages_given_back},
                                    {NULL, NULL}};
