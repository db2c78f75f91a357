// How to freeze a process.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "platform/linux/proc/program_identity.h"

namespace heapsnap {

struct ProgramEnd;

enum class FreezeChoice { kAuto, kFork, kStop, kNone };

struct FreezeOptions {
  FreezeChoice choice = FreezeChoice::kAuto;
  // Code in which no thread may be when the memory is taken (malloc.o of each libc).
  std::vector<AddressRange> malloc_text;
  // All memory is scanned while it is held, not only walked.
  bool scans_all = false;
  // Gives up, with the target running again, if the threads cannot all be stopped within this time.
  std::chrono::milliseconds deadline{2000};
  // That `malloc_text` is of. ProgramReplaced is thrown if the process executes another one.
  std::optional<ProgramIdentity> program;
  // For kStop: why it was chosen, and how long the target was stopped for an earlier attempt.
  std::string why_stop = "asked for";
  uint64_t earlier_pause_ns = 0;
  // A program that is held at its end (end_watch.h), to be read as it is, whatever `choice` says.
  // thaw() releases its session and returns it to its owner, which must make every call here.
  ProgramEnd* end = nullptr;
};

}  // namespace heapsnap
