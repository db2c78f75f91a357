#include "analysis/program_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "analysis/program_build.h"
#include "base/file_name.h"

namespace heapsnap {

namespace {

// Disjoint sets of the numbers below `size`, each known by its least member.
class NumberSets {
 public:
  explicit NumberSets(size_t size) : parents_(size) {
    std::iota(parents_.begin(), parents_.end(), size_t{0});
  }
  size_t least(size_t number) {
    while (parents_[number] != number) {
      number = parents_[number] = parents_[parents_[number]];
    }
    return number;
  }
  void join(size_t a, size_t b) {
    a = least(a);
    b = least(b);
    parents_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<size_t> parents_;
};

}  // namespace

std::vector<size_t> group_by_program(std::span<const Process> processes) {
  NumberSets sets(processes.size());
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, size_t> programs;
  std::map<std::tuple<std::string_view, int, uint64_t>, size_t> instances;
  for (size_t i = 0; i < processes.size(); ++i) {
    const Process& each = processes[i];
    sets.join(
        i,
        programs.try_emplace({each.hostname, each.comm, file_name_of(path_of_program(each.exe))}, i)
            .first->second);
    if (each.boot_id.empty()) continue;  // of a core: its pid alone does not identify it
    sets.join(
        i, instances.try_emplace({each.boot_id, each.pid, each.start_time_ticks}, i).first->second);
  }
  std::vector<size_t> groups;
  std::map<size_t, size_t> numbers;
  for (size_t i = 0; i < processes.size(); ++i) {
    groups.push_back(numbers.try_emplace(sets.least(i), numbers.size()).first->second);
  }
  return groups;
}

}  // namespace heapsnap
