#include <unistd.h>

#include "analysis/type_census.h"
#include "base/error.h"
#include "report/reference_report.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/explained_snapshot.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/report_output.h"
#include "tools/heapsnap/step_line.h"

namespace heapsnap {

namespace {

constexpr const char* kTypesDescription =
    "Lists what the memory holds, by type: how many blocks, how many bytes, and how many with "
    "what\n"
    "only these blocks lead to. Types are classes with virtual functions (by their vtables, also "
    "in\n"
    "stripped programs), and structures that are recognized by what lies in them. Blocks of "
    "unknown\n"
    "type are listed by their size and by what holds them. Reads a snapshot with references, a "
    "core,\n"
    "or a running process, of which heapsnap takes a temporary snapshot (a pause of milliseconds).";

TypeListing::Order parse_column(const std::string& text) {
  check_choice("--sort", text, {"bytes", "count", "retained"});
  if (text == "count") return TypeListing::Order::kCount;
  return text == "retained" ? TypeListing::Order::kRetained : TypeListing::Order::kBytes;
}

}  // namespace

int run_types(const std::vector<std::string>& words) {
  SnapshotSource explain;
  std::string sort = "bytes";
  uint64_t limit = 20;
  ReportStyle style;
  OptionParser parser("types [options] SNAPSHOT|CORE|PID|NAME|container:ID|pod:UID",
                      kTypesDescription);
  parser.text("sort", sort, "COLUMN", "bytes (default), count or retained: the largest first");
  parser.number("limit", limit, "N", "list N types (default: 20; 0: all)");
  add_source_options(parser, explain);
  add_report_options(parser, style, "print one JSON object, with all types");
  parser.positional("SNAPSHOT", explain.what);
  parser.example("heapsnap types 4242", "what most of PID 4242's memory is");
  parser.example("heapsnap types a.hsnap --sort retained --limit 0",
                 "all types, by what they keep alive");
  if (!parser.parse(words)) return kExitDone;
  const TypeListing listing{parse_column(sort), limit};
  const TextStyle text = text_style(style);
  StepLine working("adding up types");
  const ExplainedSnapshot snapshot("types", explain);
  const TypeCensus census = take_type_census(snapshot.streams(), snapshot.references());
  working.end();
  Writer out(STDOUT_FILENO, "standard output");
  style.json ? print_json_types(out, snapshot.report_input(), census, listing)
             : print_types(out, snapshot.report_input(), census, listing, text);
  out.flush();
  return kExitDone;
}

}  // namespace heapsnap
