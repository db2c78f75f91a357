// heapsnap doctor: what bars an attach, and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "platform/linux/attach_obstacles.h"
#include "report/text_report.h"
#include "report/writer.h"

namespace heapsnap {

int run_doctor(const std::vector<std::string>& arguments);

// What an attach would exit with: 0, or the code of the first finding that blocks.
int attach_exit_code(const std::vector<Obstacle>& checks);

// The checklist for a person. `pid` 0: the machine alone.
void print_checklist(Writer& out, int pid, const std::vector<Obstacle>& checks,
                     const TextStyle& style);

// The same for programs, one object; keys are only ever added:
//   {"kind":"doctor","version":1,"pid":4711,"attachable":false,"exit_code":4,
//    "checks":[{"id":"yama","severity":"blocked","what":"...","why":"...","remedy":"..."}]}
// severity is ok, note, degraded or blocked; pid is 0 for the machine alone.
void print_checklist_json(Writer& out, int pid, const std::vector<Obstacle>& checks);

}  // namespace heapsnap
