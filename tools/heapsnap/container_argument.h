// A container or Kubernetes pod in the place of a PID.
#pragma once

#include <optional>
#include <string>

#include "platform/linux/proc/container_processes.h"

namespace heapsnap {

// "container:ID", also with the ID as Kubernetes writes it ("containerd://ID"), and "pod:UID";
// nothing for any other word. Throws Error{kUsage} where ID or UID can be no beginning of one.
std::optional<ContainerName> parse_container_argument(const std::string& argument);

// PID of its main process. Throws Error{kNoProcess} when no process is in it, naming those that
// there are, and Error{kUsage} when it means several containers, or has several processes of which
// none is the main one, listing them.
int resolve_container(const ContainerName& name);

}  // namespace heapsnap
