// A program that knows its own heap, for tests that compare what heapsnap says with the truth.
//
//   truth_target [--seed N] [--mode MODE] [--churn] [--abort] [--lone]
//
// The main thread and four others allocate, resize and free at the same time, then each frees a
// known part of its neighbour's blocks, and nobody allocates any more. Standard output then tells
// the state of the heap, by the allocator's own malloc_usable_size and chunk headers:
//
//   L <address> <usable size> U|M    a live block; M: in a mapping of its own
//   F <address>                      a freed block that was not handed out again
//   R <begin> <end>                  memory that is not malloc's (foreign sbrk, wall): no chunk in
//   it T <tid>                          a thread ready <live> <freed>             the end; from
//   here on the heap holds still
//
// With --churn the threads go on allocating and freeing other blocks from there on (so F lines say
// nothing then), until standard input ends. At its end every live block is checked for damage and
// freed; exit code 0 means that all held what they should. With --abort it dies of SIGABRT instead,
// to leave a core. With --lone the main thread is the only one.
//
// Modes: `plain`; `foreign` moves the program break between allocations, and at the end leaves top
// alone behind such a place; `blocked` puts a mapping right behind the heap half-way, so that the
// main arena goes on in mapped segments; `foreign-blocked` does one after the other, and the
// mapping looks like heap; `blocked-early` blocks before the first allocation.
//
// It is C and uses nothing newer than glibc 2.31, and keeps its records outside of the heap.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  kWorkers = 5,  // the main thread is worker 0
  kSlots = 6600,
  kRounds = 4,
  kOperations = 9000,  // a round and worker
  kMapped = 72,        // blocks big enough for a mapping of their own
  kForeign = 8,
  kChurnSlots = 256,
  kPage = 4096,
};

enum mode { kPlain, kForeignBreak, kBlocked, kForeignBlocked, kBlockedEarly, kModes };

struct block {
  unsigned char* memory;
  size_t usable;
  unsigned char tag;
};

struct worker {
  int number;
  pid_t tid;
  uint64_t random;
  struct block blocks[kSlots];
  void* freed[kSlots];
  int freed_count;
  void* churned[kChurnSlots];
};

static struct worker g_workers[kWorkers];
static int g_worker_count = kWorkers;
static struct block g_mapped[kMapped];
static struct {
  char* begin;
  char* end;
} g_foreign[kForeign + 1];  // and the wall, or the last move of the break
static int g_foreign_count;
static pthread_barrier_t g_barrier;
static pthread_barrier_t g_published;
static enum mode g_mode = kPlain;
static int g_churn;
static int g_abort;
static atomic_int g_stop;

static _Noreturn void die(const char* what) {
  dprintf(2, "truth_target: %s: %s\n", what, strerror(errno));
  _exit(70);
}

static uint64_t next_random(struct worker* self) {
  uint64_t x = self->random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return self->random = x;
}

static uint64_t below(struct worker* self, uint64_t limit) {
  return next_random(self) % limit;
}

// Many small ones, few large ones, up to 200 KB.
static size_t random_size(struct worker* self) {
  uint64_t kind = below(self, 1000);
  if (kind < 600) return 1 + below(self, 256);
  if (kind < 930) return 1 + below(self, 2048);
  if (kind < 994) return 1 + below(self, 16 * 1024);
  return 1 + below(self, 200 * 1024);
}

static void* allocate(struct worker* self, size_t size) {
  size_t alignment = (size_t)16 << below(self, 9);
  void* memory = NULL;
  switch (below(self, 16)) {
    case 0: return memalign(alignment, size);
    case 1: return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
    case 2:
      if (posix_memalign(&memory, alignment, size) != 0) return NULL;
      return memory;
    case 3: return calloc(1, size);
    default: return malloc(size);
  }
}

