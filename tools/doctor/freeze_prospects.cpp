#include "tools/doctor/freeze_prospects.h"

#include <elf.h>
#include <sys/syscall.h>

#include <optional>
#include <utility>

#include "base/count_text.h"
#include "tools/doctor/attach_permission.h"

namespace heapsnap {

namespace {

using Severity = Obstacle::Severity;

constexpr KernelVersion kFirstWithPageMapScan{6, 7};
constexpr KernelVersion kFirstWithCloseRange{5, 9};
// Where a pause of some length begins to matter: reading 1 GB while stopped takes 0.3 s.
constexpr uint64_t kMuchToReadStopped = 256 << 20;

constexpr const char* kNotWalked = " is not walked: its memory is accounted for by mapping only";

class Checklist {
 public:
  void ok(std::string id, std::string what, std::string why) {
    add(Severity::kOk, std::move(id), std::move(what), std::move(why), {});
  }
  void note(std::string id, std::string what, std::string why, std::string remedy = {}) {
    add(Severity::kNote, std::move(id), std::move(what), std::move(why), std::move(remedy));
  }
  void degraded(std::string id, std::string what, std::string why, std::string remedy = {}) {
    add(Severity::kDegrades, std::move(id), std::move(what), std::move(why), std::move(remedy));
  }
  void unsupported(std::string id, std::string what, std::string why, std::string remedy = {}) {
    add(Severity::kBlocks, std::move(id), std::move(what), std::move(why), std::move(remedy));
    found_.back().kind = ErrorKind::kUnsupported;
  }
  std::vector<Obstacle> take() { return std::move(found_); }

 private:
  void add(Severity severity, std::string id, std::string what, std::string why,
           std::string remedy) {
    found_.push_back({.severity = severity,
                      .id = std::move(id),
                      .what = std::move(what),
                      .why = std::move(why),
                      .remedy = std::move(remedy)});
  }

