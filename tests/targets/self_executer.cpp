// A target that executes itself, again and again, under one pid.
//
//   self_executer leader|thread [free]
//
// Says "ready" each time that it has begun. Executes itself for each line of its standard input, by
// its first thread or by another one; with `free` without a line, every 0 to 31 ms. At the end
// of its input it says "errors=0" and ends.
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

char** own_arguments;

void* execute_again(void* /*unused*/) {
  execv("/proc/self/exe", own_arguments);
  std::abort();
}

[[noreturn]] void become_new(bool by_thread) {
  if (!by_thread) execute_again(nullptr);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, execute_again, nullptr) != 0) std::abort();
  while (true) pause();
}

// 0 to 31, so that what watches the process meets each moment of its life.
int some_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int>(now.tv_nsec % 32);
}

void say(const char* text) {
  if (write(STDOUT_FILENO, text, std::strlen(text)) < 0) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  own_arguments = argv;
  const bool by_thread = std::strcmp(argv[1], "thread") == 0;
  static char said[] = "HEAPSNAP_TEST_SAID_READY=1";
  if (argc > 2) {
    if (std::getenv("HEAPSNAP_TEST_SAID_READY") == nullptr) say("ready\n");
    putenv(said);
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, some_milliseconds()) == 0) become_new(by_thread);
  } else {
    say("ready\n");
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) == 1) {
      if (byte == '\n') become_new(by_thread);
    }
  }
  say("errors=0\n");
  return 0;
}