// Marks both ends of the block, and all of a small one; the inner pages of large ones stay
// untouched.
static void put_in(struct block* block, void* memory, unsigned char tag) {
  if (memory == NULL) die("out of memory");
  block->memory = memory;
  block->usable = malloc_usable_size(memory);
  block->tag = tag;
  if (block->usable <= kPage) {
    memset(memory, tag, block->usable);
  } else {
    memset(memory, tag, 64);
    memset(block->memory + block->usable - 64, tag, 64);
  }
}

static void check(const struct block* block) {
  size_t head = block->usable <= kPage ? block->usable : 64;
  for (size_t i = 0; i < head; ++i) {
    if (block->memory[i] != block->tag || block->memory[block->usable - 1 - i] != block->tag) {
      dprintf(2, "truth_target: block %p of %zu bytes is damaged\n", (void*)block->memory,
              block->usable);
      _exit(71);
    }
  }
}

static void release(struct block* block) {
  check(block);
  free(block->memory);
  block->memory = NULL;
}

static void fill_slot(struct worker* self, struct block* block) {
  put_in(block, allocate(self, random_size(self)), (unsigned char)next_random(self));
}

static void resize_slot(struct worker* self, struct block* block) {
  check(block);
  put_in(block, realloc(block->memory, random_size(self)), block->tag);
}

static void work_a_round(struct worker* self) {
  for (int i = 0; i < kOperations; ++i) {
    struct block* block = &self->blocks[below(self, kSlots)];
    if (block->memory == NULL)
      fill_slot(self, block);
    else if (below(self, 3) == 0)
      resize_slot(self, block);
    else
      release(block);
  }
}

static void note_foreign(char* begin, size_t size) {
  g_foreign[g_foreign_count].begin = begin;
  g_foreign[g_foreign_count].end = begin + size;
  ++g_foreign_count;
}

// Only the main thread runs here: the program break has no lock.
static void move_break(struct worker* self) {
  static const intptr_t kSteps[] = {4096, 100000, 16, 24, 1 << 20, 4097, 64, 8192, 4096};
  intptr_t step = kSteps[g_foreign_count];
  char* begin = sbrk(step);
  if (begin == (char*)-1) die("sbrk");
  memset(begin, (int)next_random(self), (size_t)step);
  note_foreign(begin, (size_t)step);
}

// Leaves top as the only chunk behind a foreign sbrk. Blocks of this size have no mapping of their
// own and fit into no tcache; some may still fit before the break.
static void leave_top_alone(struct worker* self) {
  enum { kMost = 64 };
  void* before[kMost];
  int count = 0;
  move_break(self);
  const char* behind = g_foreign[g_foreign_count - 1].end;
  void* memory = malloc(100000);
  while (memory != NULL && (char*)memory < behind && count < kMost) {
    before[count++] = memory;
    memory = malloc(100000);
  }
  if ((char*)memory < behind) die("top");
  free(memory);
  while (count > 0) free(before[--count]);
}

