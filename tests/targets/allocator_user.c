// Allocates by every entry point that C programs have, and looks whether each block is one of the
// allocator that the program is bound to: writes it to its end, has it grown, shrunk and freed, by
// other threads too. Prints how much of that glibc's own heap holds and "ready", and ends with its
// standard input.
//
// allocator_user: all that glibc has. OWN_ENTRY_POINTS_ONLY: what every C library has.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRounds = 7, kKept = 4000, kKeptSize = 1000 };

static void fail(const char* what) {
  fprintf(stderr, "FAILED: %s\n", what);
  exit(1);
}

static void* check(void* block, size_t size, size_t alignment, const char* what) {
  if (block == NULL || (uintptr_t)block % alignment != 0) fail(what);
  if (malloc_usable_size(block) < size) fail(what);
  memset(block, 0x5a, size);
  return block;
}

static void* resized(void* block, size_t before, size_t size) {
  unsigned char* moved = realloc(block, size);
  if (moved == NULL) fail("realloc");
  for (size_t i = 0; i < before && i < size; ++i) {
    if (moved[i] != 0x5a) fail("realloc lost bytes");
  }
  return check(moved, size, 1, "realloc");
}

static void* all_entry_points(void* unused) {
  static const size_t kSizes[] = {1, 24, 100, 4096, 40000, 300000, 700000};
  for (int round = 0; round < kRounds; ++round) {
    const size_t size = kSizes[round % (sizeof kSizes / sizeof *kSizes)];
    const size_t next = kSizes[(round + 3) % (sizeof kSizes / sizeof *kSizes)];
    free(resized(check(malloc(size), size, 16 < size ? 16 : 1, "malloc"), size, next));
    free(resized(check(calloc(size, 1), size, 1, "calloc"), size, next));
    free(resized(check(realloc(NULL, size), size, 1, "realloc of nothing"), size, next));
    free(resized(
        check(aligned_alloc(4096, (size + 4095) / 4096 * 4096), size, 4096, "aligned_alloc"), size,
        next));
    void* block = NULL;
    if (posix_memalign(&block, 4096, size) != 0) fail("posix_memalign");
    free(resized(check(block, size, 4096, "posix_memalign"), size, next));
#ifndef OWN_ENTRY_POINTS_ONLY
    free(check(memalign(64, size), size, 64, "memalign"));
    free(check(reallocarray(NULL, size, 2), 2 * size, 1, "reallocarray"));
    free(resized(check(valloc(size), size, 4096, "valloc"), size, next));
#endif
    char* text = strdup("a copy that the C library makes");
    free(text);
    free(NULL);
  }
  return unused;
}

int main(void) {
  static void* kept[kKept];
  pthread_t threads[3];
  all_entry_points(NULL);
  for (int i = 0; i < 3; ++i) {
    if (pthread_create(&threads[i], NULL, all_entry_points, NULL) != 0) fail("pthread_create");
  }
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kKept; ++i) kept[i] = check(malloc(kKeptSize), kKeptSize, 16, "malloc");
#ifdef OWN_ENTRY_POINTS_ONLY
  printf("glibc 0\n");
#else
  printf("glibc %zu\n", (size_t)mallinfo2().uordblks);
#endif
  printf("ready\n");
  fflush(stdout);
  char* line = NULL;
  size_t room = 0;
  while (getline(&line, &room, stdin) > 0) {
  }
  free(line);
  for (int i = 0; i < kKept; ++i) free(kept[i]);
  return 0;
}
