// Whether two processes run the same build of a program.
#pragma once

#include <span>
#include <string_view>

#include "target/mapping.h"
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

// Whether `exe` was started anew between the two, as its addresses tell: its process executed it
// again, or they are of two processes of the same number, as cores of a container's may be.
bool is_started_anew(std::string_view exe, std::span<const Mapping> before,
                     std::span<const Mapping> after);

}  // namespace heapsnap
