#include "platform/linux/proc/container_path.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

const std::string kPathId = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const std::string kInnerId = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
const std::string kPathUid = "8d2f6a1e-4b7c-4f0a-9c3d-5e6f708192a3";
const std::string kUidDigits = "8d2f6a1e4b7c4f0a9c3d5e6f708192a3";
const std::string kUidOfSystemd = "8d2f6a1e_4b7c_4f0a_9c3d_5e6f708192a3";

// With '#' for the id, '@' for a UID as cgroupfs has it, and '%' for one as systemd has it.
std::string path_of(const std::string& shape) {
  std::string path;
  for (const char c : shape) {
    if (c == '#') {
      path += kPathId;
    } else if (c == '@') {
      path += kPathUid;
    } else if (c == '%') {
      path += kUidOfSystemd;
    } else {
      path += c;
    }
  }
  return path;
}

std::vector<std::string> ids_in(const std::string& path) {
  std::vector<std::string> found;
  for (const std::string_view id : container_ids(path)) found.emplace_back(id);
  return found;
}

}  // namespace

TEST_CASE("ids of containers, as each runtime has them") {
  for (const char* shape : {
           "/docker/#",                                // Docker, cgroupfs
           "/system.slice/docker-#.scope",             // Docker, systemd
           "/system.slice/docker-#.scope/init.scope",  // systemd in Docker
           "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-#.scope",  // rootless
           "/machine.slice/libpod-#.scope",                                            // Podman
           "/machine.slice/libpod-#.scope/container",                    // Podman, version 2
           "/libpod_parent/libpod-#",                                    // Podman, cgroupfs
           "/machine.slice/machine-libpod_pod_1f.slice/libpod-#.scope",  // Podman's pod
           "/default/#",                                                 // containerd (ctr)
           "/system.slice/nerdctl-#.scope",                              // nerdctl
           "/kubepods/burstable/pod@/#",                                 // containerd, cgroupfs
           "/kubepods/pod@/crio-#",                                      // CRI-O, cgroupfs
           "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%.slice/"
           "cri-containerd-#.scope",                            // containerd, systemd
           "/kubepods.slice/kubepods-pod%.slice/crio-#.scope",  // CRI-O, systemd
           "/system.slice/containerd.service/kubepods-burstable-pod%.slice:cri-containerd:#",
           "/../../docker/#",                          // from another namespace
           "/ecs/4f8e2d1c0b9a4f8e2d1c0b9a4f8e2d1c/#",  // Amazon ECS
       }) {
    CAPTURE(shape);
    CHECK(ids_in(path_of(shape)) == std::vector{kPathId});
  }
  CHECK(ids_in("/docker/" + kPathId + "/kubelet.slice/cri-containerd-" + kInnerId + ".scope") ==
        std::vector{kPathId, kInnerId});
}

TEST_CASE("what is no container's") {
  for (const char* shape : {"", "/", "/system.slice/docker.service", "/user.slice/session-2.scope",
                            "/machine.slice/libpod-conmon-#.scope", "/crio-conmon-#", "/docker/#0",
                            "/docker/0#", "/docker/x#", "/docker/#.mount",
                            "/docker/0123456789abcdef", "//////", ".scope", "/-.scope/:"}) {
    CAPTURE(shape);
    CHECK(ids_in(path_of(shape)).empty());
  }
  std::string upper = kPathId;
  upper[10] = 'A';
  CHECK(ids_in("/docker/" + upper).empty());
}

TEST_CASE("UIDs of pods, as cgroupfs and systemd have them") {
  for (const char* shape :
       {"/kubepods/burstable/pod@/#", "/kubepods/pod@", "/kubepods.slice/kubepods-pod%.slice/x",
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod%.slice/crio-#.scope",
        "/kubelet.slice/kubelet-kubepods.slice/x/pod@/#",
        "/system.slice/containerd.service/kubepods-burstable-pod%.slice:cri-containerd:#"}) {
    CAPTURE(shape);
    CHECK(pod_uid(path_of(shape)) == kUidDigits);
  }
  // Of a static pod, which the kubelet reads from a file.
  CHECK(pod_uid("/kubepods/pod" + kUidDigits + "/x") == kUidDigits);
  CHECK(to_pod_uid_text(kUidDigits) == kPathUid);
  CHECK(to_pod_uid_text("8d2f") == "8d2f");
  for (const char* shape : {"/kubepods/burstable", "/pod", "/podinfo/@", "/machine-pod%.slice/#",
                            "/kubepods/pod@0", "/kubepods/pod@@", "/kubepods-pod.slice",
                            "/kubepods/pod------------------------------------"}) {
    CAPTURE(shape);
    CHECK_FALSE(pod_uid(path_of(shape)));
  }
}

TEST_CASE("a path as long as the kernel's longest is read in one pass") {
  std::string path;
  for (int i = 0; i < 64; ++i) path += "/" + kPathId;
  CHECK(container_ids(path).size() == 64);
  CHECK(container_ids(std::string(1 << 20, 'a')).empty());
  CHECK(container_ids(std::string(1 << 20, '/')).empty());
  CHECK_FALSE(pod_uid(std::string(1 << 20, '-') + ".slice"));
}
