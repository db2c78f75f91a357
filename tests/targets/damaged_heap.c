// A program that damages its own heap in one of many ways and can undo it.
//
//   damaged_heap KIND SEED [later]
//
// With `later` it says "begun" first, and does nothing of this before a line of standard input.
//
// The main thread and two others fill an arena each, so that each has used chunks, full tcache
// bins, fastbins, an unsorted list, small and large bins; the second arena has two heaps. Then KIND
// is done to the first or the second, as SEED says; the third stays sound. Standard output tells
//
//   L <address> <arena>       a live block of arena 0, 1, 2, or M: in a mapping of its own
//   A <address> <arena>       the malloc_state of an arena
//   D <address> <arena>       a word that was changed, and which arena it belongs to
//   ready                     from here on the heap holds still
//
// or "unfit" and why, where this C library's malloc is not laid out as it is here (2.27 to 2.41).
//
// At the end of standard input all words are put back, every block is checked and freed, and the
// exit code is 0 if nothing else changed. At a line "abort" it dies of SIGABRT to leave a core.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  kArenas = 3,
  kLive = 1000,  // blocks of an arena
  kFiller = 60,  // blocks that push the second arena into a second heap
  kFillerSize = 1100 << 10,
  kMapped = 3,
  kThreshold = 0x12d680,  // of mmap; a number that nothing else is
  kMappedSize = 2 << 20,
  kInBin = 9,  // freed blocks of a size: seven to the tcache, the others further on
  kPage = 4096,
  kWords = 512,
};

typedef uint64_t word;

// struct malloc_state, malloc_par, _heap_info and tcache_perthread_struct of glibc 2.27 to 2.41, in
// words.
enum {
  kFastbins = 2,
  kTop = 12,
  kLastRemainder = 13,
  kBins = 14,
  kBinmap = 268,
  kNext = 270,
  kNextFree = 271,
  kSystemMem = 273
};
enum { kParThreshold = 2, kParMmappedMem = 10, kParSbrkBase = 12 };
enum { kParMmapsHalf = 15 };  // int n_mmaps, in halves of words
enum { kHeapArena = 0, kHeapPrevious = 1, kHeapSize = 2, kHeapWritable = 3 };
enum { kTcacheEntries = 16 };

struct arena {
  word* state;
  char* live[kLive + kFiller];
  int count;
  char* unsorted[2];  // memory of chunks in the unsorted list
  char* small;        // in a small bin
  char* large;        // in a large bin, the first of its size
  char* fast[kInBin];
  word* tcache;
};

static struct arena arenas[kArenas];
static char* mapped[kMapped];
static word* malloc_par;
static uint64_t random_state;
static struct {
  word* at;
  word old;
} changed[kWords];
static int change_count;
static pthread_barrier_t filled, ending;

static uint64_t draw(uint64_t below) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state % below;
}

static void unfit(const char* why) {
  printf("unfit: %s\n", why);
  exit(0);
}

static word* header(char* memory) {
  return (word*)memory - 2;
}

static word* size_field(char* memory) {
  return (word*)memory - 1;
}

static word* next_header(char* memory) {
  return (word*)((char*)header(memory) + (*size_field(memory) & ~(word)7));
}

static char* keep(struct arena* arena, size_t size) {
  char* memory = malloc(size);
  if (memory == NULL) exit(70);
  memset(memory, 0x5a, size < kPage ? size : kPage);
  return arena->live[arena->count++] = memory;
}

// Blocks of a size with used ones between them.
static void allocate_bin(struct arena* arena, size_t size, char** blocks) {
  for (int i = 0; i < kInBin; ++i) {
    blocks[i] = malloc(size);
    keep(arena, 40);
  }
}

static void free_bin(char** blocks) {
  for (int i = 0; i < kInBin; ++i) free(blocks[i]);
}

static word* heap_of(char* memory) {
  return (word*)((uintptr_t)memory & ~(uintptr_t)((64 << 20) - 1));
}

// Uses up what is left of the heap before the one that the last block is in.
static void use_up_heap(struct arena* arena) {
  static const size_t sizes[] = {100000, 1000, 40};
  const word* const heap = heap_of(arena->live[arena->count - 1]);
  for (int i = 0; i < 3; ++i) {
    while (heap_of(keep(arena, sizes[i])) != heap) continue;
  }
}

