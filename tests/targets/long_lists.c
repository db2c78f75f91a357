// Frees a million small blocks, again and again, so that the next large allocation has to walk long
// lists of them: malloc_consolidate() takes milliseconds then.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBlocks = 1000000, kSmall = 40, kLarge = 100000, kNever = 1 << 30 };

static void* blocks[kBlocks];

static void consolidate(void) {
  void* volatile large = malloc(kLarge);
  free(large);
}

int main(void) {
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_MMAP_THRESHOLD, kNever);
  puts("ready");
  fflush(stdout);
  for (;;) {
    for (int i = 0; i < kBlocks; ++i) blocks[i] = malloc(kSmall);
    for (int i = 0; i < kBlocks; i += 2) free(blocks[i]);
    consolidate();
    for (int i = 1; i < kBlocks; i += 2) free(blocks[i]);
    consolidate();
  }
}
