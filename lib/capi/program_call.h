// One call of the program heapsnap by a process that is to be looked at, as a function: it starts,
// may trace its caller, and has ended on return.
//
//   host ─ clone(CLONE_VM | CLONE_FILES), exit signal 0 ─► between ─ clone(CLONE_VM) ─► heapsnap
//     │                                                     │ waits, at most `seconds`   │
//     │ waits for its end                                   │ then SIGTERM, then SIGKILL │
//     └─ one byte: you are my tracer now (a pipe) ───────────────────────────────────────┘
//
// Whatever is barred in the host (seccomp) or stuck in the program, the call comes to an end: the
// one between ends by itself or is ended, and the host waits for nothing else.
#pragma once

#include <stddef.h>

namespace heapsnap {

constexpr int kCannotStart = 127;
// From the request to end (SIGTERM) to SIGKILL, and from there to giving up.
constexpr long kGraceSeconds = 10;

struct ErrorText {
  char text[2048];
  void set(const char* what, int error_number);
};

struct ProgramCall {
  const char* program;
  char* const* arguments;  // the first is its name; a null pointer ends them
  int output;              // its standard output, or -1 for /dev/null
  long seconds;            // that it may take
};

// Gives the exit code, or kCannotStart when there is none. `error` holds what the program said on
// its standard error or why it has no exit code; "" after a success.
int call_program(const ProgramCall& call, ErrorText& error);

}  // namespace heapsnap
