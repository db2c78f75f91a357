// The container and the Kubernetes pod that the path of a control group names: Docker, containerd,
// CRI-O and Podman put their ids there, by cgroupfs or by systemd, in version 1 and 2.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heapsnap {

// Hex digits of a whole id, and of the shortest beginning that names a container or pod.
inline constexpr size_t kContainerIdDigits = 64;
inline constexpr size_t kPodUidDigits = 32;
inline constexpr size_t kLeastIdDigits = 12;

bool is_hex(std::string_view text);

// Ids of the containers that the path lies in, the outermost first: "/docker/ID",
// "/system.slice/docker-ID.scope", "/kubepods/pod.../ID", "...slice:cri-containerd:ID". The group
// of a container's monitor ("libpod-conmon-ID.scope") is none of it.
std::vector<std::string_view> container_ids(std::string_view path);

// 32 hex digits of the UID of the pod that the path lies in, without the dashes: "pod01234567-...",
// "kubepods-burstable-pod01234567_....slice".
std::optional<std::string> pod_uid(std::string_view path);

// "0123456789ab-...": the digits of a UID as Kubernetes prints it; other text as it is.
std::string to_pod_uid_text(const std::string& digits);

}  // namespace heapsnap
