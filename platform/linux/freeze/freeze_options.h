// How to freeze a process.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/address.h"

namespace heapsnap {

struct ProgramEnd;

enum class FreezeChoice { kAuto, kFork, kStop, kNone };

struct FreezeOptions {
  FreezeChoice choice = FreezeChoice::kAuto;
  // Code in which no thread may stand when the memory is taken (malloc.o of each libc).
  std::vector<AddressRange> malloc_text;
  // Gives up, with the target running again, when the threads cannot all be stopped in this time.
  std::chrono::milliseconds deadline{2000};
  // Of kStop: why it was chosen, and how long the target stood for what was tried before.
  std::string why_stop = "asked for";
  uint64_t stood_before_ns = 0;
  // A program that is held at its end (end_watch.h), to be read as it stands, whatever `choice`
  // says. Its session is released by thaw() and then looked after by its owner, who must call
  // everything here.
  ProgramEnd* end = nullptr;
};

}  // namespace heapsnap
