// The processes of a container or Kubernetes pod, and which of them is its main one.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "platform/linux/proc/process_list.h"

namespace heapsnap {

struct ContainedProcess {
  int pid = 0;
  int parent = 0;
  std::string comm;
  std::vector<int> namespace_pids;  // see ProcessStatus
  uint64_t rss = 0;                 // bytes
  std::string container;            // id of the container that it is in
  bool is_sandbox = false;          // Kubernetes' "pause", which only holds the pod's namespaces
};

struct ContainerName {
  enum class Kind { kContainer, kPod };
  Kind kind = Kind::kContainer;
  std::string begin;  // of the id or of the UID's digits
};

// What the machine has for a name. Not more than one of `ids`: the name is one's.
struct ContainerMatch {
  std::set<std::string> ids;  // whole ids, or digits of UIDs, that begin so
  std::vector<ListedProcess> processes;
};

// `processes`: all of the machine, with their control groups. A group below another container's
// counts only where no container of its own has that name, so that none can pass for another.
ContainerMatch match_container(const ContainerName& name,
                               const std::vector<ListedProcess>& processes);

// Ids of all containers, or digits of all pods' UIDs, that processes are in; for messages.
std::set<std::string> containers_of(ContainerName::Kind kind,
                                    const std::vector<ListedProcess>& processes);

// What /proc says of them now; those that have ended are left out, as is heapsnap with the
// processes that it descends from.
std::vector<ContainedProcess> look_at_contained(const std::vector<ListedProcess>& processes,
                                                const std::string& proc = "/proc");

// Index of the one that all others descend from, or process 1 of the pid namespace that all others
// have entered (docker exec); npos where there is none. Sandboxes count only where nothing else is.
inline constexpr size_t kNoMainProcess = SIZE_MAX;
size_t main_process(const std::vector<ContainedProcess>& processes);

}  // namespace heapsnap