static void fill(struct arena* arena, bool is_long) {
  char* small[kInBin];
  char* large[kInBin];
  char* unsorted[kInBin];
  for (int i = 0; i < kLive - 300; ++i) keep(arena, 16 + draw(900));
  if (is_long) {
    for (int i = 0; i < kFiller; ++i) keep(arena, kFillerSize);
    use_up_heap(arena);
  }
  allocate_bin(arena, 56, arena->fast);
  allocate_bin(arena, 600, small);
  allocate_bin(arena, 3000, large);
  allocate_bin(arena, 800, unsorted);
  free_bin(small);
  free_bin(large);
  keep(arena, 40000);  // sorts what was freed into the bins
  free_bin(arena->fast);
  free_bin(unsorted);
  arena->small = small[kInBin - 1];
  for (int i = 0; i < kInBin; ++i) {
    if (((volatile word*)large[i])[2] != 0) arena->large = large[i];
  }
  memcpy(arena->unsorted, unsorted + kInBin - 2, sizeof arena->unsorted);
}

static void* run_thread(void* argument) {
  struct arena* const arena = argument;
  fill(arena, arena == &arenas[1]);
  arena->state = (word*)heap_of(arena->live[0])[kHeapArena];
  pthread_barrier_wait(&filled);
  pthread_barrier_wait(&ending);
  return NULL;
}

static void find_counters(void) {
  arenas[0].state = (word*)arenas[1].state[kNext];  // a new one becomes the main arena's next
  if ((word*)arenas[2].state[kNext] != arenas[1].state ||
      (word*)arenas[0].state[kNext] != arenas[2].state) {
    unfit("the ring of arenas is not where it was looked for");
  }
  for (word* at = arenas[0].state - kPage / 8; at < arenas[0].state + kPage; ++at) {
    if (*at == kThreshold) malloc_par = at - kParThreshold;
  }
  if (malloc_par == NULL || ((uint32_t*)malloc_par)[kParMmapsHalf] != kMapped)
    unfit("mp_ is not laid out so");
  for (int i = 0; i < kArenas; ++i) {
    word* const heap = i == 0 ? (word*)malloc_par[kParSbrkBase] : NULL;
    char* const first = (char*)arenas[i].state + 2200;
    arenas[i].tcache = heap != NULL ? heap + 2 : (word*)(((uintptr_t)first + 15 + 16) & ~15UL);
    if ((arenas[i].tcache[-1] & ~(word)7) != 0x290)
      unfit("the tcache is not where it was looked for");
    if (arenas[i].state[kSystemMem] < 0x21000) unfit("system_mem is not where it was looked for");
  }
}

static void change(word* at, word value) {
  if (change_count == kWords) exit(71);
  changed[change_count].at = at;
  changed[change_count++].old = *at;
  *at = value;
}

static word hidden(const word* at, const void* link) {
  return ((uintptr_t)at >> 12) ^ (uintptr_t)link;
}

// A used chunk with used ones before and behind it.
static char* any_used(const struct arena* arena) {
  return arena->live[20 + draw(600)];
}

static void damage_chunk(struct arena* arena, const char* kind) {
  char* const used = any_used(arena);
  word* const size = size_field(used);
  if (strcmp(kind, "size_zero") == 0) change(size, *size & 7);
  if (strcmp(kind, "size_huge") == 0) change(size, (*size & 7) | 1ULL << (20 + draw(43)));
  if (strcmp(kind, "size_small") == 0) change(size, *size - 16);
  if (strcmp(kind, "size_grown") == 0) change(size, *size + 16 * (1 + draw(20)));
  if (strcmp(kind, "size_odd") == 0) change(size, *size | 8);
  if (strcmp(kind, "size_random") == 0) change(size, draw(UINT64_MAX));
  if (strcmp(kind, "size_mmapped") == 0) change(size, *size | 2);
  if (strcmp(kind, "size_other_arena") == 0) change(size, *size ^ 4);
  if (strcmp(kind, "in_use_cleared") == 0)
    change(next_header(used) + 1, next_header(used)[1] & ~(word)1);
  if (strcmp(kind, "in_use_set") == 0) {
    word* const next = next_header(arena->unsorted[0]) + 1;
    change(next, *next | 1);
  }
  if (strcmp(kind, "footer") == 0) {
    word* const footer = next_header(arena->small);
    change(footer, *footer + 16 * (1 + draw(50)));
  }
  if (strcmp(kind, "text_over_headers") == 0 || strcmp(kind, "zeros_over_headers") == 0) {
    const word value = kind[0] == 't' ? 0x4141414141414141 : 0;
    for (int i = 0; i < 200; ++i) change(size + i, value);
  }
}

