#include "report/heapprof_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/stack_frames.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

void print_sizes(Writer& out, const std::vector<SizeCount>& sizes, uint64_t most) {
  out.write("[");
  const char* between = "";
  uint64_t left_out = 0;
  for (const SizeCount& one : sizes) {
    const uint64_t listed = std::min(one.count, most);
    const std::string number = fmt::format("{}", one.size);
    for (uint64_t i = 0; i < listed; ++i) {
      out.write(between);
      out.write(number);
      between = ", ";
    }
    most -= listed;
    left_out += one.count - listed;
  }
  if (left_out != 0) out.write(fmt::format("{}... and {} more", between, left_out));
  out.write("]\n");
}

}  // namespace

void print_heapprof_listing(Writer& out, const StackReportInput& input, uint64_t most_sizes) {
  for (size_t i = 0; i < input.ranked.size(); ++i) {
    const uint32_t id = input.ranked[i];
    const double bytes = input.census.stacks[id].live_bytes;
    const double share = input.census.live_bytes > 0 ? 100 * bytes / input.census.live_bytes : 0;
    out.write(fmt::format("{}% {} ", static_cast<int>(share), std::llround(bytes)));
    print_sizes(out, input.sizes[i], most_sizes);
    for (const NamedFrame& frame : frames_of_stack(input.recorded, *input.metadata.tracker, id)) {
      const std::string line = line_label(frame, true);
      out.write(fmt::format("  {:#x} {}{}\n", frame.return_address.value(),
                            printable(function_label(frame)),
                            line.empty() ? "" : " (" + printable(line) + ")"));
    }
  }
}

}  // namespace heapsnap
