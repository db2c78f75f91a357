#include <optional>
#include <span>

#include "base/error.h"
#include "report/ndjson_export.h"
#include "report/ndjson_flat.h"
#include "report/ndjson_sums.h"
#include "report/ptmallocdump_export.h"
#include "snapshot/snapshot_reader.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/profile_formats.h"
#include "tools/heapsnap/result_file.h"
#include "tools/heapsnap/snapshot_argument.h"
#include "tools/heapsnap/step_line.h"
#include "tools/heapsnap/tracked_stacks.h"

namespace heapsnap {

namespace {

constexpr const char* kExportDescription =
    "Writes a snapshot in a format that other tools read. Of single chunks and sums:\n"
    "  ndjson         a line of JSON per chunk, for DuckDB, ClickHouse, mongoimport, jq; with\n"
    "                 --rows flat, a row per chunk with the same columns in each, for Parquet,\n"
    "                 and with --rows frames the call stacks as a table of their own; with\n"
    "                 --rows sums, a line per sum (account, sizes, arenas, stacks), each with the\n"
    "                 host, the process and the time, for a table of many hosts\n"
    "  ptmallocdump   the text of the ptmalloc2 heap dumper, for its visualizer\n"
    "Of the memory in use, by the call stacks of a tracked process, else by owners:\n"
    "  folded         a line per stack: flamegraph.pl, inferno, speedscope\n"
    "  pprof          go tool pprof, speedscope, Pyroscope (gzip; heapsnap push sends it there)\n"
    "  speedscope     speedscope, with a profile of the bytes and one of the blocks\n"
    "  dhat           valgrind's dh_view.html, Firefox Profiler\n"
    "  heaptrack      heaptrack_gui, heaptrack_print (give FILE a name that ends in .gz)\n"
    "Of the references between blocks:\n"
    "  heapsnapshot   the Memory panel of Chrome's DevTools, memlab\n"
    "Of the objects of a Ruby process, with what each refers to:\n"
    "  ruby-dump-all  the lines of ObjectSpace.dump_all: heapy, harb, sheap\n"
    "  heap_dump      the JSON of the gem heap_dump: mongoimport\n"
    "Owners and references are in snapshots taken with --references yes.";

struct ExportArguments {
  std::string path;
  std::string format;
  std::string by;
  std::string rows = "chunks";
  std::string output;
  std::string heaps = "all";
  bool force = false;
};

DumpedHeaps parse_heaps(const std::string& text) {
  check_choice("--heaps", text, {"all", "main", "others"});
  if (text == "main") return DumpedHeaps::kMain;
  return text == "others" ? DumpedHeaps::kNonMain : DumpedHeaps::kAll;
}

class UnusedChunks final : public ChunkSink {
 public:
  void on_batch(const ChunkBatch& /*batch*/) override {}
  void on_mmapped(const MmappedChunk& /*chunk*/) override {}
};

// Reads the long columns that would be read during the writing: a small file can claim chunks for
// gigabytes of text, and its damage may lie behind them. The other exports read all before they
// write.
void check_columns(const ExportArguments& arguments, const SnapshotReader& snapshot) {
  const bool is_dump = arguments.format == "ptmallocdump";
  const bool has_chunks = arguments.rows == "chunks" || arguments.rows == "flat";
  if (!is_dump && (arguments.format != "ndjson" || !has_chunks)) return;
  UnusedChunks unused;
  snapshot.read_chunks(unused);
  if (!is_dump) return;
  snapshot.read_pages([](const SnapshotReader::PageRun&) {});
  snapshot.read_contents([](Address, std::span<const std::byte>) {});
}

void write_export(const ExportArguments& arguments, DumpedHeaps dumped,
                  const SnapshotReader& snapshot, Writer& out) {
  if (is_profile_format(arguments.format)) {
    write_profile(snapshot, {arguments.path, arguments.format, arguments.by}, out);
  } else if (arguments.format == "heapsnapshot") {
    write_heapsnapshot(snapshot, arguments.path, out);
  } else if (is_ruby_format(arguments.format)) {
    write_ruby_objects(snapshot, arguments.path, arguments.format, out);
  } else if (arguments.format == "ptmallocdump") {
    export_ptmallocdump(snapshot, dumped, out);
  } else if (arguments.rows == "sums") {
    export_ndjson_sums(snapshot, arguments.path, out);
  } else if (arguments.rows == "flat") {
    export_ndjson_flat(snapshot, out);
  } else if (arguments.rows == "frames") {
    require_tracked(snapshot.metadata(), {arguments.path, false});
    export_ndjson_frames(snapshot.metadata(), snapshot.read_call_stacks(), out);
  } else {
    export_ndjson(snapshot, out);
  }
}

}  // namespace

int run_export(const std::vector<std::string>& words) {
  ExportArguments arguments;
  OptionParser parser("export [options] SNAPSHOT", kExportDescription);
  parser.text("format", arguments.format, "FORMAT", "see above");
  parser.text("by", arguments.by, "BASIS",
              "stacks or owners (default: stacks where they are known, else owners)");
  parser.text("rows", arguments.rows, "ROWS",
              "with ndjson: chunks (default), flat, frames or sums");
  parser.text("output,o", arguments.output, "FILE", "output file (default: standard output)");
  parser.flag("force,f", arguments.force, "replace FILE if it exists");
  parser.text("heaps", arguments.heaps, "WHICH",
              "with ptmallocdump: all, main, or others (default: all)");
  parser.positional("SNAPSHOT", arguments.path);
  parser.example("heapsnap export a.hsnap --format ndjson | jq -c 'select(.size > 1048576)'",
                 "the chunks larger than 1 MiB");
  parser.example(
      "heapsnap export a.hsnap --format ndjson --rows sums | jq -c '[.kind, .name, .bytes]'",
      "what the snapshot adds up to");
  parser.example("heapsnap export a.hsnap --format ndjson --rows flat -o a.ndjson",
                 "rows for Parquet: duckdb -c \"COPY (FROM 'a.ndjson') TO 'a.parquet'\"");
  parser.example("heapsnap export a.hsnap --format pprof -o a.pb.gz && go tool pprof -top a.pb.gz",
                 "the functions that hold the most memory of a tracked process");
  parser.example("heapsnap export a.hsnap --format folded | flamegraph.pl > a.svg",
                 "a flame graph of the memory in use");
  parser.example("heapsnap export a.hsnap --format heaptrack -o a.gz && heaptrack_print a.gz",
                 "the same for heaptrack");
  parser.example("heapsnap export a.hsnap --format heapsnapshot -o a.heapsnapshot",
                 "for \"Load profile\" in the Memory panel of Chrome's DevTools");
  parser.example("heapsnap export a.hsnap --format ruby-dump-all -o a.dump && heapy read a.dump",
                 "the objects of a Ruby process for heapy");
  if (!parser.parse(words)) return kExitDone;
  if (arguments.path.empty() || arguments.format.empty()) {
    throw Error(ErrorKind::kUsage, "export", "it needs a snapshot and a --format",
                "for example: heapsnap export a.hsnap --format ndjson");
  }
  const DumpedHeaps dumped = parse_heaps(arguments.heaps);
  check_choice("--format", arguments.format,
               {"ndjson", "ptmallocdump", "folded", "pprof", "speedscope", "dhat", "heaptrack",
                "heapsnapshot", "ruby-dump-all", "heap_dump"});
  if (!arguments.by.empty()) {
    check_choice("--by", arguments.by, {"stacks", "owners"});
    if (!is_profile_format(arguments.format)) {
      throw Error(ErrorKind::kUsage, "--by " + arguments.by,
                  "--format " + arguments.format + " is not by stacks or owners",
                  "leave --by out, or choose one that is, for example: --format folded");
    }
  }
  check_choice("--rows", arguments.rows, {"chunks", "flat", "frames", "sums"});
  if (arguments.rows != "chunks" && arguments.format != "ndjson") {
    throw Error(ErrorKind::kUsage, "--rows " + arguments.rows, "only --format ndjson has rows",
                "leave --rows out, or give --format ndjson");
  }
  if (arguments.heaps != "all" && arguments.format != "ptmallocdump") {
    throw Error(ErrorKind::kUsage, "--heaps " + arguments.heaps,
                "only --format ptmallocdump is of some heaps",
                "leave --heaps out, or give --format ptmallocdump");
  }
  refuse_to_replace_input(arguments.output, {arguments.path});
  const SnapshotReader snapshot = open_snapshot(arguments.path, "export");
  std::optional<StepLine> working(std::in_place, "writing " + arguments.format);
  check_columns(arguments, snapshot);
  ResultFile result(arguments.output, arguments.force);
  // Lines of text on a terminal are progress enough.
  if (result.is_terminal()) working.reset();
  write_export(arguments, dumped, snapshot, result.writer());
  result.commit();
  return kExitDone;
}

}  // namespace heapsnap
