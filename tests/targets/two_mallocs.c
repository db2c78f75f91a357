// A process with a second malloc in it: two_mallocs LIBRARY loads LIBRARY (namespace_blocks) by
// dlmopen(3) into a namespace, and so with a C library, of its own. Both print their blocks, then
// comes "ready"; ends with standard input. It lives without LIBRARY too (libc_malloc_debug).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  for (int i = 1; i <= 300; ++i) {
    void* block = malloc((size_t)i * 50);
    if (block == NULL) return 1;
    printf("%p %zu\n", block, malloc_usable_size(block));
  }
  fflush(stdout);
  if (argc > 1) {
    void* library = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
    if (library == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    int (*print_blocks)(int, int) = (int (*)(int, int))dlsym(library, "print_blocks");
    if (print_blocks == NULL || print_blocks(300, 70) != 0) return 1;
  }
  puts("ready");
  fflush(stdout);
  return getchar() == EOF ? 0 : 1;
}
