#include "analysis/program_build.h"

#include <algorithm>

#include "base/file_name.h"

namespace heapsnap {

namespace {

// Null where there is none.
const Mapping* first_of(std::string_view path, std::span<const Mapping> mappings) {
  const auto found = std::find_if(mappings.begin(), mappings.end(), [&](const Mapping& mapping) {
    return path_of_program(mapping.path) == path;
  });
  return found == mappings.end() ? nullptr : &*found;
}

}  // namespace

std::string_view path_of_program(std::string_view exe) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (exe.ends_with(kDeleted)) exe.remove_suffix(kDeleted.size());
  return exe;
}

bool is_postgres(std::string_view exe) {
  return file_name_of(path_of_program(exe)) == "postgres";
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

bool is_started_anew(std::string_view exe, std::span<const Mapping> before,
                     std::span<const Mapping> after) {
  // The kernel places both when it executes a program. The program itself lies at a fixed address
  // where it is not position independent; the vDSO is nameless in cores of some debuggers.
  for (const std::string_view path : {path_of_program(exe), std::string_view("[vdso]")}) {
    const Mapping* const first = first_of(path, before);
    const Mapping* const then = first_of(path, after);
    if (first != nullptr && then != nullptr && first->range.begin != then->range.begin) return true;
  }
  return false;
}

}  // namespace heapsnap
