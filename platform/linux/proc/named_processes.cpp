#include "platform/linux/proc/named_processes.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/process_status.h"

namespace heapsnap {

namespace {

bool is_named(const std::filesystem::path& folder, const std::string& name) {
  const auto comm = read_kernel_text(folder / "comm");
  if (comm && trimmed(*comm) == name) return true;
  std::error_code gone;
  return std::filesystem::read_symlink(folder / "exe", gone).filename() == name;
}

}  // namespace

bool executes_own_file(int pid, const std::string& proc) {
  std::error_code cannot_be_seen;
  return std::filesystem::equivalent(proc + "/" + std::to_string(pid) + "/exe", proc + "/self/exe",
                                     cannot_be_seen);
}

std::set<int> own_ancestry(const std::string& proc) {
  std::set<int> ancestry;
  for (int pid = ::getpid(); pid > 0 && ancestry.insert(pid).second;) {
    const auto text = read_kernel_text(proc + "/" + std::to_string(pid) + "/status");
    const auto status = text ? parse_process_status(*text) : std::nullopt;
    pid = status ? status->parent : 0;
  }
  return ancestry;
}

std::vector<int> processes_named(const std::string& name, const std::string& proc) {
  const std::set<int> ancestry = own_ancestry(proc);
  std::vector<int> matches;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(proc, error)) {
    const auto pid = parse_number(entry.path().filename().string());
    if (!pid || ancestry.contains(static_cast<int>(*pid))) continue;
    if (is_named(entry.path(), name)) matches.push_back(static_cast<int>(*pid));
  }
  std::sort(matches.begin(), matches.end());
  return matches;
}

}  // namespace heapsnap
