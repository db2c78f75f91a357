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

}  // namespace heapsnap
