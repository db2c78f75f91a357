// A library that waits while it is being loaded, and says by which name the loader has it.
//
// Its constructor says "loading NAME" and goes on when somebody has opened the FIFO of the variable
// SLOW_LIBRARY_GATE for writing; tell_name() says "loaded NAME".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int tell_name(const void* unused);

static void tell(const char* when) {
  Dl_info info;
  char line[512];
  if (dladdr((const void*)&tell_name, &info) == 0) abort();
  const int size = snprintf(line, sizeof line, "%s %s\n", when, info.dli_fname);
  if (write(1, line, (size_t)size) != size) abort();
}

__attribute__((constructor)) static void wait_for_leave(void) {
  tell("loading");
  close(open(getenv("SLOW_LIBRARY_GATE"), O_RDONLY | O_CLOEXEC));
}

int tell_name(const void* unused) {
  (void)unused;
  tell("loaded");
  return 42;
}
