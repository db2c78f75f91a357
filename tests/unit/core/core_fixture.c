/* A process to make cores of. Prints, one a line:
     buffer ADDRESS SIZE        filled so that the byte at offset i is i * 7 + 1
     thread TID THREAD_POINTER  of each of its two threads
     ready
   then waits for the end of its input. With an argument it ends by abort() instead of waiting. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t told;

static void tell_thread(void) {
  printf("thread %d %p\n", gettid(), __builtin_thread_pointer());
}

static void* second_thread(void* unused) {
  (void)unused;
  tell_thread();
  pthread_barrier_wait(&told);
  for (;;) {
    pause();
  }
  return NULL;
}

int main(int argc, char** argv) {
  (void)argv;
  const size_t size = 300001;
  unsigned char* buffer = malloc(size);
  for (size_t i = 0; i < size; ++i) buffer[i] = (unsigned char)(i * 7 + 1);
  printf("buffer %p %zu\n", (void*)buffer, size);
  tell_thread();
  pthread_t thread;
  pthread_barrier_init(&told, NULL, 2);
  if (pthread_create(&thread, NULL, second_thread, NULL) != 0) return 1;
  pthread_barrier_wait(&told);
  puts("ready");
  fflush(stdout);
  if (argc > 1) abort();
  while (getchar() != EOF) {
  }
  return 0;
}