  std::vector<Obstacle> found_;
};

std::string core_remedy(const TargetFacts& target) {
  const std::string pid = std::to_string(target.pid);
  return "gcore -o core " + pid + " && heapsnap core core." + pid;
}

void judge_machine_word(const TargetFacts& target, Checklist& list) {
  if (!target.elf_machine) return;  // not readable: permission says why
  if (*target.elf_machine == EM_386) {
    list.unsupported("machine", "It is a 32-bit program",
                     "freezing needs the registers of a 64-bit process", core_remedy(target));
  } else if (*target.elf_machine != EM_X86_64) {
    list.unsupported("machine", "It is built for another machine",
                     "ELF machine " + std::to_string(*target.elf_machine) + " under emulation");
  }
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void judge_foreign_allocator(const AllocatorVerdict& verdict, Checklist& list) {
  const std::string remedy =
      verdict.name == "Go" ? "go tool pprof http://HOST:PORT/debug/pprof/heap" : "";
  const std::string what = verdict.name == "Go" ? "It is a Go program without a C library"
                                                : "Its malloc is provided by " + verdict.name;
  list.unsupported("allocator", what, verdict.file + kNotWalked, remedy);
}

void judge_allocator(const TargetFacts& target, Checklist& list) {
  const AllocatorVerdict& verdict = target.allocator;
  switch (verdict.kind) {
    case AllocatorVerdict::Kind::kGlibc:
      if (!verdict.checker.empty()) {
        list.degraded("allocator", "It uses glibc's malloc with checks",
                      verdict.checker + ": attach reads its heap, inject is refused");
      } else if (verdict.interposer.empty()) {
        list.ok("allocator", "It uses glibc's malloc", verdict.file);
      } else {
        list.degraded("allocator", "Its malloc is provided by a file that heapsnap does not know",
                      verdict.interposer + ": only what it passes on to glibc's malloc is walked");
      }
      break;
    case AllocatorVerdict::Kind::kStaticGlibc:
      list.ok("allocator", "It uses glibc's malloc", "linked into the program");
      break;
    case AllocatorVerdict::Kind::kForeign: judge_foreign_allocator(verdict, list); break;
    case AllocatorVerdict::Kind::kUnknown:
      if (!target.elf_machine) break;
      list.note(
          "allocator", "Its allocator could not be recognized",
          "no C library is mapped; attach searches the program itself, and if it finds no glibc "
          "malloc there, memory is accounted for by mapping only");
      break;
  }
  if (!verdict.beside.empty()) {
    list.degraded(
        "allocator-beside", "Part of it calls " + join(verdict.beside),
        "that memory is not walked; if glibc's malloc holds next to nothing, attach exits with "
        "code 5");
  }
  if (verdict.file_deleted) {
    list.note("upgraded-libc", "Its C library has been replaced on disk since it started",
              "the old file is read through /proc/PID/map_files");
  }
}

bool filters_are_readable(const MachineFacts& machine) {
  // seccomp_get_filter() in kernel/seccomp.c: CAP_SYS_ADMIN, and no filter around ourselves.
  return (machine.self.capabilities_effective & kCapSysAdmin) != 0 &&
         machine.self.seccomp == SeccompMode::kNone;
}

void judge_target_seccomp(const AttachFacts& facts, Checklist& list) {
  const std::string stopped = "it is read while stopped, not from a copy";
  switch (facts.target->status.seccomp) {
    case SeccompMode::kStrict:
      list.degraded("target-seccomp", "It runs under strict seccomp",
                    "a system call injected into it would kill it; " + stopped);
      break;
    case SeccompMode::kFilter:
      if (filters_are_readable(facts.machine)) {
        list.note(
            "target-seccomp", "It runs under a seccomp filter",
            "the filter is evaluated before a copy is made; if it forbids the copy, " + stopped);
      } else {
        list.degraded("target-seccomp", "It runs under a seccomp filter that cannot be read",
                      "that takes CAP_SYS_ADMIN, and no filter on heapsnap itself; " + stopped,
                      facts.machine.self.seccomp == SeccompMode::kNone
                          ? remedy_by_capability(facts)
                          : remedy_without_seccomp(facts));
      }
      break;
    case SeccompMode::kNone:
      list.ok("target-seccomp", "No seccomp filter prevents a copy", "it has none");
      break;
    case SeccompMode::kUnknown: break;
  }
}

bool is_vfork_parent(const TargetFacts& target) {
  return target.stuck_syscall == SYS_vfork || target.stuck_syscall == SYS_clone ||
         target.stuck_syscall == SYS_clone3;
}

void judge_state(const TargetFacts& target, Checklist& list) {
  const std::string pid = std::to_string(target.pid);
  if (target.limits.frozen) {
    list.degraded("frozen-cgroup", "Its control group is frozen (docker pause)",
                  target.limits.frozen_group + " keeps its threads from running",
                  thaw_remedy(target.limits));
  }
  if (target.stuck_tid) {
    const std::string thread = "thread " + std::to_string(*target.stuck_tid) + " is in state D";
    if (is_vfork_parent(target)) {
      list.note("vfork", "It waits for a vfork(2) child",
                thread + "; the child is stopped together with it");
    } else {
      list.note("uninterruptible", "A thread is in uninterruptible sleep in the kernel",
                thread + "; it is not stopped, but cannot run code of the target meanwhile");
    }
  }
  if (target.stat.state == 'T') {
    list.note("stopped", "It has been stopped by a signal", "it stays stopped",
              "kill -CONT " + pid);
  }
}

bool is_older(const KernelVersion& kernel, const KernelVersion& first) {
  return kernel != KernelVersion{} && kernel < first;
}

// Of a process of `resident` bytes, or of any.
void judge_copying_kernel(std::optional<uint64_t> resident, Checklist& list) {
  const std::string what = "No copy is made on a kernel before Linux 5.9";
  const std::string why = "it has no close_range(2), by which a copy gives up the files; ";
  if (!resident) {
    list.note("kernel-copy", what, why + "processes are read while stopped, about 0.3 s per GB");
  } else if (*resident < kMuchToReadStopped) {
    list.note("kernel-copy", what,
              why + "it is read while stopped, which is short for a heap of this size");
  } else {
    list.degraded("kernel-copy", what, why + "it is read while stopped, about 0.3 s per GB");
  }
}

void judge_room_for_copy(const AttachFacts& facts, Checklist& list) {
  const TargetFacts& target = *facts.target;
  const CopyGrowth growth{target.busy_processors,
                          target.may_be_killed && !target.limits.dies_together};
  const auto refusal = find_copy_refusal(target.status, facts.machine.memory, target.limits, growth,
                                         target.user_tasks);
  if (!refusal) {
    const std::string needed = ", " + size_text(room_for_copy(target.status, growth)) + " needed";
    const uint64_t available = facts.machine.memory.available.value_or(UINT64_MAX);
    std::string why = "no limit is near";
    if (target.limits.memory && target.limits.memory->room() < available) {
      why = size_text(target.limits.memory->room()) + " left of the memory limit of " +
            target.limits.memory->group + needed;
    } else if (available != UINT64_MAX) {
      why = size_text(available) + " available" + needed;
    }
    list.ok("memory", "There is enough memory for a copy-on-write child", why);
  } else if (target.status.rss < kMuchToReadStopped) {
    list.note(refusal->id, refusal->what,
              refusal->why + "; it is read while stopped, which is short for a heap of this size",
              refusal->remedy);
  } else {
    list.degraded(refusal->id, refusal->what,
                  refusal->why + "; it is read while stopped, about 0.3 s per GB", refusal->remedy);
  }
}

void judge_copy(const AttachFacts& facts, Checklist& list) {
  const TargetFacts& target = *facts.target;
  if (is_older(facts.machine.kernel, kFirstWithCloseRange)) {
    judge_copying_kernel(target.status.rss, list);
  } else {
    judge_room_for_copy(facts, list);
  }
  if (target.children_in_other_pid_namespace) {
    list.degraded("child-namespace", "Its children are created in another PID namespace",
                  "a copy would become that namespace's init; it is read while stopped");
  }
  if (target.status.hugetlb != 0) {
    list.note(
        "huge-pages", "It uses hugetlb pages",
        size_text(target.status.hugetlb) +
            "; no copy is made if any are private, and it is read while stopped: to write to one "
            "that a copy shares takes another one from the pool, and may end it if none is left");
  }
  if (target.status.locked != 0) {
    list.note("locked-memory", "It locks memory",
              size_text(target.status.locked) + " by mlock(2); the copy is not locked");
  }
  if (target.status.shadow_stack) {
    list.degraded("shadow-stack", "It runs with a shadow stack",
                  "no system call is injected into it; it is read while stopped");
  }
}

void judge_namespaces(const TargetFacts& target, Checklist& list) {
  if (!target.other_pid_namespace && !target.other_mount_namespace) return;
  std::string why = "its files are read through /proc/PID/root and map_files";
  if (target.status.namespace_pids.size() > 1) {
    why = "its PID inside is " + std::to_string(target.status.namespace_pids.back()) + "; " + why;
  }
  list.note("namespaces", "It runs in a container or other namespaces", why);
}

void judge_page_map(const AttachFacts& facts, Checklist& list) {
  // Where tracing is refused, so is this: one finding is enough.
  const bool refused = facts.target && (facts.target->access == Access::kRefused ||
                                        !facts.target->memory_file_readable);
  if (facts.target && !refused && !facts.target->page_map_readable) {
    list.degraded("page-map", "/proc/PID/pagemap cannot be opened",
                  "it will not be known which pages are resident", remedy_by_capability(facts));
  } else if (is_older(facts.machine.kernel, kFirstWithPageMapScan)) {
    list.note("page-map", "Page states are read page by page",
              "PAGEMAP_SCAN came with Linux 6.7; without it, this takes 10 ms per GB");
  }
}

}  // namespace

std::vector<Obstacle> judge_freeze(const AttachFacts& facts) {
  Checklist list;
  if (facts.target) {
    judge_machine_word(*facts.target, list);
    judge_allocator(*facts.target, list);
    judge_target_seccomp(facts, list);
    judge_state(*facts.target, list);
    judge_copy(facts, list);
    judge_namespaces(*facts.target, list);
  } else if (is_older(facts.machine.kernel, kFirstWithCloseRange)) {
    judge_copying_kernel(std::nullopt, list);
  } else if (facts.machine.memory.strict_overcommit) {
    list.note("commit-limit", "Memory overcommit is off",
              "vm.overcommit_memory is 2: a copy of a large process may be refused");
  }
  judge_page_map(facts, list);
  return list.take();
}

}  // namespace heapsnap
