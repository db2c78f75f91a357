#include "report/heapprof_listing.h"

#include <fmt/format.h>

#include <cmath>

#include "report/stack_frames.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

void print_sizes(Writer& out, const std::vector<SizeCount>& sizes) {
  out.write("[");
  const char* between = "";
  for (const SizeCount& one : sizes) {
    const std::string number = fmt::format("{}", one.size);
    for (uint64_t i = 0; i < one.count; ++i) {
      out.write(between);
      out.write(number);
      between = ", ";
    }
  }
  out.write("]\n");
}

}  // namespace

void print_heapprof_listing(Writer& out, const StackReportInput& input) {
  for (size_t i = 0; i < input.ranked.size(); ++i) {
    const uint32_t id = input.ranked[i];
    const double bytes = input.census.stacks[id].live_bytes;
    const double share = input.census.live_bytes > 0 ? 100 * bytes / input.census.live_bytes : 0;
    out.write(fmt::format("{}% {} ", static_cast<int>(share), std::llround(bytes)));
    print_sizes(out, input.sizes[i]);
    StackEnd end{};
    for (const NamedFrame& frame : named_frames(input.recorded, *input.metadata.tracker,
                                                input.recorded.stacks.sites[id].node, end)) {
      const std::string line = line_label(frame, true);
      out.write(fmt::format("  {:#x} {}{}\n", frame.return_address.value(),
                            printable(function_label(frame)),
                            line.empty() ? "" : " (" + printable(line) + ")"));
    }
  }
}

}  // namespace heapsnap
