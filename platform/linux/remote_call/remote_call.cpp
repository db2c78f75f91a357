#include "platform/linux/remote_call/remote_call.h"

#include <sys/syscall.h>

#include "base/error.h"
#include "platform/linux/proc/system_call_names.h"
#include "platform/linux/remote_call/caller_stop.h"
#include "platform/linux/self/realtime_priority.h"
#include "platform/linux/trace/tracer_thread.h"

namespace heapsnap {

namespace {

constexpr std::chrono::seconds kDeadline{2};

RemoteCallResult call_by_thread(const ProcFs& proc, int pid, const SystemCall& call,
                                const SyscallGadget& gadget, MemoryReader& memory) {
  const RealtimePriority priority;
  PriorityInheritance inheritance;
  CallerTask task;
  task.gadget = gadget.syscall_ret;
  task.calls = {call, {SYS_rt_sigreturn, {}}};
  CallerStop caller(proc, pid, task, memory, inheritance);
  RemoteCallResult result;
  {
    StoppedCaller thread(caller.thread(), gadget, caller.frame_top());
    const auto value = thread.call(call, TraceClock::now() + kDeadline);
    if (!value) {
      throw Error(ErrorKind::kUnsupported,
                  system_call_name(call.number) + " in process " + std::to_string(pid),
                  "it did not finish in time", "try again");
    }
    result.value = *value;
    thread.give_back();
  }
  caller.release();
  result.tid = caller.tid();
  result.stolen = caller.pause();
  return result;
}

}  // namespace

RemoteCallResult make_remote_call(const ProcFs& proc, int pid, const SystemCall& call,
                                  MemoryReader& memory) {
  const int tid = proc.live_tid(pid).value_or(pid);
  const auto gadget =
      find_syscall_gadget(AddressSpace(proc.maps(tid)), MappedFiles(proc, tid), memory);
  if (!gadget) {
    throw Error(ErrorKind::kUnsupported,
                "no system call can be made in process " + std::to_string(pid),
                "its code contains no usable syscall instruction");
  }
  RemoteCallResult result;
  TracerThread tracer;
  tracer.run([&] { result = call_by_thread(proc, pid, call, *gadget, memory); });
  return result;
}

}  // namespace heapsnap
