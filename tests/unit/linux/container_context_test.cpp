#include "platform/linux/proc/container_context.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

using Kind = ContainerContext::Kind;

const std::string kId = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

ContainerContext recognize(const std::string& cgroup_text) {
  ContainerClues clues;
  clues.cgroup_text = cgroup_text;
  clues.hostname = "box";
  return recognize_container(clues);
}

}  // namespace

TEST_CASE("containers by their control group") {
  CHECK(recognize("12:memory:/docker/" + kId + "\n").kind == Kind::kDocker);
  CHECK(recognize("0::/system.slice/docker-" + kId + ".scope\n").name == "0123456789ab");
  CHECK(recognize("0::/machine.slice/libpod-" + kId + ".scope\n").kind == Kind::kPodman);
  const auto pod = recognize(
      "0::/kubepods.slice/kubepods-burstable.slice/kubepods-pod1.slice/"
      "cri-containerd-" +
      kId + ".scope\n");
  CHECK(pod.kind == Kind::kKubernetes);
  CHECK(pod.name == "box");
  CHECK(recognize("0::/lxc/" + kId + "\n").kind == Kind::kContainer);
}

TEST_CASE("containers by their marks, when the control group is a namespace's root") {
  ContainerClues clues;
  clues.cgroup_text = "0::/\n";
  clues.hostname = "3f2a00000000";
  CHECK(recognize_container(clues).kind == Kind::kHost);
  clues.container_env = true;
  CHECK(recognize_container(clues).kind == Kind::kContainer);
  clues.dockerenv = true;
  CHECK(recognize_container(clues).kind == Kind::kDocker);
  CHECK(recognize_container(clues).name == "3f2a00000000");
  clues.hostname = "web-1";
  CHECK(recognize_container(clues).name.empty());
  clues.containerenv = true;
  CHECK(recognize_container(clues).kind == Kind::kPodman);
  clues.kubernetes = true;
  CHECK(recognize_container(clues).kind == Kind::kKubernetes);
}

TEST_CASE("the host, and services on it") {
  CHECK(recognize("0::/user.slice/user-1000.slice/session-2.scope\n").kind == Kind::kHost);
  CHECK(recognize("").kind == Kind::kHost);
  // A service whose name speaks of docker is no container.
  CHECK(recognize("0::/system.slice/docker.service\n").kind == Kind::kHost);
  ContainerClues clues;
  clues.cgroup_text = "0::/system.slice/heapsnap@4.service\n";
  clues.service = true;
  CHECK(recognize_container(clues).kind == Kind::kService);
  CHECK(recognize_container(clues).name == "heapsnap@4.service");
}

TEST_CASE("each place has its command") {
  const auto command = [](Kind kind) { return command_with_ptrace({kind, ""}, true, "attach 1"); };
  CHECK(command(Kind::kHost) == "sudo heapsnap attach 1");
  CHECK(
      command(Kind::kPodman) ==
      "as root in this container: heapsnap attach 1 (from outside: podman exec -it -u 0 CONTAINER "
      "heapsnap attach 1)");
  CHECK(command(Kind::kKubernetes).find("kubectl debug -it POD --profile=general") == 0);
  CHECK(command(Kind::kContainer) == "as root in this container: heapsnap attach 1");
  const auto grant = [](Kind kind) { return command_with_ptrace({kind, "c"}, false, "attach 1"); };
  CHECK(grant(Kind::kPodman) ==
        "podman run --rm -it --cap-add SYS_PTRACE --pid=container:c IMAGE heapsnap attach 1");
  CHECK(grant(Kind::kHost).find("new login") != std::string::npos);
  CHECK(grant(Kind::kContainer).find("SYS_PTRACE") != std::string::npos);
  CHECK(command_with_ptrace({Kind::kService, "a.service"}, true, "attach 1")
            .find("systemctl edit a.service") != std::string::npos);
  CHECK(command_without_seccomp({Kind::kService, "a.service"}, "attach 1").find("@debug") !=
        std::string::npos);
  CHECK(command_without_seccomp({Kind::kDocker, "ab"}, "attach 1")
            .find("--security-opt seccomp=unconfined") != std::string::npos);
}