static void block_break(int protection) {
  uintptr_t end = ((uintptr_t)sbrk(0) + kPage - 1) & ~(uintptr_t)(kPage - 1);
  uint64_t* wall =
      mmap((void*)end, kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (wall != (void*)end) die("mapping behind the heap");
  note_foreign((char*)wall, kPage);
  if ((protection & PROT_WRITE) == 0) return;
  for (int i = 0; i < kPage / 8; ++i) wall[i] = 0x31;  // as if chunks of 48 bytes began everywhere
}

// While all others wait: what only one thread may do, and some blocks between.
static void disturb_break(struct worker* self, int round) {
  if (g_mode == kBlocked && round == 1) block_break(PROT_NONE);
  if (g_mode == kForeignBlocked && round == 2) block_break(PROT_READ | PROT_WRITE);
  bool moves = g_mode == kForeignBreak || (g_mode == kForeignBlocked && round < 2);
  for (int i = 0; moves && i < 2; ++i) {
    move_break(self);
    for (int k = 0; k < 200; ++k) {
      struct block* block = &self->blocks[below(self, kSlots)];
      if (block->memory == NULL) fill_slot(self, block);
    }
  }
}

// Blocks beyond the mmap threshold (128 KiB, before any such block was freed): plain ones, ones
// with an alignment that moves the header away from the mapping's begin, and ones that mremap has
// moved.
static void allocate_mapped(struct worker* self) {
  for (int i = 0; i < kMapped; ++i) {
    size_t size = 160 * 1024 + below(self, 400 * 1024);
    void* memory = i % 4 == 1 ? memalign((size_t)1024 << (i % 8), size) : malloc(size);
    put_in(&g_mapped[i], memory, (unsigned char)(i + 1));
  }
  for (int i = 0; i < kMapped; i += 3) {
    check(&g_mapped[i]);
    size_t size = i % 2 ? g_mapped[i].usable * 3 : g_mapped[i].usable - 9000;
    put_in(&g_mapped[i], realloc(g_mapped[i].memory, size), g_mapped[i].tag);
  }
}

// Everybody frees a part of the next worker's blocks, so that chunks come into the caches of
// threads of other arenas.
static void free_neighbours(struct worker* self) {
  struct worker* other = &g_workers[(self->number + 1) % g_worker_count];
  for (int i = 0; i < kSlots; ++i) {
    if (below(self, 4) != 0) continue;
    self->freed[self->freed_count++] = other->blocks[i].memory;
    release(&other->blocks[i]);
  }
}

static void churn_once(struct worker* self) {
  void** slot = &self->churned[below(self, kChurnSlots)];
  if (*slot == NULL) {
    *slot = malloc(random_size(self));
    if (*slot == NULL) die("out of memory");
    *(unsigned char*)*slot = 1;
  } else if (below(self, 4) == 0) {
    void* grown = realloc(*slot, random_size(self));
    if (grown == NULL) die("out of memory");
    *slot = grown;
  } else {
    free(*slot);
    *slot = NULL;
  }
}

static void build_heap(struct worker* self) {
  self->tid = (pid_t)syscall(SYS_gettid);
  if (self->number == 0) allocate_mapped(self);
  for (int round = 0; round < kRounds; ++round) {
    pthread_barrier_wait(&g_barrier);
    work_a_round(self);
    pthread_barrier_wait(&g_barrier);
    if (self->number == 0) disturb_break(self, round);
  }
  pthread_barrier_wait(&g_barrier);
  for (int i = 0; i < kSlots; ++i) {
    if (self->blocks[i].memory == NULL) fill_slot(self, &self->blocks[i]);
  }
  pthread_barrier_wait(&g_barrier);
  free_neighbours(self);
  pthread_barrier_wait(&g_barrier);
  if (self->number == 0 && g_mode == kForeignBreak) leave_top_alone(self);
}

static void* run_worker(void* argument) {
  struct worker* self = argument;
  build_heap(self);
  pthread_barrier_wait(&g_published);
  while (g_churn && !atomic_load_explicit(&g_stop, memory_order_relaxed)) churn_once(self);
  pthread_barrier_wait(&g_published);
  return NULL;
}

static char g_text[1 << 16];
static size_t g_text_used;

static void flush_text(void) {
  for (size_t done = 0; done < g_text_used;) {
    ssize_t wrote = write(1, g_text + done, g_text_used - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) die("standard output");
    done += (size_t)wrote;
  }
  g_text_used = 0;
}

__attribute__((format(printf, 1, 2))) static void say(const char* format, ...) {
  if (sizeof g_text - g_text_used < 256) flush_text();
  __builtin_va_list arguments;
  __builtin_va_start(arguments, format);
  g_text_used += (size_t)vsnprintf(g_text + g_text_used, 256, format, arguments);
  __builtin_va_end(arguments);
}

static int publish_block(const struct block* block) {
  if (block->memory == NULL) return 0;
  // The second lowest bit of the size in the chunk header: IS_MMAPPED.
  int is_mapped = ((const size_t*)(const void*)block->memory)[-1] & 2 ? 1 : 0;
  say("L %p %zu %c\n", (void*)block->memory, block->usable, is_mapped ? 'M' : 'U');
  return 1;
}

static void publish(void) {
  int live = 0;
  int freed = 0;
  for (int w = 0; w < g_worker_count; ++w) {
    say("T %d\n", (int)g_workers[w].tid);
    for (int i = 0; i < kSlots; ++i) live += publish_block(&g_workers[w].blocks[i]);
    for (int i = 0; i < g_workers[w].freed_count; ++i) say("F %p\n", g_workers[w].freed[i]);
    freed += g_workers[w].freed_count;
  }
  for (int i = 0; i < kMapped; ++i) live += publish_block(&g_mapped[i]);
  for (int i = 0; i < g_foreign_count; ++i)
    say("R %p %p\n", (void*)g_foreign[i].begin, (void*)g_foreign[i].end);
  say("ready %d %d\n", live, freed);
  flush_text();
}

// Until standard input ends; allocates meanwhile where that was asked for.
static void wait_for_end(struct worker* self) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  for (;;) {
    int ready = poll(&input, 1, g_churn ? 0 : -1);
    if (ready < 0 && errno != EINTR) die("poll");
    char byte;
    if (ready > 0 && read(0, &byte, 1) == 0) return;
    for (int i = 0; g_churn && i < 64; ++i) churn_once(self);
  }
}

