#include <unistd.h>

#include <utility>

#include "analysis/held_block.h"
#include "base/error.h"
#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/reference_report.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/explained_snapshot.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/report_output.h"
#include "tools/heapsnap/step_line.h"
#include "tools/heapsnap/typed_address.h"

namespace heapsnap {

namespace {

constexpr const char* kWhyDescription =
    "Says why one block is still there: the shortest ways from variables, stacks and other roots\n"
    "to it, each step with the type or size of the block and the place in it that holds the next;\n"
    "what would go with the block; and the call stack that allocated it, if that was tracked.\n"
    "Reads a snapshot with references, a core, or a running process, of which heapsnap takes a\n"
    "temporary snapshot (a pause of milliseconds).";

}  // namespace

int run_why(const std::vector<std::string>& words) {
  SnapshotSource explain;
  std::string address_word;
  uint64_t limit = 5;
  ReportStyle style;
  OptionParser parser("why [options] ADDR SNAPSHOT|CORE|PID|NAME|container:ID|pod:UID",
                      kWhyDescription);
  parser.number("limit", limit, "N",
                "show the ways from N roots (default: 5), of a million steps in all at most");
  add_source_options(parser, explain);
  add_report_options(parser, style, "print one JSON object");
  parser.positional("ADDR", address_word);
  parser.positional("SNAPSHOT", explain.what);
  parser.example("heapsnap why 0x55d0c8a00050 a.hsnap", "what leads to the block at that address");
  if (!parser.parse(words)) return kExitDone;
  if (!parse_address(address_word) && parse_address(explain.what)) {
    std::swap(address_word, explain.what);
  }
  const auto address = parse_address(address_word);
  if (!address) {
    const bool is_missing = address_word.empty() || explain.what.empty();
    throw Error(ErrorKind::kUsage,
                address_word.empty() ? std::string("why") : "why " + address_word,
                is_missing ? "it needs the address of a block" : "not a hexadecimal address",
                "for example: heapsnap why 0x55d0c8a00050 a.hsnap");
  }
  if (limit == 0) {
    throw Error(ErrorKind::kUsage, "--limit 0", "it must be 1 at least");
  }
  const TextStyle text = text_style(style);
  StepLine working("looking for ways to the block");
  const ExplainedSnapshot snapshot("why ADDR", explain);
  const auto held = explain_block(snapshot.streams(), snapshot.references(), *address, limit);
  const ReferenceReportInput input = snapshot.report_input();
  if (!held) {
    throw Error(ErrorKind::kUsage, "no block at " + address_text(*address),
                "no block that is in use holds that address",
                input.snapshot_path.empty()
                    ? "take a snapshot, and look up addresses in that: " + overview_command(input)
                    : "to see what is there: " + overview_command(input) + " --at " +
                          address_text(*address));
  }
  working.end();
  Writer out(STDOUT_FILENO, "standard output");
  style.json ? print_json_held_block(out, input, *held) : print_held_block(out, input, *held, text);
  out.flush();
  return kExitDone;
}

}  // namespace heapsnap
