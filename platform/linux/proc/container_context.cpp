#include "platform/linux/proc/container_context.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/file_name.h"
#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/container_path.h"
#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

namespace {

constexpr size_t kShortId = kLeastIdDigits;  // enough for any command

// "foo.service" from "/system.slice/foo.service".
std::string unit_name(std::string_view path) {
  const std::string_view last = file_name_of(path);
  return last.ends_with(".service") ? std::string(last) : std::string();
}

bool exists(const char* path) {
  return ::access(path, F_OK) == 0;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

std::string or_placeholder(const std::string& name, const char* placeholder) {
  return name.empty() ? placeholder : name;
}

}  // namespace

ContainerContext recognize_container(const ContainerClues& clues) {
  std::string id;
  std::string unit;
  bool docker = clues.dockerenv;
  bool podman = clues.containerenv;
  bool kubernetes = clues.kubernetes;
  for (const CgroupPath& cgroup : parse_cgroup(clues.cgroup_text)) {
    const std::vector<std::string_view> ids = container_ids(cgroup.path);
    if (id.empty() && !ids.empty()) id = ids.front().substr(0, kShortId);
    if (unit.empty()) unit = unit_name(cgroup.path);
    docker = docker || cgroup.path.find("docker") != std::string::npos;
    podman = podman || cgroup.path.find("libpod") != std::string::npos;
    kubernetes = kubernetes || cgroup.path.find("kubepods") != std::string::npos;
  }
  // dockerd itself and its shims have "docker" in their path, but no id in it.
  const bool contained = clues.dockerenv || clues.containerenv || clues.container_env ||
                         clues.kubernetes || !id.empty();
  if (!contained) {
    if (clues.service && !unit.empty()) return {ContainerContext::Kind::kService, unit};
    return {ContainerContext::Kind::kHost, {}};
  }
  if (kubernetes) return {ContainerContext::Kind::kKubernetes, clues.hostname};
  // A container's hostname is its short id, unless it was given another one.
  if (id.empty() && clues.hostname.size() == kShortId && is_hex(clues.hostname)) {
    id = clues.hostname;
  }
  if (podman) return {ContainerContext::Kind::kPodman, id};
  if (docker) return {ContainerContext::Kind::kDocker, id};
  return {ContainerContext::Kind::kContainer, id};
}

ContainerContext find_container(const KernelFiles& files) {
  ContainerClues clues;
  clues.cgroup_text = kernel_text_or_empty(files.proc + "/self/cgroup");
  clues.dockerenv = exists("/.dockerenv");
  clues.containerenv = exists("/run/.containerenv");
  clues.kubernetes = is_set("KUBERNETES_SERVICE_HOST");
  clues.container_env = is_set("container");
  clues.service = is_set("INVOCATION_ID") && ::isatty(STDIN_FILENO) != 1;
  char hostname[256] = {};
  if (::gethostname(hostname, sizeof(hostname) - 1) == 0) clues.hostname = hostname;
  return recognize_container(clues);
}

std::string command_with_ptrace(const ContainerContext& here, bool root_has_it,
                                std::string_view arguments) {
  std::string run = "heapsnap " + std::string(arguments);
  const std::string container = or_placeholder(here.name, "CONTAINER");
  std::string inside = "as root in this container: " + run;
  const std::string exec = " exec -it -u 0 ";
  const std::string options = " run --rm -it --cap-add SYS_PTRACE --pid=container:";
  switch (here.kind) {
    case ContainerContext::Kind::kHost:
      if (root_has_it) return "sudo " + run;
      return "from a new login, since this shell can never have CAP_SYS_PTRACE: sudo " + run;
    case ContainerContext::Kind::kDocker:
      if (root_has_it)
        return inside + " (from outside: docker" + exec + container + " " + run + ")";
      return "docker" + options + container + " IMAGE " + run;
    case ContainerContext::Kind::kPodman:
      if (root_has_it)
        return inside + " (from outside: podman" + exec + container + " " + run + ")";
      return "podman" + options + container + " IMAGE " + run;
    case ContainerContext::Kind::kKubernetes:
      return "kubectl debug -it " + or_placeholder(here.name, "POD") +
             " --profile=general --target=CONTAINER --image=IMAGE -- " + run;
    case ContainerContext::Kind::kContainer:
      if (root_has_it) return inside;
      return "give this container CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE), then: " + run;
    case ContainerContext::Kind::kService:
      return "sudo systemctl edit " + here.name +
             "  # [Service] AmbientCapabilities=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH";
  }
  return run;
}

std::string command_without_seccomp(const ContainerContext& here, std::string_view arguments) {
  const std::string run = "heapsnap " + std::string(arguments);
  const std::string options =
      " run --rm -it --cap-add SYS_PTRACE --security-opt seccomp=unconfined --pid=container:";
  switch (here.kind) {
    case ContainerContext::Kind::kDocker:
      return "docker" + options + or_placeholder(here.name, "CONTAINER") + " IMAGE " + run;
    case ContainerContext::Kind::kPodman:
      return "podman" + options + or_placeholder(here.name, "CONTAINER") + " IMAGE " + run;
    case ContainerContext::Kind::kService:
      return "sudo systemctl edit " + here.name +
             "  # [Service] SystemCallFilter=@debug process_vm_readv process_vm_writev";
    // The profile "general" allows both calls.
    case ContainerContext::Kind::kKubernetes: return command_with_ptrace(here, false, arguments);
    case ContainerContext::Kind::kHost:
    case ContainerContext::Kind::kContainer: break;
  }
  return "start it from a shell without a seccomp filter (grep Seccomp /proc/self/status): " + run;
}

}  // namespace heapsnap