static void check_and_free_everything(void) {
  for (int w = 0; w < g_worker_count; ++w) {
    for (int i = 0; i < kSlots; ++i) {
      if (g_workers[w].blocks[i].memory != NULL) release(&g_workers[w].blocks[i]);
    }
    for (int i = 0; i < kChurnSlots; ++i) free(g_workers[w].churned[i]);
  }
  for (int i = 0; i < kMapped; ++i) release(&g_mapped[i]);
}

// The seed; 0 when the arguments are wrong.
static uint64_t parse_arguments(int argc, char** argv) {
  static const char* const kNames[kModes] = {"plain", "foreign", "blocked", "foreign-blocked",
                                             "blocked-early"};
  uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--churn") == 0) {
      g_churn = 1;
    } else if (strcmp(argv[i], "--abort") == 0) {
      g_abort = 1;
    } else if (strcmp(argv[i], "--lone") == 0) {
      g_worker_count = 1;
    } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = strtoull(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--mode") == 0 && i + 1 < argc) {
      int mode = 0;
      while (mode < kModes && strcmp(argv[i + 1], kNames[mode]) != 0) ++mode;
      if (mode == kModes) return 0;
      g_mode = (enum mode)mode;
      ++i;
    } else {
      return 0;
    }
  }
  return seed;
}

int main(int argc, char** argv) {
  uint64_t seed = parse_arguments(argc, argv);
  if (seed == 0) {
    dprintf(2, "usage: %s [--seed N] [--mode MODE] [--churn] [--abort] [--lone]\n", argv[0]);
    return 2;
  }
  // Where Yama lets only parents look into a process: let anybody of the same user.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  if (g_mode == kBlockedEarly) block_break(PROT_NONE);
  pthread_barrier_init(&g_barrier, NULL, (unsigned)g_worker_count);
  pthread_barrier_init(&g_published, NULL, (unsigned)g_worker_count);
  pthread_t threads[kWorkers];
  for (int i = 0; i < g_worker_count; ++i) {
    g_workers[i].number = i;
    g_workers[i].random = (seed * kWorkers + (uint64_t)i + 1) * 0x9E3779B97F4A7C15u;
  }
  for (int i = 1; i < g_worker_count; ++i) {
    if (pthread_create(&threads[i], NULL, run_worker, &g_workers[i]) != 0) die("pthread_create");
  }
  build_heap(&g_workers[0]);
  publish();
  // Only now do the others churn, if they are to: what was published was still.
  if (g_churn) pthread_barrier_wait(&g_published);
  wait_for_end(&g_workers[0]);
  if (g_abort) abort();
  if (!g_churn) pthread_barrier_wait(&g_published);
  atomic_store(&g_stop, 1);
  pthread_barrier_wait(&g_published);
  for (int i = 1; i < g_worker_count; ++i) pthread_join(threads[i], NULL);
  check_and_free_everything();
  return 0;
}
