// Loads a library (relocated_library) by dlmopen(3) into a new namespace, and so with a C library
// of its own, unloads it, and loads it again: namespace_reloader LIBRARY. Says "loaded" after each
// load and ends with standard input after the second.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void* load(const char* path) {
  void* library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  if (write(1, "loaded\n", 7) != 7) return NULL;
  return library;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  void* library = load(argv[1]);
  if (library == NULL || dlclose(library) != 0 || load(argv[1]) == NULL) return 1;
  char byte;
  return read(0, &byte, 1) == 0 ? 0 : 1;
}
