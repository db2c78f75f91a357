#include "tools/heapsnap/container_argument.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "platform/linux/proc/container_path.h"
#include "report/number_text.h"

namespace heapsnap {

namespace {

using NamedKind = ContainerName::Kind;

constexpr std::string_view kContainerPrefix = "container:";
constexpr std::string_view kPodPrefix = "pod:";
constexpr size_t kShown = 10;

std::string short_id(const std::string& id) {
  return id.substr(0, kLeastIdDigits);
}

std::string subject(const ContainerName& name) {
  return (name.kind == NamedKind::kPod ? "pod " : "container ") + name.begin;
}

// The first ten, and "..." for more.
std::string listed(const std::vector<std::string>& items) {
  std::string list;
  for (size_t i = 0; i < std::min(items.size(), kShown); ++i) {
    list += (i == 0 ? "" : ", ") + items[i];
  }
  return items.size() > kShown ? list + ", ..." : list;
}

// As they can be given to heapsnap.
std::string listed_ids(NamedKind kind, const std::set<std::string>& ids) {
  std::vector<std::string> words;
  for (const std::string& id : ids) {
    words.push_back(kind == NamedKind::kPod ? to_pod_uid_text(id)
                                            : id.substr(0, 2 * kLeastIdDigits));
  }
  return listed(words);
}

[[noreturn]] void refuse_no_process(const ContainerName& name,
                                    const std::vector<ListedProcess>& processes) {
  const char* const what = name.kind == NamedKind::kPod ? "pod" : "container";
  const std::set<std::string> others = containers_of(name.kind, processes);
  if (others.empty()) {
    throw Error(ErrorKind::kNoProcess, subject(name),
                fmt::format("no process that can be seen here is in a {}", what),
                "heapsnap sees the processes of other containers from the host, or from a "
                "container with --pid=host");
  }
  throw Error(
      ErrorKind::kNoProcess, subject(name),
      fmt::format("no process is in it; there are processes in {}", listed_ids(name.kind, others)),
      fmt::format("give one of these: {}{}",
                  name.kind == NamedKind::kPod ? kPodPrefix : kContainerPrefix,
                  name.kind == NamedKind::kPod ? to_pod_uid_text(*others.begin())
                                               : short_id(*others.begin())));
}

[[noreturn]] void refuse_several(const ContainerName& name,
                                 std::vector<ContainedProcess> processes) {
  std::stable_sort(processes.begin(), processes.end(),
                   [](const auto& a, const auto& b) { return a.rss > b.rss; });
  std::set<std::string> containers;
  for (const ContainedProcess& process : processes) containers.insert(process.container);
  std::vector<std::string> words;
  for (const ContainedProcess& process : processes) {
    words.push_back(fmt::format(
        "{} {} ({}{})", process.pid, process.comm, size_text(process.rss),
        containers.size() > 1 ? " in container:" + short_id(process.container) : std::string()));
  }
  throw Error(ErrorKind::kUsage, subject(name),
              fmt::format("{} processes are in it, and none started all others: {}",
                          processes.size(), listed(words)),
              containers.size() > 1 ? "give one of the PIDs, or one of the containers"
                                    : "give one of the PIDs");
}

// How to find the id of what was given instead: the name of a container or pod, probably.
std::string lookup_command(NamedKind kind, const std::string& word) {
  const bool is_name = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789._-") == std::string::npos;
  if (kind == NamedKind::kPod) {
    return fmt::format("ask Kubernetes for it: kubectl get pod {} -o jsonpath='{{.metadata.uid}}'",
                       is_name ? word : "NAME");
  }
  return fmt::format("ask Docker or Podman for it: docker inspect -f '{{{{.Id}}}}' {}",
                     is_name ? word : "NAME");
}

}  // namespace

std::optional<ContainerName> parse_container_argument(const std::string& argument) {
  const bool is_pod = argument.starts_with(kPodPrefix);
  if (!is_pod && !argument.starts_with(kContainerPrefix)) return std::nullopt;
  const NamedKind kind = is_pod ? NamedKind::kPod : NamedKind::kContainer;
  const std::string given = argument.substr(is_pod ? kPodPrefix.size() : kContainerPrefix.size());
  std::string digits = given;
  if (is_pod) {
    std::erase_if(digits, [](char c) { return c == '-' || c == '_'; });
  } else if (const size_t scheme = digits.find("://"); scheme != std::string::npos) {
    digits.erase(0, scheme + 3);
  }
  const size_t most = is_pod ? kPodUidDigits : kContainerIdDigits;
  if (!is_hex(digits) || digits.size() < kLeastIdDigits || digits.size() > most) {
    throw Error(
        ErrorKind::kUsage, argument,
        fmt::format("a {} goes by the first {} to {} of its {}'s digits 0-9 and a-f",
                    is_pod ? "pod" : "container", kLeastIdDigits, most, is_pod ? "UID" : "id"),
        lookup_command(kind, given));
  }
  return ContainerName{kind, std::move(digits)};
}

int resolve_container(const ContainerName& name) {
  ListedEntries entries;
  entries.cgroups = true;
  const std::vector<ListedProcess> processes = list_processes(entries);
  const ContainerMatch match = match_container(name, processes);
  if (match.ids.size() > 1) {
    throw Error(ErrorKind::kUsage, subject(name),
                fmt::format("{} begin so: {}", match.ids.size(), listed_ids(name.kind, match.ids)),
                "give more of the digits");
  }
  std::vector<ContainedProcess> contained = look_at_contained(match.processes);
  if (contained.empty()) refuse_no_process(name, processes);
  const size_t main = main_process(contained);
  if (main == kNoMainProcess) refuse_several(name, std::move(contained));
  return contained[main].pid;
}

}  // namespace heapsnap
