// The next step in words and commands.
#pragma once

#include <string>
#include <vector>

#include "analysis/next_step.h"
#include "report/report_input.h"

namespace heapsnap {

struct NextStepText {
  std::string why;                    // what there is and what the commands tell or do
  std::vector<std::string> commands;  // for a shell, in this order; one at least
};

// ARGUMENTS, FILE or SCRIPT in a command stand for what the snapshot does not know.
NextStepText next_step_text(const ReportInput& input);

}  // namespace heapsnap
