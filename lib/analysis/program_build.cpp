#include "analysis/program_build.h"

namespace heapsnap {

std::string_view path_of_program(std::string_view exe) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (exe.ends_with(kDeleted)) exe.remove_suffix(kDeleted.size());
  return exe;
}

bool is_postgres(std::string_view exe) {
  const std::string_view path = path_of_program(exe);
  return path.substr(path.rfind('/') + 1) == "postgres";
}

bool is_other_build(const ProgramBuild& a, const ProgramBuild& b) {
  if (!a.build_id.empty() && !b.build_id.empty()) return a.build_id != b.build_id;
  return path_of_program(a.exe) != path_of_program(b.exe);
}

bool is_same_process(const Process& a, const Process& b) {
  if (a.pid != b.pid || is_other_build({a.exe, a.build_id}, {b.exe, b.build_id})) return false;
  if (a.boot_id.empty() || b.boot_id.empty()) return true;
  return a.boot_id == b.boot_id && a.start_time_ticks == b.start_time_ticks;
}

}  // namespace heapsnap
