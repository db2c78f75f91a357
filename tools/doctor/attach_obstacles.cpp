#include "tools/doctor/attach_obstacles.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/count_text.h"
#include "platform/linux/proc/target_refusal.h"
#include "tools/doctor/attach_permission.h"
#include "tools/doctor/freeze_prospects.h"

namespace heapsnap {

namespace {

using Severity = Obstacle::Severity;

constexpr KernelVersion kFirstWithSeize{3, 4};

Obstacle finding(Severity severity, std::string id, std::string what, std::string why,
                 std::string remedy = {}) {
  return {.severity = severity,
          .id = std::move(id),
          .what = std::move(what),
          .why = std::move(why),
          .remedy = std::move(remedy)};
}

Obstacle blocked(ErrorKind kind, std::string id, std::string what, std::string why,
                 std::string remedy = {}) {
  Obstacle obstacle =
      finding(Severity::kBlocks, std::move(id), std::move(what), std::move(why), std::move(remedy));
  obstacle.kind = kind;
  return obstacle;
}

std::string process_text(const TargetFacts& target) {
  return "process " + std::to_string(target.pid);
}

// Whether there is a process with memory to look at; gives false when nothing else needs a look.
bool judge_existence(const AttachFacts& facts, std::vector<Obstacle>& found) {
  const TargetFacts& target = *facts.target;
  const std::string name = process_text(target);
  const auto add = [&](Obstacle obstacle) {
    found.push_back(std::move(obstacle));
    return false;
  };
  if (target.presence == Presence::kAbsent) {
    return add(blocked(ErrorKind::kNoProcess, "process", "There is no " + name,
                       "it may have ended, or the number is from another pid namespace",
                       "ps -eo pid,user,comm,rss --sort=-rss | head -20"));
  }
  if (target.presence == Presence::kHidden) {
    return add(blocked(ErrorKind::kNotPermitted, "hidden-process", "/proc does not show " + name,
                       "it exists, but this /proc is mounted with hidepid or shows another pid "
                       "namespace",
                       remedy_by_capability(facts)));
  }
  if (target.is_self) {
    return add(blocked(ErrorKind::kUsage, "self", "That is heapsnap itself",
                       "a process cannot trace itself", "give another PID: heapsnap attach PID"));
  }
  if (target.stat.is_kernel_task()) {
    return add(blocked(ErrorKind::kUnsupported, "kernel-thread",
                       "It is a kernel thread (" + target.stat.comm + ")",
                       "it has no memory of its own and no malloc"));
  }
  if (!target.live_tid) {
    // 0: the parent is outside of our pid namespace.
    const bool knows_parent = target.status.parent != 0;
    const std::string parent = std::to_string(target.status.parent);
    return add(blocked(ErrorKind::kNoProcess, "zombie", "It has ended (a zombie)",
                       "only its exit status is left, until its parent " +
                           (knows_parent ? parent + " " : "") + "waits for it",
                       knows_parent ? "look at the parent: ps -o pid,stat,args -p " + parent : ""));
  }
  std::string what = "It is " + target.stat.comm + ", pid " +
                     std::to_string(target.status.thread_group) + " with " +
                     count_text(target.status.threads, "thread", "threads");
  std::string why = size_text(target.status.rss) + " resident";
  if (target.stat.is_dead()) why += "; its main thread has ended, others run";
  if (target.pid != target.status.thread_group) {
    why += "; " + std::to_string(target.pid) + " is one of its threads";
  }
  found.push_back(finding(Severity::kOk, "process", std::move(what), std::move(why)));
  return true;
}

void judge_kernel(const MachineFacts& machine, std::vector<Obstacle>& found) {
  const KernelVersion version = machine.kernel;
  const std::string name =
      "Linux " + std::to_string(version.major) + "." + std::to_string(version.minor);
  if (version == KernelVersion{}) return;
  if (version < kFirstWithSeize) {
    found.push_back(blocked(ErrorKind::kUnsupported, "kernel", name + " is too old",
                            "PTRACE_SEIZE came with Linux 3.4"));
  } else {
    found.push_back(finding(Severity::kOk, "kernel", name, "it has what attaching needs"));
  }
}

void judge_own_syscalls(const AttachFacts& facts, std::vector<Obstacle>& found) {
  const MachineFacts& machine = facts.machine;
  const std::string remedy = remedy_without_seccomp(facts);
  const bool filtered = machine.self.seccomp == SeccompMode::kFilter;
  const std::string cause =
      filtered ? "the seccomp filter that heapsnap runs under refuses it" : "the kernel refuses it";
  if (machine.syscalls.ptrace == Availability::kBarred ||
      machine.syscalls.ptrace == Availability::kMissing) {
    found.push_back(blocked(ErrorKind::kNotPermitted, "own-seccomp",
                            "heapsnap cannot call ptrace(2)", cause, remedy));
  } else if (machine.syscalls.process_vm_readv == Availability::kBarred ||
             machine.syscalls.process_vm_readv == Availability::kMissing) {
    found.push_back(
        finding(Severity::kDegrades, "own-seccomp", "heapsnap cannot call process_vm_readv(2)",
                cause + "; memory is read through /proc/PID/mem, which is slower", remedy));
  } else if (machine.syscalls.ptrace == Availability::kAvailable) {
    found.push_back(finding(Severity::kOk, "own-seccomp", "ptrace(2) can be called",
                            filtered ? "the seccomp filter that heapsnap runs under allows it"
                                     : "heapsnap runs under no seccomp filter"));
  }
}

void judge_permission(const AttachFacts& facts, std::vector<Obstacle>& found) {
  if (std::optional<Obstacle> cause = find_refusal_cause(facts)) {
    found.push_back(*std::move(cause));
    return;
  }
  if (facts.target) {
    const bool asked = facts.target->access == Access::kPermitted;
    found.push_back(finding(Severity::kOk, "permission", "Tracing it is permitted",
                            asked ? "the kernel says so" : "IDs, capabilities and Yama allow it"));
    if (asked && !facts.target->memory_file_readable) {
      found.push_back(blocked(ErrorKind::kNotPermitted, "memory-file",
                              "Its /proc/PID/mem cannot be opened",
                              "it belongs to " + user_text(facts.target->status.uid.effective) +
                                  ", and heapsnap has CAP_SYS_PTRACE, but not "
                                  "CAP_DAC_READ_SEARCH",
                              remedy_by_capability(facts)));
    }
    return;
  }
  if (has_ptrace_capability(facts)) {
    found.push_back(finding(Severity::kOk, "permission", "heapsnap may attach to any process",
                            "heapsnap has CAP_SYS_PTRACE"));
    return;
  }
  std::string why = "heapsnap has no CAP_SYS_PTRACE";
  if (facts.machine.yama_scope.value_or(0) > 0) {
    why += ", and kernel.yama.ptrace_scope is " + std::to_string(*facts.machine.yama_scope);
  }
  const bool none = facts.machine.yama_scope.value_or(0) > 0;
  found.push_back(finding(Severity::kDegrades, none ? "yama" : "capabilities",
                          none ? "heapsnap may attach only to its own children"
                               : "heapsnap may attach only to your own processes",
                          why, remedy_by_capability(facts)));
}

void judge_tracer(const TargetFacts& target, std::vector<Obstacle>& found) {
  const int tracer = target.status.tracer;
  if (tracer == 0) {
    found.push_back(
        finding(Severity::kOk, "tracer", "No other process traces it", "TracerPid is 0"));
    return;
  }
  const std::string name =
      (target.tracer_name.empty() ? "process" : target.tracer_name) + " " + std::to_string(tracer);
  // A tracer that started the program may take it along when it is killed.
  const std::string remedy =
      target.tracer_name == "heapsnap"
          ? "wait until it is done; under heapsnap run --at-exit, start the program without that "
            "option"
          : "detach it there (gdb: detach) or, if " + name +
                " did not start the program, end it: kill " + std::to_string(tracer);
  found.push_back(blocked(ErrorKind::kNotPermitted, "tracer", "It is already traced by " + name,
                          "a process can have only one tracer", remedy));
}

// What the kernel lets us do; gives false when there is no process to do it to.
bool judge_tracing(const AttachFacts& facts, std::vector<Obstacle>& found) {
  if (facts.target && !judge_existence(facts, found)) return false;
  judge_kernel(facts.machine, found);
  judge_own_syscalls(facts, found);
  judge_permission(facts, found);
  if (facts.target) judge_tracer(*facts.target, found);
  return true;
}

}  // namespace

const char* to_string(Obstacle::Severity severity) {
  switch (severity) {
    case Severity::kOk: return "ok";
    case Severity::kNote: return "note";
    case Severity::kDegrades: return "degraded";
    case Severity::kBlocks: return "blocked";
  }
  return "ok";
}

std::vector<Obstacle> judge_attach(const AttachFacts& facts) {
  std::vector<Obstacle> found;
  if (!judge_tracing(facts, found)) return found;
  for (Obstacle& prospect : judge_freeze(facts)) found.push_back(std::move(prospect));
  return found;
}

Error explain_attach_refusal(const AttachFacts& facts, const TargetRefusal& refusal) {
  std::vector<Obstacle> found;
  judge_tracing(facts, found);
  for (const Obstacle& obstacle : found) {
    if (obstacle.severity != Severity::kBlocks) continue;
    // The cause starts a clause of its own: "It is already traced by gdb 12: a process has ...".
    return Error(obstacle.kind, refusal.subject(), obstacle.what + ": " + obstacle.why,
                 obstacle.remedy);
  }
  // The state has changed since, or the cause does not show: what the kernel said is all there is.
  std::string remedy;
  if (refusal.kind() == ErrorKind::kNoProcess) {
    remedy = kFindSuccessor;
  } else if (refusal.error_number() == EPERM || refusal.error_number() == EACCES) {
    remedy = remedy_by_capability(facts);
  }
  if (remedy.empty()) {
    remedy = "try again, and if that fails: heapsnap doctor " + std::to_string(refusal.pid());
  }
  return Error(refusal.kind(), refusal.subject(), refusal.why(), remedy);
}

Error explained(const Error& error) {
  const auto* const refusal = dynamic_cast<const TargetRefusal*>(&error);
  if (refusal == nullptr) return error;
  Error told = explain_attach_refusal(gather_attach_facts(refusal->pid()), *refusal);
  told.set_remark(error.remark());
  return told;
}

}  // namespace heapsnap