static void damage_bins(struct arena* arena, const char* kind) {
  word* const unsorted = (word*)arena->unsorted[draw(2)];
  word* const state = arena->state;
  if (strcmp(kind, "fd_loop") == 0) change(unsorted, (word)header((char*)unsorted));
  if (strcmp(kind, "fd_null") == 0) change(unsorted, 0);
  if (strcmp(kind, "fd_wild") == 0) change(unsorted, draw(UINT64_MAX) & ~(word)15);
  if (strcmp(kind, "fd_other_chunk") == 0) change(unsorted, (word)header(any_used(arena)));
  if (strcmp(kind, "bk_loop") == 0) change(unsorted + 1, (word)header((char*)unsorted));
  if (strcmp(kind, "bin_fd_wild") == 0) change(state + kBins, draw(UINT64_MAX));
  if (strcmp(kind, "bin_null") == 0) {
    change(state + kBins, 0);
    change(state + kBins + 1, 0);
  }
  if (strcmp(kind, "bins_zeroed") == 0) {
    for (int i = 0; i < 254; ++i) change(state + kBins + i, 0);
  }
  if (strcmp(kind, "binmap") == 0) change(state + kBinmap, draw(UINT64_MAX));
  if (strcmp(kind, "last_remainder") == 0) change(state + kLastRemainder, draw(UINT64_MAX));
  word* const fast_head = state + kFastbins + 2;  // of chunks of 64 bytes
  if (*fast_head == 0) unfit("no fastbin is filled");
  word* const first_fast = (word*)*fast_head + 2;
  if (strcmp(kind, "fastbin_loop") == 0) change(first_fast, hidden(first_fast, (word*)*fast_head));
  if (strcmp(kind, "fastbin_wild") == 0) change(first_fast, draw(UINT64_MAX));
  if (strcmp(kind, "fastbin_head") == 0) change(fast_head, *fast_head + 8);
  if (strcmp(kind, "fastbin_other_arena") == 0) change(fast_head, (word)header(arenas[2].live[5]));
}

