// Allocates by the C library of the link-map namespace that it was loaded into.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

// Prints `count` new blocks, a line each: pointer, malloc_usable_size.
int print_blocks(int count, int step);
int print_blocks(int count, int step) {
  for (int i = 0; i < count; ++i) {
    void* block = malloc((size_t)(i + 1) * (size_t)step);
    if (block == NULL) return 1;
    printf("%p %zu\n", block, malloc_usable_size(block));
  }
  fflush(stdout);
  return 0;
}
