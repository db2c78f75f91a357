// Which snapshots among many are of one program, so that each program has a history of its own.
//
// One program: the same name (comm) and executable's file name on the same host; its folder may be
// another one, as after an upgrade. And whatever one process executed in turn.
//
//   host a: web /opt/1/web   -.
//   host a: web /opt/2/web   -+- group 0      host a: mail /opt/1/mail  --- group 1
//   host b: web /opt/2/web   --- group 2
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "target/process.h"

namespace heapsnap {

// The group of each process. Groups are numbered as they are first met.
std::vector<size_t> group_by_program(std::span<const Process> processes);

}  // namespace heapsnap