// Lists that no walk follows, and the chunks beside free ones.
static void damage_free_chunks(struct arena* arena, const char* kind) {
  word* const small = (word*)arena->small;
  word* const large = (word*)arena->large;
  word* const unsorted = (word*)arena->unsorted[draw(2)];
  word* const bins = arena->state + kBins;
  word* const small_bin = bins + 2 * (608 / 16 - 1);  // glibc: bin_at (m, smallbin_index (608))
  word* const large_bin = bins + 2 * (48 + 3008 / 64 - 1);  // largebin_index (3008)
  if (*small_bin == (word)(small_bin - 2) || *large_bin == (word)(large_bin - 2) || large == NULL)
    unfit("a bin is not where it was looked for");
  if (strcmp(kind, "small_fd") == 0) change(small, draw(UINT64_MAX));
  if (strcmp(kind, "small_bk") == 0) change(small + 1, (word)header(any_used(arena)));
  if (strcmp(kind, "small_size") == 0) change(small - 1, small[-1] + 32);
  if (strcmp(kind, "small_size_huge") == 0) change(small - 1, 1ULL << (26 + draw(36)) | 1);
  if (strcmp(kind, "small_mmapped") == 0) change(small - 1, small[-1] | 2);
  if (strcmp(kind, "small_other_arena") == 0) change(small - 1, small[-1] ^ 4);
  if (strcmp(kind, "small_behind_free") == 0) change(small - 1, small[-1] ^ 1);
  if (strcmp(kind, "small_bin_fd") == 0) change(small_bin, draw(UINT64_MAX));
  if (strcmp(kind, "small_bin_bk") == 0) change(small_bin + 1, draw(UINT64_MAX));
  if (strcmp(kind, "small_bin_null") == 0) {
    change(small_bin, 0);
    change(small_bin + 1, 0);
  }
  if (strcmp(kind, "large_fd") == 0) change(large, draw(UINT64_MAX));
  if (strcmp(kind, "large_bk") == 0) change(large + 1, draw(UINT64_MAX));
  if (strcmp(kind, "large_fd_nextsize") == 0) change(large + 2, draw(UINT64_MAX));
  if (strcmp(kind, "large_bk_nextsize") == 0) change(large + 3, (word)header(any_used(arena)));
  if (strcmp(kind, "large_nextsize_null") == 0) change(large + 2, 0);
  if (strcmp(kind, "large_size") == 0) change(large - 1, large[-1] + 16 * (1 + draw(90)));
  if (strcmp(kind, "large_bin_fd") == 0) change(large_bin, draw(UINT64_MAX));
  if (strcmp(kind, "large_bin_bk") == 0) change(large_bin + 1, draw(UINT64_MAX));
  if (strcmp(kind, "unsorted_size") == 0) change(unsorted - 1, unsorted[-1] + 16 * (1 + draw(50)));
  if (strcmp(kind, "unsorted_size_huge") == 0) change(unsorted - 1, 1ULL << (26 + draw(36)) | 1);
  if (strcmp(kind, "unsorted_bk") == 0) change(unsorted + 1, draw(UINT64_MAX));
  if (strcmp(kind, "unsorted_text") == 0) {
    for (int i = -1; i < 100; ++i) change(unsorted + i, 0x4141414141414141);
  }
  char* const free_ones[] = {arena->small, arena->large, arena->unsorted[0],
                             arena->fast[kInBin - 1]};
  word* const behind = next_header(free_ones[draw(4)]) + 1;
  if (strcmp(kind, "behind_size_zero") == 0) change(behind, *behind & 7);
  if (strcmp(kind, "behind_size_huge") == 0)
    change(behind, (*behind & 7) | 1ULL << (26 + draw(36)));
  if (strcmp(kind, "behind_size_odd") == 0) change(behind, *behind | 8);
  word* const fast = size_field(arena->fast[kInBin - 1]);
  if (strcmp(kind, "fast_size") == 0) change(fast, *fast + 16);
  if (strcmp(kind, "fast_size_huge") == 0) change(fast, (*fast & 7) | 1ULL << (26 + draw(36)));
  if (strcmp(kind, "fast_other_arena") == 0) change(fast, *fast ^ 4);
  if (strcmp(kind, "fast_behind_free") == 0) change(fast, *fast ^ 1);
}

static void damage_tcache(struct arena* arena, const char* kind) {
  word* const tcache = arena->tcache;
  uint16_t* const count = (uint16_t*)tcache + 2;  // of chunks of 64 bytes
  word* const entry = tcache + kTcacheEntries + 2;
  if (*entry == 0) unfit("no bin of the tcache is filled");
  word* const first = (word*)*entry;
  word counts = tcache[0];
  ((uint16_t*)&counts)[count - (uint16_t*)tcache] = draw(2) == 0 ? 0xffff : 3;
  if (strcmp(kind, "tcache_count") == 0) change(tcache, counts);
  if (strcmp(kind, "tcache_key") == 0) change(first + 1, draw(UINT64_MAX));
  if (strcmp(kind, "tcache_head_wild") == 0) change(entry, draw(UINT64_MAX));
  if (strcmp(kind, "tcache_head_odd") == 0) change(entry, *entry + 8);
  if (strcmp(kind, "tcache_loop") == 0) change(first, hidden(first, first));
  if (strcmp(kind, "tcache_link_wild") == 0) change(first, draw(UINT64_MAX));
  if (strcmp(kind, "tcache_other_size") == 0) change(entry, (word)arena->unsorted[0]);
  if (strcmp(kind, "tcache_and_fastbin") == 0) change(entry, arena->state[kFastbins + 2] + 16);
  if (strcmp(kind, "tcache_text") == 0) {
    for (int i = 0; i < 80; ++i) change(tcache + i, 0x4141414141414141);
  }
}

