#include "base/error.h"
#include "report/ndjson_export.h"
#include "report/ptmallocdump_export.h"
#include "snapshot/snapshot_reader.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/result_file.h"

namespace heapsnap {

namespace {

DumpedHeaps parse_heaps(const std::string& text) {
  if (text == "all") return DumpedHeaps::kAll;
  if (text == "main") return DumpedHeaps::kMain;
  if (text == "others") return DumpedHeaps::kNonMain;
  throw Error(ErrorKind::kUsage, "--heaps " + text, "not one of all, main, others");
}

}  // namespace

int run_export(const std::vector<std::string>& arguments) {
  std::string path;
  std::string format;
  std::string output;
  std::string heaps = "all";
  bool force = false;
  OptionParser parser(
      "export [options] SNAPSHOT",
      "Writes a snapshot in a format that other tools read:\n"
      "  ndjson         a line of JSON per chunk, for DuckDB, ClickHouse, mongoimport, jq\n"
      "  ptmallocdump   the text of the ptmalloc2 heap dumper, for its visualizer");
  parser.text("format", format, "FORMAT", "ndjson or ptmallocdump");
  parser.text("output,o", output, "FILE", "output file (default: standard output)");
  parser.flag("force,f", force, "replace FILE if it exists");
  parser.text("heaps", heaps, "WHICH", "with ptmallocdump: all, main, or others (default: all)");
  parser.positional("SNAPSHOT", path);
  parser.example("heapsnap export a.hsnap --format ndjson | jq -c 'select(.size > 1048576)'",
                 "the chunks larger than 1 MiB");
  if (!parser.parse(arguments)) return kExitDone;
  if (path.empty() || format.empty()) {
    throw Error(ErrorKind::kUsage, "export", "it needs a snapshot and a --format",
                "for example: heapsnap export a.hsnap --format ndjson");
  }
  const DumpedHeaps dumped = parse_heaps(heaps);
  if (format != "ndjson" && format != "ptmallocdump") {
    throw Error(ErrorKind::kUsage, "--format " + format, "not one of ndjson, ptmallocdump");
  }
  const SnapshotReader snapshot = SnapshotReader::open(path);
  ResultFile result(output, force);
  if (format == "ndjson") {
    export_ndjson(snapshot, result.writer());
  } else {
    export_ptmallocdump(snapshot, dumped, result.writer());
  }
  result.commit();
  return kExitDone;
}

}  // namespace heapsnap
