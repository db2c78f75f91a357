#include "platform/linux/freeze/live_view.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "platform/linux/proc/page_map.h"
#include "platform/linux/proc/process_memory.h"
#include "platform/linux/proc/target_refusal.h"
#include "platform/linux/trace/interrupted_syscall.h"
#include "target/vector_words.h"

namespace heapsnap {

std::optional<MappedFile> LiveView::open_file(const Mapping& mapping) const {
  UniqueFd file = MappedFiles(proc, tid).open(mapping);
  if (!file) return std::nullopt;
  try {
    return MappedFile::from_fd(std::move(file), mapping.path);
  } catch (const Error&) {
    return std::nullopt;  // a file system without mmap
  }
}

Registers visible_registers(const user_regs_struct& from) {
  Registers registers{Address(from.rip), Address(from.rsp), Address(from.fs_base)};
  registers.general.values = {from.rax, from.rdx, from.rcx, from.rbx, from.rsi, from.rdi,
                              from.rbp, from.rsp, from.r8,  from.r9,  from.r10, from.r11,
                              from.r12, from.r13, from.r14, from.r15};
  registers.general.are_known = true;
  registers.other_base = from.gs_base;
  return registers;
}

Registers visible_registers(const Tracee& stopped) {
  Registers registers = visible_registers(stopped.registers());
  if (!is_in_syscall(stopped.registers())) {
    registers.vector = vector_words(stopped.extended_state(kVectorArea));
  }
  return registers;
}

std::vector<Thread> threads_of(int process, std::span<const Tracee> tracees,
                               std::span<const Thread> named) {
  std::map<int, std::string> names;
  for (const Thread& thread : named) names[thread.tid] = thread.name;
  std::vector<Thread> threads;
  for (const Tracee& tracee : tracees) {
    if (tracee.process() != process || tracee.is_gone()) continue;
    Thread thread{tracee.tid(), std::move(names[tracee.tid()]), std::nullopt};
    if (tracee.is_stopped()) thread.registers = visible_registers(tracee);
    threads.push_back(std::move(thread));
  }
  return threads;
}

LiveView look_at(const ProcFs& proc, int pid) {
  LiveView view;
  view.proc = proc;
  view.process = proc.describe(pid);
  view.process.taken_at_ns = realtime_ns();
  if (view.process.machine != Machine::kX86_64) {
    throw Error(ErrorKind::kUnsupported, "cannot attach to process " + std::to_string(pid),
                "it is not a 64-bit x86 program",
                "take a core with gcore " + std::to_string(pid) + ", then: heapsnap core core." +
                    std::to_string(pid));
  }
  view.tid = proc.live_tid(view.process.pid).value_or(view.process.pid);
  view.address_space = AddressSpace(proc.maps(view.tid));
  if (view.address_space.mappings().empty()) throw TargetRefusal(pid, ESRCH);
  for (const int tid : proc.task_list(view.process.pid)) {
    view.threads.push_back({tid, proc.comm(tid), std::nullopt});
  }
  return view;
}

LiveView look_at_running(const ProcFs& proc, int pid) {
  LiveView view = look_at(proc, pid);
  view.memory = std::make_unique<ProcessMemory>(proc, view.tid, ProcessMemory::Way::kVmReadv);
  view.residency = std::make_unique<PageMap>(proc, view.tid);
  return view;
}

std::vector<MappingUsage> usage_by_smaps(const ProcFs& proc, int tid,
                                         const std::vector<Mapping>& mappings) {
  return attribute_usage(proc.smaps(tid), mappings);
}

std::vector<MappingUsage> attribute_usage(const MappingsWithUsage& measured,
                                          const std::vector<Mapping>& mappings) {
  std::vector<MappingUsage> usage(mappings.size());
  size_t at = 0;
  for (size_t i = 0; i < measured.mappings.size(); ++i) {
    const AddressRange& range = measured.mappings[i].range;
    while (at < mappings.size() && mappings[at].range.end <= range.begin) ++at;
    if (at == mappings.size()) break;
    if (!mappings[at].range.overlaps(range)) continue;
    const MappingUsage& from = measured.usage[i];
    MappingUsage& to = usage[at];
    to.rss += from.rss;
    to.pss += from.pss;
    to.anonymous += from.anonymous;
    to.swap += from.swap;
    to.anon_huge += from.anon_huge;
    to.hugetlb += from.hugetlb;
  }
  return usage;
}

}  // namespace heapsnap
