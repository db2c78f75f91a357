// --pass-over and --pass-over-file: which functions a call stack is not charged to.
#pragma once

#include <string>
#include <vector>

#include "analysis/passed_frames.h"
#include "tools/heapsnap/option_parser.h"

namespace heapsnap {

struct PassOverOptions {
  std::vector<std::string> patterns;
  std::string file;
};

void add_pass_over_options(OptionParser& parser, PassOverOptions& options);
// The default patterns, those of the file, then the others. Throws Error for a pattern that names
// nothing, and for a file that cannot be read or is too large to be such a list.
PassedFrames passed_frames(const PassOverOptions& options);

}  // namespace heapsnap
