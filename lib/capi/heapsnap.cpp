// Freestanding on purpose: it is loaded into other people's processes (PostgreSQL backends, Ruby),
// so it links against libc alone, throws nothing and allocates nothing.

#include "capi/heapsnap.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capi/program_call.h"

namespace {

constexpr long kLongestDumpSeconds = 600;

// Errors are reported to the calling thread; the buffer is part of its TLS, not of the heap.
thread_local heapsnap::ErrorText last_error;

pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

// A process forked during a dump of another thread has the mutex locked and nobody to unlock it.
void forget_lock_of_parent() {
  one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
}

__attribute__((constructor)) void watch_forks() {
  pthread_atfork(nullptr, nullptr, forget_lock_of_parent);
}

long longest_dump() {
  const char* chosen = getenv("HEAPSNAP_TIMEOUT");
  const long seconds = chosen == nullptr ? 0 : strtol(chosen, nullptr, 10);
  return seconds > 0 && seconds < INT_MAX ? seconds : kLongestDumpSeconds;
}

// The right to dump: one call at a time, in a thread that cannot be cancelled meanwhile.
class Turn {
 public:
  Turn() {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
    timespec end{};
    clock_gettime(CLOCK_REALTIME, &end);
    // The call before may take all of its time, and be ended.
    end.tv_sec += longest_dump() + 3 * heapsnap::kGraceSeconds;
    error_ = pthread_mutex_timedlock(&one_at_a_time, &end);
    if (error_ != 0) {
      snprintf(last_error.text, sizeof last_error.text, "another thread's dump does not end: %s",
               strerror(error_));
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (error_ == 0) pthread_mutex_unlock(&one_at_a_time);
    pthread_setcancelstate(cancel_state_, nullptr);
  }
  bool has_come() const { return error_ == 0; }

 private:
  int cancel_state_ = 0;
  int error_ = 0;
};

// Finds the program; false when there is none at the place that comes first.
bool find_program(char* path, size_t size) {
  const char* chosen = getenv("HEAPSNAP_PROGRAM");
  if (chosen != nullptr && *chosen != '\0') {
    snprintf(path, size, "%s", chosen);
    return access(path, X_OK) == 0;
  }
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&heapsnap_dump_self), &info) != 0 &&
      info.dli_fname != nullptr) {
    const char* slash = strrchr(info.dli_fname, '/');
    if (slash != nullptr) {
      const int folder = static_cast<int>(slash - info.dli_fname);
      snprintf(path, size, "%.*s/../bin/heapsnap", folder, info.dli_fname);
      if (access(path, X_OK) == 0) return true;
    }
  }
  snprintf(path, size, "%s", HEAPSNAP_INSTALLED_PROGRAM);
  return access(path, X_OK) == 0;
}

// Runs the program with `arguments` (the first is its name) while it may trace this process.
int run_program(char* const* arguments, int output) {
  char program[PATH_MAX];
  if (!find_program(program, sizeof program)) {
    snprintf(last_error.text, sizeof last_error.text,
             "the program heapsnap is not at %.1024s; set HEAPSNAP_PROGRAM to its path", program);
    return heapsnap::kCannotStart;
  }
  return heapsnap::call_program({program, arguments, output, longest_dump()}, last_error);
}

// execv(3) takes `char* const*` for historical reasons and changes nothing.
char* word(const char* text) {
  return const_cast<char*>(text);
}

int attach_self(const char* path, bool contents) {
  char pid[16];
  snprintf(pid, sizeof pid, "%d", static_cast<int>(getpid()));
  char* const arguments[] = {word("heapsnap"),
                             word("attach"),
                             word("--start-at-eof"),
                             word("--quiet"),
                             word("-o"),
                             word(path),
                             word("--literal-name"),
                             word(pid),
                             contents ? word("--contents") : nullptr,
                             nullptr};
  return run_program(arguments, -1);
}

// One of the first dumper's functions: a snapshot beside `path`, its text appended to `path`.
void append_text(const char* path, const char* heaps) {
  const Turn turn;
  if (!turn.has_come()) return;
  char snapshot[PATH_MAX];
  const int length =
      snprintf(snapshot, sizeof snapshot, "%s.%d.hsnap", path, static_cast<int>(getpid()));
  if (length < 0 || static_cast<size_t>(length) >= sizeof snapshot) {
    last_error.set(path, ENAMETOOLONG);
  } else if (attach_self(snapshot, true) == 0) {
    const int output = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (output < 0) {
      last_error.set(path, errno);
    } else {
      char* const arguments[] = {word("heapsnap"),     word("export"),  word("--format"),
                                 word("ptmallocdump"), word("--heaps"), word(heaps),
                                 word(snapshot),       nullptr};
      run_program(arguments, output);
      close(output);
    }
    unlink(snapshot);
  }
}

}  // namespace

extern "C" {

int heapsnap_dump_self(const char* path) {
  const Turn turn;
  return turn.has_come() ? attach_self(path, false) : heapsnap::kCannotStart;
}

const char* heapsnap_last_error(void) {
  return last_error.text;
}

void dump_main_heap(const char* path, void* /*main_arena*/) {
  append_text(path, "main");
}

void dump_non_main_heaps(const char* path, void* /*main_arena*/) {
  append_text(path, "others");
}

}  // extern "C"
