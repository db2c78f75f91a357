// The next step in words and commands.
#pragma once

#include <string>
#include <vector>

#include "analysis/next_step.h"
#include "report/report_input.h"

namespace heapsnap {

// A sentence, and the commands that it ends in; there may be none.
struct NextStepPart {
  std::string text;
  std::vector<std::string> commands = {};
};

struct NextStepText {
  std::string why;                      // what there is and what the commands tell or do
  std::vector<std::string> commands;    // for a shell, in this order; one at least
  std::vector<NextStepPart> more = {};  // what else must be known or can be done
};

// Of what was allocated and freed again: churned_bytes(). `what`: the snapshot or PID, as a word of
// a command.
NextStepPart churn_step(uint64_t churned, const std::string& what);

// ARGUMENTS, FILE or SCRIPT in a command stand for what the snapshot does not know.
NextStepText next_step_text(const ReportInput& input);

}  // namespace heapsnap
