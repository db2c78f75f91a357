/* Runs Python from a library, ends it, and then unloads and loads that library again and again while
   other threads allocate:

       interpreter_unloader LIBRARY ROUNDS

   Writes its pid when Python runs, waits for a line, and writes "unloaded" in the end. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kThreads = 4 };
static atomic_int is_over;

static void* allocate(void* unused) {
  (void)unused;
  while (!atomic_load(&is_over)) {
    void* volatile block = malloc(64);
    free(block);
  }
  return NULL;
}

static void* open_library(const char* path) {
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  return library;
}

static void run_python(void* library) {
  /* Extension modules would keep the library. */
  int* no_site = dlsym(library, "Py_NoSiteFlag");
  void (*initialize)(int);
  int (*finalize)(void);
  *(void**)&initialize = dlsym(library, "Py_InitializeEx");
  *(void**)&finalize = dlsym(library, "Py_FinalizeEx");
  if (no_site == NULL || initialize == NULL || finalize == NULL) exit(3);
  *no_site = 1;
  initialize(0);
  printf("%d\n", (int)getpid());
  fflush(stdout);
  getchar();
  finalize();
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  if (argc != 3) return 1;
  void* library = open_library(argv[1]);
  run_python(library);
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, allocate, NULL);
  dlclose(library);
  if (dlopen(argv[1], RTLD_LAZY | RTLD_NOLOAD) != NULL) return 4; /* it is still there */
  for (int left = atoi(argv[2]); left > 0; --left) {
    library = open_library(argv[1]);
    usleep(200);
    dlclose(library);
  }
  atomic_store(&is_over, 1);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  puts("unloaded");
  return 0;
}
