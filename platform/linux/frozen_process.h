// A live process held still long enough to be read, and let go unharmed.
//
//   fork:  stop all threads -> clone a copy-on-write child -> let go -> read the child -> kill,
//   reap stop:  stop all threads -> read -> let go none:  read while it runs
//
// Whatever happens to heapsnap meanwhile (error, signal, SIGKILL at any instruction), the target
// goes on as if nothing had been there. docs/freezing.md tells how.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "target/target.h"

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

class FrozenProcess : public Target {
 public:
  // Freezes process `pid` (any of its tids will do). Throws Error{kNoProcess, kNotPermitted,
  // kUnsupported} with the target untouched.
  static std::unique_ptr<FrozenProcess> freeze(int pid, const FreezeOptions& options);

  // Whether the target itself stands still until thaw(): do nothing slow meanwhile.
  virtual bool target_is_stopped() const = 0;
  // Lets the target go; a forked child is killed and reaped. memory() may not be used afterwards.
  // Called by the destructor where it was not.
  virtual void thaw() noexcept = 0;
  // When the freeze began: everything that could be learnt from the running target was.
  virtual std::chrono::steady_clock::time_point began() const = 0;
  // What was done. Complete after thaw().
  virtual const FreezeRecord& record() const = 0;
  // Resident bytes per mapping of address_space(), same order: private memory as it was at the
  // freeze, files and shared memory as they were just before (fork) or are now. Slow (walks page
  // tables): never while target_is_stopped(); needs the child, so call it before thaw() under fork.
  virtual std::vector<MappingUsage> mapping_usage() = 0;
  // Why the forked child, which is read, is no more: what was read of it since then is void. To be
  // asked before thaw() for all that was read. Nothing while all is well.
  virtual std::optional<std::string> loss() const = 0;
};

// The process as it runs: for looking around before a freeze. memory() reads the moving target,
// threads() carry no registers. Throws as freeze() does.
std::unique_ptr<Target> open_running_process(int pid);

}  // namespace heapsnap
