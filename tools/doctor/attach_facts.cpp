#include "tools/doctor/attach_facts.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/unique_fd.h"
#include "elf/elf_headers.h"
#include "platform/linux/proc/busy_clock.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/pid_namespaces.h"

namespace heapsnap {

namespace {

constexpr size_t kThreadsLookedAt = 4096;
constexpr int kDeepestUserNamespace = 32;  // the kernel's limit, kernel/user_namespace.c

// "docker-default (enforce)", or "system_u:system_r:container_t:s0" with a zero byte at its end.
std::string read_label(const std::string& path) {
  const std::string text = kernel_text_or_empty(path);
  return std::string(trimmed(std::string_view(text).substr(0, text.find('\0'))));
}

bool can_open(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)).is_open();
}

// Whether both links can be read and name different namespaces.
bool differ(const std::string& one, const std::string& other) {
  const std::string first = link_target_or_empty(one);
  const std::string second = link_target_or_empty(other);
  return !first.empty() && !second.empty() && first != second;
}

bool is_ancestor(const std::string& ours, const std::string& theirs) {
  struct stat own {};
  if (::stat(ours.c_str(), &own) != 0) return false;
  UniqueFd level(::open(theirs.c_str(), O_RDONLY | O_CLOEXEC));
  for (int depth = 0; level && depth <= kDeepestUserNamespace; ++depth) {
    struct stat current {};
    if (::fstat(level.get(), &current) != 0) return false;
    if (current.st_dev == own.st_dev && current.st_ino == own.st_ino) return true;
    // EPERM at the first one that is not below ours.
    level.reset(::ioctl(level.get(), NS_GET_PARENT));
  }
  return false;
}

UserNamespace compare_user_namespaces(const std::string& self, const std::string& target) {
  const std::string ours = self + "/ns/user";
  const std::string theirs = target + "/ns/user";
  const std::string own_link = link_target_or_empty(ours);
  const std::string link = link_target_or_empty(theirs);
  if (!own_link.empty() && !link.empty()) {
    if (own_link == link) return UserNamespace::kSame;
    return is_ancestor(ours, theirs) ? UserNamespace::kBelow : UserNamespace::kOther;
  }
  // The link asks for permission to trace, the map does not. Maps differ between namespaces, but
  // equal ones prove nothing.
  const std::string own_map = kernel_text_or_empty(self + "/uid_map");
  const std::string map = kernel_text_or_empty(target + "/uid_map");
  if (own_map.empty() || map.empty() || own_map == map) return UserNamespace::kUnknown;
  return UserNamespace::kOther;
}

// Only the try_ functions of ProcFs are used here: those that throw explain their failure by these
// very facts.
std::optional<ProcessStatus> read_status(const ProcFs& proc, int pid) {
  const std::optional<std::string> text = proc.try_read(pid, "status");
  return text ? parse_process_status(*text) : std::nullopt;
}

Presence look_for(const ProcFs& proc, int pid) {
  if (proc.try_read(pid, "stat")) return Presence::kPresent;
  const std::string path = proc.path(pid, "stat");
  if (!UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) && errno != ENOENT && errno != EACCES &&
      errno != EPERM) {
    // A lack of our own (EMFILE, ENFILE, ENOMEM) says nothing about the process.
    throw Error(ErrorKind::kNotPermitted, "cannot open " + path, errno_text(errno));
  }
  // With hidepid /proc does not show it, kill(2) still tells: EPERM for what exists.
  const bool exists = pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
  return exists ? Presence::kHidden : Presence::kAbsent;
}

bool descends_from(const ProcFs& proc, int pid, int ancestor) {
  std::set<int> seen;
  while (pid > 0 && seen.insert(pid).second) {
    if (pid == ancestor) return true;
    const std::optional<ProcessStatus> status = read_status(proc, pid);
    if (!status) return false;
    pid = status->parent;
  }
  return false;
}

// The first thread in an uninterruptible wait, with its system call.
void look_for_stuck_thread(const ProcFs& proc, TargetFacts& target) {
  const std::vector<int> tids = proc.task_list(target.status.thread_group);
  for (size_t i = 0; i < std::min(tids.size(), kThreadsLookedAt); ++i) {
    const std::optional<TaskStat> stat = proc.try_stat(tids[i]);
    if (!stat || !stat->is_uninterruptible()) continue;
    target.stuck_tid = tids[i];
    const std::string call = proc.try_read(tids[i], "syscall").value_or("");
    std::string_view rest = call;
    if (const auto number = parse_number(take_word(rest)); number && *number < 4096) {
      target.stuck_syscall = static_cast<int>(*number);
    }
    return;
  }
}

std::optional<uint16_t> elf_machine_of(std::span<const std::byte> bytes) {
  if (bytes.size() < EI_NIDENT || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) return {};
  // It stands at the same place in the headers of both classes.
  return load_record<uint16_t>(bytes, offsetof(Elf64_Ehdr, e_machine));
}

void look_at_program(const ProcFs& proc, int live_tid, TargetFacts& target) {
  try {
    const MappedFile program = MappedFile::open(proc.path(live_tid, "exe"));
    target.elf_machine = elf_machine_of(program.bytes());
  } catch (const Error&) {
    // Not ours to read: whoever attaches says why.
  }
}

// 0 if there is none, or only heapsnap: a thread of ours that traces it is about to end.
int tracer_of_a_thread(const ProcFs& proc, int pid) {
  for (const int tid : proc.task_list(pid)) {
    const auto status = read_status(proc, tid);
    if (!status || status->tracer == 0) continue;
    const auto tracer = read_status(proc, status->tracer);
    if (!tracer || tracer->thread_group != ::getpid()) return status->tracer;
  }
  return 0;
}

