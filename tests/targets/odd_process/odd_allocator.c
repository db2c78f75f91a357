// Kinds that use the allocator or the loader in ways that few do.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "odd_process.h"

static void* churn_until_over(void* unused) {
  (void)unused;
  while (!is_over()) churn();
  return NULL;
}

// Sixteen threads that share two arenas.
static void few_arenas(void) {
  mallopt(M_ARENA_MAX, 2);
  pthread_t threads[16];
  for (int i = 0; i < 16; ++i) pthread_create(&threads[i], NULL, churn_until_over, NULL);
  say_ready();
  for (int i = 0; i < 16; ++i) pthread_join(threads[i], NULL);
}

static void changing_settings(void) {
  say_ready();
  for (int round = 0; !is_over(); ++round) {
    EXPECT_EQUAL(mallopt(M_MMAP_THRESHOLD, 1024 << (round % 8)), 1);
    EXPECT_EQUAL(mallopt(M_TRIM_THRESHOLD, 4096 << (round % 4)), 1);
    EXPECT_EQUAL(mallopt(M_PERTURB, round % 256), 1);
    EXPECT_EQUAL(mallopt(M_MXFAST, round % 2 * 80), 1);
    churn();
    if (round % 16 == 0) malloc_trim(0);
  }
}

// A long list of chunks in one fastbin, and the end of each in turn.
static void long_fastbin(void) {
  enum { kChunks = 300000 };
  static void* chunks[kChunks];
  for (int i = 0; i < kChunks; ++i) chunks[i] = malloc(40);
  for (int i = 0; i < kChunks; ++i) free(chunks[i]);
  say_ready();
  while (!is_over()) {
    for (int i = 0; i < 1000; ++i) {
      chunks[i] = malloc(40);
      memset(chunks[i], i & 255, 40);
    }
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQUAL(((unsigned char*)chunks[i])[39], i & 255);
      free(chunks[i]);
    }
    did();
  }
}

// Moves the end of the data segment itself, between calls of malloc.
static void own_break(void) {
  enum { kSize = 8192 };
  unsigned char* kept[64] = {NULL};
  say_ready();
  for (unsigned round = 0; !is_over(); ++round) {
    churn();
    if (round < 64) {
      kept[round] = sbrk(kSize);
      if (kept[round] != (void*)-1) memset(kept[round], (int)round, kSize);
    }
    for (unsigned i = 0; i < 64 && i <= round; ++i) {
      EXPECT(kept[i] != (void*)-1 && kept[i][0] == i && kept[i][kSize - 1] == i);
    }
    unsigned char* const more = sbrk(0);
    EXPECT(more != (void*)-1);
  }
}

// Loads and unloads libraries all the time.
static void* load_and_unload(void* name) {
  while (!is_over()) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
      wrong(__FILE__, __LINE__, "dlopen", errno);
      continue;
    }
    EXPECT_EQUAL(dlclose(library), 0);
    churn();
  }
  return NULL;
}
static void loading_libraries(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, load_and_unload, (void*)"libresolv.so.2");
  say_ready();
  load_and_unload((void*)"libutil.so.1");
  pthread_join(thread, NULL);
}

// In a namespace of the loader, where each library has a C library and a malloc of its own. Nobody
// gives back what that malloc had from the kernel: it is unmapped here, or a debugger beside would
// soon have gigabytes to read.
static void loader_namespaces(void) {
  say_ready();
  while (!is_over()) {
    void* const library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    if (library == NULL) {
      wrong(__FILE__, __LINE__, "dlmopen", errno);
      continue;
    }
    void* (*allocate)(size_t) = NULL;
    void (*release)(void*) = NULL;
    struct mallinfo2 (*statistics)(void) = NULL;
    *(void**)&allocate = dlsym(library, "malloc");
    *(void**)&release = dlsym(library, "free");
    *(void**)&statistics = dlsym(library, "mallinfo2");
    void* const block = allocate(1000);
    EXPECT(block != NULL);
    release(block);
    // The first block lies in the first page of its arena.
    void* const arena = (void*)((uintptr_t)block & -(uintptr_t)sysconf(_SC_PAGESIZE));
    const size_t size = statistics().arena;
    EXPECT_EQUAL(dlclose(library), 0);
    EXPECT_EQUAL(munmap(arena, size), 0);
    churn();
  }
}

static void* keep_reading_statistics(void* unused) {
  (void)unused;
  while (!is_over()) {
    const struct mallinfo2 info = mallinfo2();
    EXPECT(info.uordblks + info.fordblks <= info.arena + ((size_t)1 << 20));
    did();
  }
  return NULL;
}
static void reading_statistics(void) {
  start_thread(keep_reading_statistics, NULL);
  say_ready();
  while (!is_over()) churn();
}

// Plain work; by what it is started is the odd thing.
static void plain(void) {
  say_ready();
  while (!is_over()) churn();
}
static void plain_threads(void) {
  start_thread(churn_until_over, NULL);
  start_thread(churn_until_over, NULL);
  say_ready();
  churn_until_over(NULL);
}

const struct Kind allocator_kinds[] = {{"few_arenas", few_arenas},
                                       {"changing_settings", changing_settings},
                                       {"long_fastbin", long_fastbin},
                                       {"own_break", own_break},
                                       {"loading_libraries", loading_libraries},
                                       {"loader_namespaces", loader_namespaces},
                                       {"reading_statistics", reading_statistics},
                                       {"plain", plain},
                                       {"plain_threads", plain_threads},
                                       {NULL, NULL}};
