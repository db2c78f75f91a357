// Whether two processes run the same build of a program.
#pragma once

#include <string_view>

#include "target/process.h"

namespace heapsnap {

// The path of a program, without what the kernel adds where the file was removed or replaced since.
std::string_view path_of_program(std::string_view exe);

struct ProgramBuild {
  std::string_view exe;
  std::string_view build_id;  // empty: unknown
};

// By the build ids, where both are known; else by the paths.
bool is_other_build(const ProgramBuild& a, const ProgramBuild& b);

// As far as is known: a core tells neither when its process began nor on which machine.
bool is_same_process(const Process& a, const Process& b);

// Whether it is PostgreSQL's server, whose postmaster forks a backend for each session.
bool is_postgres(std::string_view exe);

}  // namespace heapsnap
