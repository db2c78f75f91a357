#include "platform/linux/inject/code_vacancy.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "platform/linux/freeze/malloc_exit.h"
#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/trace/late_tracees.h"
#include "platform/linux/trace/priority_inheritance.h"
#include "platform/linux/trace/ptrace_session.h"
#include "platform/linux/trace/tracer_thread.h"

namespace heapsnap {

namespace {

constexpr size_t kMostLooks = 400;
constexpr std::chrono::milliseconds kBetweenLooks{2};
constexpr std::chrono::seconds kLookStopDeadline{5};
constexpr std::chrono::seconds kLookStragglerDeadline{5};

bool look(const ProcFs& proc, int pid, const std::vector<AddressRange>& code, MemoryReader& memory,
          VacancyResult& result) {
  const RealtimePriority priority;
  PriorityInheritance inheritance;
  PtraceSession session(proc, pid);
  session.seize_all();
  session.stop_all(TraceClock::now() + kLookStopDeadline, inheritance);
  const bool is_vacant =
      session.stragglers() == 0 &&
      std::none_of(session.tracees().begin(), session.tracees().end(), [&](const Tracee& thread) {
        return thread.is_stopped() && is_inside_malloc(code, thread.registers(), memory);
      });
  session.release();
  result.longest_pause = std::max(result.longest_pause, session.pause());
  if (!session.await_stragglers(TraceClock::now() + kLookStragglerDeadline)) {
    throw Error(
        ErrorKind::kUnsupported,
        "cannot see where the threads of process " + std::to_string(pid) + " are",
        "one of them sleeps in the kernel and cannot be woken",
        "try again later: heapsnap doctor " + std::to_string(pid) + " says which one it is");
  }
  return is_vacant;
}

}  // namespace

VacancyResult await_vacancy(const ProcFs& proc, int pid, const std::vector<AddressRange>& code,
                            MemoryReader& memory) {
  VacancyResult result;
  TracerThread tracer;
  while (!result.is_vacant && result.looks < kMostLooks) {
    if (result.looks != 0) nap_beside_late_tracees(kBetweenLooks);
    ++result.looks;
    tracer.run([&] { result.is_vacant = look(proc, pid, code, memory, result); });
  }
  return result;
}

}  // namespace heapsnap
