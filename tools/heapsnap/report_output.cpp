#include "tools/heapsnap/report_output.h"

#include <unistd.h>

#include "report/json_report.h"
#include "tools/heapsnap/report_facts.h"
#include "tools/heapsnap/step_line.h"
#include "tools/heapsnap/terminal.h"

namespace heapsnap {

void add_report_options(OptionParser& parser, ReportStyle& style, const char* json_help) {
  parser.flag("json,j", style.json, json_help);
  parser.text("color", style.color, "WHEN", "auto (a terminal, without NO_COLOR), always or never");
  parser.number("width", style.width, "COLUMNS",
                "maximum line width (default: COLUMNS, else the terminal's width, else 80)");
}

TextStyle text_style(const ReportStyle& style) {
  return {use_color(parse_color_choice(style.color), STDOUT_FILENO),
          output_width(STDOUT_FILENO, style.width)};
}

void print_snapshot_report(const SnapshotReader& snapshot, const std::string& path,
                           ReportDepth depth, const ReportStyle& style,
                           const PassedFrames& passed) {
  StepLine working("reading the snapshot");
  const ReportFacts facts(snapshot, path, depth, passed);
  working.end();
  Writer out(STDOUT_FILENO, "standard output");
  if (style.json) {
    print_json_report(out, facts.input());
  } else {
    const TextStyle text = text_style(style);
    if (depth == ReportDepth::kWhole) {
      print_report(out, facts.input(), text);
    } else {
      print_first_screen(out, facts.input(), text);
    }
  }
  out.flush();
}

}  // namespace heapsnap
