// A process of which no thread lives for long: each starts the next one and ends, the first of all
// among them. Says "ready"; ends by 0 when its standard input does.
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void* run(void* unused) {
  struct pollfd input = {STDIN_FILENO, POLLIN, 0};
  if (poll(&input, 1, 0) != 0) exit(0);
  free(malloc(1000));
  usleep(2000);
  pthread_t next;
  while (pthread_create(&next, NULL, run, NULL) != 0) {
  }
  pthread_detach(next);
  // The two live side by side for a moment.
  usleep(2000);
  return unused;
}

int main(void) {
  puts("ready");
  fflush(stdout);
  run(NULL);
  pthread_exit(NULL);
}
