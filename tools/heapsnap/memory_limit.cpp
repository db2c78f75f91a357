#include "tools/heapsnap/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/error.h"
#include "report/number_text.h"
#include "tools/heapsnap/option_parser.h"
#include "tracker/table_layout.h"

namespace heapsnap {

void add_memory_limit(OptionParser& parser, std::string& text) {
  parser.text(
      "memory-limit", text, "BYTES",
      "most memory for the tracker's tables, 2MiB or more; when it is reached, new blocks are not "
      "recorded (default: none, or for inject half of what memory limits leave, below 1 GiB)");
}

uint64_t parse_memory_limit(const std::string& text, uint64_t frames) {
  if (text.empty()) return 0;
  const uint64_t limit = parse_byte_size("--memory-limit", text);
  const auto kept = static_cast<uint32_t>(std::min<uint64_t>(frames, tracker::kFramesAtMost));
  const uint64_t least = tracker::least_memory_limit(kept);
  if (limit >= least) return limit;
  throw Error(ErrorKind::kUsage, "--memory-limit " + text,
              fmt::format("empty tables take up to {} with {}", size_text(least),
                          kept == 0 ? std::string("complete stacks")
                                    : "stacks of " + count_text(kept, "frame", "frames")),
              fmt::format("allow more: --memory-limit {}MiB", 8 * least >> 20));
}

}  // namespace heapsnap
