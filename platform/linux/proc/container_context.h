// Where heapsnap itself runs: on the host, in a container or in a systemd service. The same refusal
// has a different remedy in each.
#pragma once

#include <string>
#include <string_view>

#include "platform/linux/proc/kernel_files.h"

namespace heapsnap {

struct ContainerContext {
  enum class Kind {
    kHost,
    kDocker,
    kPodman,
    kKubernetes,
    kContainer,  // of another or an unknown kind
    kService,    // a systemd service
  };
  Kind kind = Kind::kHost;
  // Short container id, pod name or unit name; empty if unknown.
  std::string name;
};

// Clues to the kind; reading them needs no privilege.
struct ContainerClues {
  std::string cgroup_text;     // /proc/self/cgroup
  bool dockerenv = false;      // /.dockerenv exists
  bool containerenv = false;   // /run/.containerenv exists (podman)
  bool kubernetes = false;     // KUBERNETES_SERVICE_HOST is set
  bool container_env = false;  // "container" is set (systemd-nspawn, lxc, podman)
  bool service = false;        // INVOCATION_ID is set, and there is no terminal
  std::string hostname;        // in a container: its id, or the pod's name
};

ContainerContext recognize_container(const ContainerClues& clues);
ContainerContext find_container(const KernelFiles& files = {});

// The command that runs `heapsnap ARGUMENTS` (for example "attach 4711") with CAP_SYS_PTRACE from
// here. `root_has_it`: root has the capability here (it is in the bounding set), so becoming root
// is enough.
std::string command_with_ptrace(const ContainerContext& here, bool root_has_it,
                                std::string_view arguments);
// The same for a seccomp profile that bars ptrace(2) or process_vm_readv(2).
std::string command_without_seccomp(const ContainerContext& here, std::string_view arguments);

}  // namespace heapsnap