void look_at_process(const ProcFs& proc, const KernelFiles& files, TargetFacts& target) {
  const int pid = target.status.thread_group;
  const std::string folder = proc.path(pid, "");
  const std::string self = files.proc + "/self";
  target.live_tid = proc.live_tid(pid);
  if (target.live_tid && *target.live_tid != pid) {
    // A leader that has ended has no memory to speak of any more.
    if (const auto live = read_status(proc, *target.live_tid); live && live->has_memory) {
      target.status.has_memory = true;
      target.status.rss = live->rss;
      target.status.rss_anonymous = live->rss_anonymous;
      target.status.swap = live->swap;
      target.status.page_tables = live->page_tables;
      target.status.writable = live->writable;
      target.status.locked = live->locked;
      target.status.hugetlb = live->hugetlb;
    }
  }
  if (target.status.tracer == 0) target.status.tracer = tracer_of_a_thread(proc, pid);
  target.tracer_name = target.status.tracer == 0 ? "" : proc.comm(target.status.tracer);
  // Not the folder itself: that one belongs to the user even when the target is not dumpable.
  struct stat owner {};
  if (::stat((folder + "/status").c_str(), &owner) == 0) target.files_owner = owner.st_uid;
  target.user_namespace = compare_user_namespaces(self, folder);
  target.other_pid_namespace = differ(self + "/ns/pid", folder + "/ns/pid");
  target.children_in_other_pid_namespace = creates_children_elsewhere(proc, pid);
  target.other_mount_namespace = differ(self + "/ns/mnt", folder + "/ns/mnt");
  target.label = read_label(folder + "/attr/current");
  target.limits = read_cgroup_limits(kernel_text_or_empty(folder + "/cgroup"), files);
  target.user_tasks = read_user_tasks(target.status, files);
  look_for_stuck_thread(proc, target);
  if (!target.live_tid) return;
  look_at_program(proc, *target.live_tid, target);
  target.memory_file_readable = can_open(proc.path(*target.live_tid, "mem"));
  target.page_map_readable = can_open(proc.path(*target.live_tid, "pagemap"));
}

}  // namespace

KernelVersion parse_kernel_version(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view after = text.substr(dot + 1);
  const auto major = parse_number(text.substr(0, dot));
  const auto minor = parse_number(after.substr(0, after.find_first_not_of("0123456789")));
  if (!major || !minor || *major > 1000 || *minor > 1000) return {};
  return {static_cast<unsigned>(*major), static_cast<unsigned>(*minor)};
}

MachineFacts gather_machine_facts(const KernelFiles& files) {
  MachineFacts facts;
  const std::string self = files.proc + "/self";
  const std::string kernel = files.proc + "/sys/kernel";
  const std::string selinux = files.sys + "/fs/selinux";
  facts.kernel = parse_kernel_version(kernel_text_or_empty(kernel + "/osrelease"));
  facts.self =
      parse_process_status(kernel_text_or_empty(self + "/status")).value_or(ProcessStatus{});
  facts.here = find_container(files);
  const auto init = parse_process_status(kernel_text_or_empty(files.proc + "/1/status"));
  facts.init_is_filtered = init && init->seccomp == SeccompMode::kFilter;
  if (const auto scope = parse_number(kernel_text_or_empty(kernel + "/yama/ptrace_scope"))) {
    facts.yama_scope = static_cast<unsigned>(*scope);
  }
  facts.security_modules = trimmed(kernel_text_or_empty(files.sys + "/kernel/security/lsm"));
  facts.selinux_enforcing = parse_number(kernel_text_or_empty(selinux + "/enforce")) == 1;
  // "1 1": the value, and the one that is pending.
  facts.selinux_denies_ptrace =
      kernel_text_or_empty(selinux + "/booleans/deny_ptrace").starts_with('1');
  facts.own_label = read_label(self + "/attr/current");
  facts.memory =
      parse_machine_memory(kernel_text_or_empty(files.proc + "/meminfo"),
                           kernel_text_or_empty(files.proc + "/sys/vm/overcommit_memory"));
  return facts;
}

TargetFacts gather_target_facts(int pid, const KernelFiles& files) {
  TargetFacts target;
  target.pid = pid;
  const ProcFs proc(files.proc);
  target.presence = look_for(proc, pid);
  if (target.presence != Presence::kPresent) return target;
  try {
    const std::optional<ProcessStatus> named = read_status(proc, pid);
    // A tid: the process that it is a thread of.
    const auto status = named ? read_status(proc, named->thread_group) : std::nullopt;
    const auto stat = status ? proc.try_stat(status->thread_group) : std::nullopt;
    if (!stat) {
      target.presence = Presence::kAbsent;  // it ended while we looked
      return target;
    }
    target.status = *status;
    target.stat = *stat;
    look_at_process(proc, files, target);
  } catch (const Error&) {
    // A damaged text: what was found so far is what there is to judge by.
  }
  return target;
}

AttachFacts gather_attach_facts(int pid) {
  const KernelFiles files;
  AttachFacts facts;
  facts.machine = gather_machine_facts(files);
  facts.machine.syscalls = probe_own_syscalls();
  if (pid == 0) return facts;
  const BusyClock busy(pid);
  TargetFacts target = gather_target_facts(pid, files);
  target.busy_processors = busy.processors().value_or(0);
  target.may_be_killed = ::kill(pid, 0) == 0 || errno != EPERM;
  target.is_self = target.status.thread_group == ::getpid();
  target.is_descendant = descends_from(ProcFs(files.proc), pid, ::getpid());
  if (target.live_tid && facts.machine.syscalls.process_vm_readv == Availability::kAvailable) {
    target.access = probe_access(*target.live_tid);
  }
  facts.target = std::move(target);
  return facts;
}

}  // namespace heapsnap
