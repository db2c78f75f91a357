#include "platform/linux/proc/container_processes.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

using NamedKind = ContainerName::Kind;

const std::string kServerId = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const std::string kTwinId = "0123456789abffff0123456789abcdef0123456789abcdef0123456789abcdef";
const std::string kServerUid = "8d2f6a1e-4b7c-4f0a-9c3d-5e6f708192a3";

ListedProcess listed(int pid, const std::string& cgroup) {
  return {pid, "p" + std::to_string(pid), 0, "", {cgroup}};
}

std::vector<int> pids_of(const ContainerMatch& match) {
  std::vector<int> found;
  for (const ListedProcess& process : match.processes) found.push_back(process.pid);
  return found;
}

ContainedProcess contained(int pid, int parent, std::vector<int> namespace_pids) {
  ContainedProcess process;
  process.pid = pid;
  process.parent = parent;
  process.namespace_pids = std::move(namespace_pids);
  return process;
}

// 0 for none.
int main_pid(const std::vector<ContainedProcess>& processes) {
  const size_t index = main_process(processes);
  return index == kNoMainProcess ? 0 : processes[index].pid;
}

}  // namespace

TEST_CASE("processes of a container and of a pod") {
  const std::vector<ListedProcess> processes = {
      listed(1, "/init.scope"), listed(10, "/docker/" + kServerId),
      listed(11, "/docker/" + kServerId + "/sub"),
      listed(20, "/kubepods/pod" + kServerUid + "/" + kTwinId),
      listed(21, "/machine.slice/libpod-conmon-" + kServerId + ".scope")};
  CHECK(pids_of(match_container({NamedKind::kContainer, "0123456789abcd"}, processes)) ==
        std::vector{10, 11});
  const ContainerMatch both = match_container({NamedKind::kContainer, "0123456789ab"}, processes);
  CHECK(both.ids == std::set<std::string>{kServerId, kTwinId});
  CHECK(pids_of(match_container({NamedKind::kPod, "8d2f6a1e4b7c"}, processes)) == std::vector{20});
  CHECK(match_container({NamedKind::kPod, "9d2f6a1e4b7c"}, processes).processes.empty());
  CHECK(containers_of(NamedKind::kContainer, processes) ==
        std::set<std::string>{kServerId, kTwinId});
  CHECK(containers_of(NamedKind::kPod, processes).size() == 1);
}

TEST_CASE("a group inside of one container does not pass for another container") {
  const std::string inner = "/docker/" + kTwinId + "/docker-" + kServerId + ".scope";
  const ContainerMatch outer = match_container(
      {NamedKind::kContainer, kServerId}, {listed(10, inner), listed(20, "/docker/" + kServerId)});
  CHECK(pids_of(outer) == std::vector{20});
  // Docker in Docker, where no other has that id.
  CHECK(pids_of(match_container({NamedKind::kContainer, kServerId}, {listed(10, inner)})) ==
        std::vector{10});
  CHECK(pids_of(match_container({NamedKind::kContainer, kTwinId}, {listed(10, inner)})) ==
        std::vector{10});
}

TEST_CASE("the main process is the one that all others descend from") {
  CHECK(main_pid({}) == 0);
  CHECK(main_pid({contained(10, 5, {10, 1})}) == 10);
  CHECK(main_pid({contained(12, 11, {12, 3}), contained(11, 10, {11, 2}),
                  contained(10, 5, {10, 1})}) == 10);
  // Without a pid namespace of its own, and without what old kernels do not tell.
  CHECK(main_pid({contained(10, 5, {10}), contained(11, 10, {11})}) == 10);
  CHECK(main_pid({contained(10, 5, {}), contained(11, 10, {})}) == 10);
}

TEST_CASE("a process that entered the container is not its main one") {
  CHECK(main_pid({contained(10, 5, {10, 1}), contained(30, 6, {30, 8})}) == 10);
  CHECK(main_pid({contained(30, 6, {30, 8}), contained(10, 5, {10, 1})}) == 10);
  // Two that began side by side.
  CHECK(main_pid({contained(10, 5, {10}), contained(30, 6, {30})}) == 0);
  CHECK(main_pid({contained(10, 5, {10, 1}), contained(30, 6, {30, 1})}) == 0);
  // One in the group, but in a pid namespace further out.
  CHECK(main_pid({contained(10, 5, {10, 1}), contained(30, 6, {30})}) == 0);
}

TEST_CASE("a pod's sandbox counts where there is nothing else") {
  std::vector<ContainedProcess> pod = {contained(9, 5, {9, 1}), contained(10, 5, {10, 1}),
                                       contained(11, 10, {11, 2})};
  CHECK(main_pid(pod) == 0);
  pod.front().is_sandbox = true;
  CHECK(main_pid(pod) == 10);
  pod.resize(1);
  CHECK(main_pid(pod) == 9);
}
