// A library that tests/e2e/tracking.py loads, has allocate a block, and unloads again.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void* unloaded_alloc(size_t size) {
  void* memory = malloc(size);
  if (memory != NULL) memset(memory, 0x5a, size);
  return memory;
}