static void damage_arena(struct arena* arena, const char* kind) {
  word* const state = arena->state;
  word* const top = (word*)state[kTop];
  if (strcmp(kind, "top_null") == 0) change(state + kTop, 0);
  if (strcmp(kind, "top_wild") == 0) change(state + kTop, draw(UINT64_MAX) & ~(word)15);
  if (strcmp(kind, "top_odd") == 0) change(state + kTop, state[kTop] + 8);
  if (strcmp(kind, "top_early") == 0) change(state + kTop, (word)header(any_used(arena)));
  if (strcmp(kind, "top_size_zero") == 0) change(top + 1, 1);
  if (strcmp(kind, "top_size_huge") == 0) change(top + 1, (1ULL << (30 + draw(33))) | 1);
  if (strcmp(kind, "top_size_small") == 0) change(top + 1, 17);
  if (strcmp(kind, "top_size_unaligned") == 0) change(top + 1, top[1] + 16 * (1 + draw(100)));
  if (strcmp(kind, "top_behind_free") == 0) change(top + 1, top[1] & ~(word)1);
  if (strcmp(kind, "lock") == 0) change(state, state[0] | (1 + draw(UINT32_MAX - 1)));
  if (strcmp(kind, "flags") == 0) change(state, state[0] ^ 2ULL << 32);
  if (strcmp(kind, "next_free_wild") == 0) change(state + kNextFree, draw(UINT64_MAX) & ~(word)15);
  if (strcmp(kind, "system_mem_small") == 0) change(state + kSystemMem, kPage);
  if (strcmp(kind, "next_self") == 0) change(state + kNext, (word)state);
  if (strcmp(kind, "next_null") == 0) change(state + kNext, 0);
  if (strcmp(kind, "next_wild") == 0) change(state + kNext, draw(UINT64_MAX) & ~(word)15);
  if (strcmp(kind, "system_mem") == 0) change(state + kSystemMem, draw(UINT64_MAX));
  if (strcmp(kind, "system_mem_near") == 0) change(state + kSystemMem, state[kSystemMem] + kPage);
}

// Of the second arena: `last` is the heap that holds top.
static void damage_heaps(const char* kind) {
  if (strncmp(kind, "heap_", 5) != 0) return;
  word* const last = heap_of((char*)arenas[1].state[kTop]);
  word* const first = (word*)last[kHeapPrevious];
  if (first == NULL) unfit("the second arena has one heap");
  if (strcmp(kind, "heap_arena") == 0) change(last + kHeapArena, draw(UINT64_MAX));
  if (strcmp(kind, "heap_arena_other") == 0) change(first + kHeapArena, (word)arenas[2].state);
  if (strcmp(kind, "heap_previous_loop") == 0) change(last + kHeapPrevious, (word)last);
  if (strcmp(kind, "heap_previous_null") == 0) change(last + kHeapPrevious, 0);
  if (strcmp(kind, "heap_previous_wild") == 0) change(last + kHeapPrevious, draw(UINT64_MAX));
  if (strcmp(kind, "heap_size_huge") == 0) change(last + kHeapSize, 1ULL << (27 + draw(36)));
  if (strcmp(kind, "heap_size_zero") == 0) change(last + kHeapSize, 0);
  if (strcmp(kind, "heap_writable_huge") == 0)
    change(last + kHeapWritable, 1ULL << (27 + draw(36)));
  if (strcmp(kind, "heap_fence") == 0) change(first + first[kHeapSize] / 8 - 1, draw(UINT64_MAX));
}

