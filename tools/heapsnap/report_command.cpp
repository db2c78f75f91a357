#include "base/error.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/report_output.h"

namespace heapsnap {

int run_report(const std::vector<std::string>& arguments) {
  std::string path;
  ReportStyle style;
  OptionParser parser("report [options] SNAPSHOT",
                      "Prints everything in a snapshot: a table that accounts for the whole\n"
                      "resident set, blocks in use by size and by who allocated them, what to do\n"
                      "next, arenas, size classes, the largest chunks, what malloc_trim(0) would\n"
                      "give back, and corruption that was found.");
  add_report_options(parser, style);
  parser.positional("SNAPSHOT", path);
  parser.example("heapsnap report a.hsnap | less -R", "read it page by page");
  parser.example("heapsnap report -j a.hsnap | jq .rss", "one part of it, for scripts");
  if (!parser.parse(arguments)) return kExitDone;
  if (path.empty()) {
    throw Error(ErrorKind::kUsage, "report", "it needs a snapshot",
                "make one with: heapsnap attach PID");
  }
  print_snapshot_report(SnapshotReader::open(path), path, ReportDepth::kWhole, style);
  return kExitDone;
}

}  // namespace heapsnap
