#include "tools/doctor/attach_permission.h"

namespace heapsnap {

namespace {

constexpr unsigned kYamaAncestors = 1;
constexpr unsigned kYamaCapability = 2;
constexpr unsigned kYamaNobody = 3;

Obstacle blocked(std::string id, std::string what, std::string why, std::string remedy) {
  return {.severity = Obstacle::Severity::kBlocks,
          .id = std::move(id),
          .what = std::move(what),
          .why = std::move(why),
          .remedy = std::move(remedy)};
}

// Has what becoming root would give.
bool has_all_of_root(const ProcessStatus& self) {
  constexpr uint64_t kAll = kCapSysPtrace | kCapDacReadSearch;
  return self.uid.effective == 0 && (self.capabilities_effective & kAll) == kAll;
}

// Root without CAP_SYS_PTRACE is what most containers start their processes as.
std::string lacking(const AttachFacts& facts) {
  return user_text(facts.machine.self.uid.effective) + " without CAP_SYS_PTRACE";
}

// Holds for root, too: no capability overrides it.
std::optional<Obstacle> yama_scope_three(const AttachFacts& facts) {
  if (facts.machine.yama_scope != kYamaNobody) return std::nullopt;
  return blocked(
      "yama", "Yama forbids tracing on this machine",
      "kernel.yama.ptrace_scope is 3: nobody may trace, and only a reboot can change that",
      "set kernel.yama.ptrace_scope = 1 in /etc/sysctl.d/ and reboot");
}

std::optional<Obstacle> other_user_namespace(const AttachFacts& facts) {
  if (facts.target->user_namespace != UserNamespace::kOther) return std::nullopt;
  return blocked("user-namespace", "It runs in another user namespace",
                 "its user namespace is no descendant of heapsnap's, so heapsnap's capabilities do "
                 "not apply there",
                 "as root on the host: sudo heapsnap " + attach_arguments(facts));
}

std::optional<Obstacle> other_owner(const AttachFacts& facts) {
  const ProcessStatus& target = facts.target->status;
  if (owns(facts.machine.self, target)) return std::nullopt;
  return blocked("owner", "It belongs to " + user_text(target.uid.effective),
                 "heapsnap runs as " + lacking(facts), remedy_by_capability(facts));
}

std::optional<Obstacle> more_capabilities(const AttachFacts& facts) {
  const uint64_t extra =
      facts.target->status.capabilities_permitted & ~facts.machine.self.capabilities_permitted;
  if (extra == 0) return std::nullopt;
  return blocked("capabilities", "It has more capabilities than heapsnap",
                 capability_names(extra) + "; heapsnap runs as " + lacking(facts),
                 remedy_by_capability(facts));
}

std::optional<Obstacle> not_dumpable(const AttachFacts& facts) {
  const TargetFacts& target = *facts.target;
  if (!target.files_owner || *target.files_owner == target.status.uid.effective) {
    return std::nullopt;
  }
  return blocked("dumpable", "It is marked as not dumpable",
                 "it changed its IDs, cannot read its own executable, or called prctl("
                 "PR_SET_DUMPABLE); heapsnap runs as " +
                     lacking(facts),
                 remedy_by_capability(facts));
}

std::optional<Obstacle> yama(const AttachFacts& facts) {
  const std::optional<unsigned> scope = facts.machine.yama_scope;
  if (scope == kYamaCapability) {
    return blocked("yama", "Yama allows only tracers with CAP_SYS_PTRACE",
                   "kernel.yama.ptrace_scope is 2, and heapsnap runs as " + lacking(facts),
                   remedy_by_capability(facts));
  }
  if (scope == kYamaAncestors && !facts.target->is_descendant) {
    return blocked("yama", "Yama allows only ancestors to trace a process",
                   "kernel.yama.ptrace_scope is 1, heapsnap runs as " + lacking(facts) +
                       " and did not start it",
                   remedy_by_capability(facts));
  }
  return std::nullopt;
}

std::optional<Obstacle> security_module(const AttachFacts& facts) {
  const MachineFacts& machine = facts.machine;
  if (machine.selinux_enforcing && machine.selinux_denies_ptrace) {
    return blocked("security-module", "SELinux forbids tracing",
                   "it is in enforcing mode, and its boolean deny_ptrace is on",
                   "sudo setsebool deny_ptrace off");
  }
  if (facts.target->access != Access::kRefused) return std::nullopt;
  if (machine.selinux_enforcing) {
    return blocked(
        "security-module", "SELinux refused",
        "heapsnap runs as " + machine.own_label + ", the process as " + facts.target->label,
        "sudo ausearch -m avc -ts recent -c heapsnap");
  }
  const bool confined = machine.own_label.ends_with(')') || facts.target->label.ends_with(')');
  if (confined) {
    return blocked(
        "security-module", "AppArmor refused",
        "heapsnap runs under " + machine.own_label + ", the process under " + facts.target->label,
        "sudo journalctl -k -g 'apparmor=.DENIED.*ptrace'");
  }
  return blocked("security-module", "The kernel refused",
                 "IDs, capabilities and Yama allow it, so it was a security module" +
                     (machine.security_modules.empty() ? std::string()
                                                       : " (" + machine.security_modules + ")") +
                     " or a sandbox",
                 "sudo dmesg | grep -i -E 'denied|audit' | tail");
}

}  // namespace

bool has_ptrace_capability(const AttachFacts& facts) {
  if ((facts.machine.self.capabilities_effective & kCapSysPtrace) == 0) return false;
  return !facts.target || facts.target->user_namespace != UserNamespace::kOther;
}

std::string remedy_by_capability(const AttachFacts& facts) {
  if (has_all_of_root(facts.machine.self)) return {};
  const bool root_has_it = (facts.machine.self.capabilities_bounding & kCapSysPtrace) != 0;
  return command_with_ptrace(facts.machine.here, root_has_it, attach_arguments(facts));
}

std::string remedy_without_seccomp(const AttachFacts& facts) {
  const MachineFacts& machine = facts.machine;
  const bool is_of_place =
      machine.init_is_filtered || machine.here.kind == ContainerContext::Kind::kService;
  return command_without_seccomp(is_of_place ? machine.here : ContainerContext{},
                                 attach_arguments(facts));
}

std::string user_text(uint32_t uid) {
  return uid == 0 ? "root" : "user " + std::to_string(uid);
}

std::string attach_arguments(const AttachFacts& facts) {
  return "attach " + (facts.target ? std::to_string(facts.target->pid) : std::string("PID"));
}

std::optional<Obstacle> find_refusal_cause(const AttachFacts& facts) {
  if (auto cause = yama_scope_three(facts)) return cause;
  if (!facts.target || facts.target->access == Access::kPermitted) return std::nullopt;
  if (!has_ptrace_capability(facts)) {
    using Check = std::optional<Obstacle> (*)(const AttachFacts&);
    for (const Check check :
         {other_user_namespace, other_owner, more_capabilities, not_dumpable, yama}) {
      if (auto cause = check(facts)) return cause;
    }
  }
  return security_module(facts);
}

}  // namespace heapsnap