static void damage_mapped(const char* kind) {
  word* const size = size_field(mapped[draw(kMapped)]);
  if (strcmp(kind, "mapped_size_zero") == 0) change(size, 2);
  if (strcmp(kind, "mapped_size_huge") == 0) change(size, (1ULL << (23 + draw(40))) | 2);
  if (strcmp(kind, "mapped_not_marked") == 0) change(size, *size & ~(word)2);
  if (strcmp(kind, "mapped_offset") == 0) change(size - 1, draw(UINT64_MAX));
  if (strcmp(kind, "counters_count") == 0)
    change(malloc_par + kParMmapsHalf / 2, draw(UINT64_MAX) << 32);
  if (strcmp(kind, "counters_bytes") == 0) change(malloc_par + kParMmappedMem, draw(UINT64_MAX));
  if (strcmp(kind, "sbrk_base_wild") == 0) change(malloc_par + kParSbrkBase, draw(UINT64_MAX));
  if (strcmp(kind, "sbrk_base_late") == 0)
    change(malloc_par + kParSbrkBase, (word)header(any_used(&arenas[0])));
}

static void print_state(int damaged) {
  static char text[1 << 18];
  int at = 0;
  for (int i = 0; i < kArenas; ++i) {
    at += snprintf(text + at, sizeof text - (size_t)at, "A %p %d\n", (void*)arenas[i].state, i);
    for (int k = 0; k < arenas[i].count; ++k) {
      at += snprintf(text + at, sizeof text - (size_t)at, "L %p %d\n", (void*)arenas[i].live[k], i);
    }
  }
  for (int i = 0; i < kMapped; ++i)
    at += snprintf(text + at, sizeof text - (size_t)at, "L %p M\n", (void*)mapped[i]);
  for (int i = 0; i < change_count; ++i) {
    at += snprintf(text + at, sizeof text - (size_t)at, "D %p %d\n", (void*)changed[i].at, damaged);
  }
  at += snprintf(text + at, sizeof text - (size_t)at, "ready\n");
  for (int done = 0; done < at;) {
    const ssize_t written = write(1, text + done, (size_t)(at - done));
    if (written <= 0) _exit(70);
    done += (int)written;
  }
}

static void wait_for_end(void) {
  char line[16];
  const ssize_t got = read(0, line, sizeof line);
  if (got > 0 && line[0] == 'a') abort();
}

static void check_and_free(char* memory) {
  for (const char* at = memory; at < memory + 16; ++at) {
    if (*at != 0x5a) _exit(72);
  }
  free(memory);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* const kind = argv[1];
  random_state = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15 + 0x2545f4914f6cdd1d;
  setvbuf(stdout, NULL, _IONBF, 0);
  if (argc > 3) {
    char line[2];
    puts("begun");
    if (read(0, line, 1) != 1) return 70;
  }
  mallopt(M_MMAP_THRESHOLD, kThreshold);
  pthread_barrier_init(&filled, NULL, 2);
  pthread_barrier_init(&ending, NULL, kArenas);
  pthread_t threads[kArenas];
  for (int i = 1; i < kArenas; ++i) {
    if (pthread_create(&threads[i], NULL, run_thread, &arenas[i]) != 0) return 70;
    pthread_barrier_wait(&filled);
  }
  for (int i = 0; i < kMapped; ++i) {
    mapped[i] = malloc(kMappedSize);
    memset(mapped[i], 0x5a, kPage);
  }
  fill(&arenas[0], false);
  find_counters();

  int damaged = (int)draw(2);
  if (strncmp(kind, "heap_", 5) == 0) damaged = 1;
  if (strncmp(kind, "sbrk_", 5) == 0) damaged = 0;
  damage_chunk(&arenas[damaged], kind);
  damage_bins(&arenas[damaged], kind);
  damage_free_chunks(&arenas[damaged], kind);
  damage_tcache(&arenas[damaged], kind);
  damage_arena(&arenas[damaged], kind);
  damage_heaps(kind);
  damage_mapped(kind);
  if (change_count == 0 && strcmp(kind, "sound") != 0) return 2;
  print_state(damaged);
  wait_for_end();

  while (change_count-- > 0) *changed[change_count].at = changed[change_count].old;
  pthread_barrier_wait(&ending);
  for (int i = 1; i < kArenas; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kArenas; ++i) {
    for (int k = 0; k < arenas[i].count; ++k) check_and_free(arenas[i].live[k]);
  }
  for (int i = 0; i < kMapped; ++i) check_and_free(mapped[i]);
  return 0;
}
