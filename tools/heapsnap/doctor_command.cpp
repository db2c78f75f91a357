// heapsnap doctor: what would prevent attaching, and what to do about it.
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "heap/discovery/allocator_survey.h"
#include "platform/linux/freeze/running_process.h"
#include "report/json_writer.h"
#include "report/terminal_text.h"
#include "report/text_report.h"
#include "report/writer.h"
#include "tools/doctor/attach_obstacles.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/report_output.h"
#include "tools/heapsnap/target_argument.h"
#include "tools/heapsnap/terminal.h"

namespace heapsnap {

namespace {

using Severity = Obstacle::Severity;

constexpr const char* kDoctorDescription =
    "Checks whether `heapsnap attach` would work on a process and what would slow it down or make\n"
    "its pause longer, and gives the command that helps with each finding. Without a process, it\n"
    "checks only this machine.\n"
    "\n"
    "What it does to the process: nothing. It reads /proc and /sys and asks the kernel for\n"
    "permission in a way that has no effect; the process is not stopped.\n"
    "\n"
    "  ok        checked, no problem\n"
    "  note      good to know\n"
    "  degraded  attaching works, but not as well as it could\n"
    "  blocked   attaching fails, or finds no heap to walk\n"
    "\n"
    "Exit code: 0 if attaching would work, otherwise the exit code that attach would have: 3 no\n"
    "such process, 4 not permitted, 5 process not supported.";

constexpr size_t kLabelWidth = 10;  // "degraded" and two blanks
constexpr std::string_view kIndent = "  ";

std::string label(const Ink& ink, Severity severity) {
  const std::string text = to_string(severity);
  const std::string blanks(kLabelWidth - text.size(), ' ');
  switch (severity) {
    case Severity::kOk: return ink.green(text) + blanks;
    case Severity::kNote: return text + blanks;
    case Severity::kDegrades: return ink.yellow(text) + blanks;
    case Severity::kBlocks: return ink.red(text) + blanks;
  }
  return text + blanks;
}

void print_check(Writer& out, const Obstacle& check, const Ink& ink, size_t width) {
  const std::string margin(kIndent.size() + kLabelWidth, ' ');
  const std::string sentence = printable(check.what) + ": " + printable(check.why);
  std::string before = std::string(kIndent) + label(ink, check.severity);
  for (const std::string& line : wrapped(sentence, width - margin.size())) {
    out.write(before + line + "\n");
    before = margin;
  }
  // A command stays in one piece, however long: it is there to be copied.
  if (!check.remedy.empty()) {
    out.write(margin + "do: " + ink.bold(printable(check.remedy)) + "\n");
  }
}

size_t count(const std::vector<Obstacle>& checks, Severity severity) {
  return static_cast<size_t>(std::count_if(checks.begin(), checks.end(), [&](const Obstacle& each) {
    return each.severity == severity;
  }));
}

// As attach will see it. Unknown where its files cannot be read, of which other checks tell.
AllocatorVerdict allocator_of(int pid) {
  try {
    return survey_allocators(*open_running_process(pid));
  } catch (const Error&) {
    return {};
  }
}

// What an attach would exit with: 0, or the code of the first finding that blocks.
int attach_exit_code(const std::vector<Obstacle>& checks) {
  for (const Obstacle& check : checks) {
    if (check.severity == Severity::kBlocks) return static_cast<int>(check.kind);
  }
  return kExitDone;
}

std::string verdict(int pid, const std::vector<Obstacle>& checks) {
  const int code = attach_exit_code(checks);
  if (code != 0) {
    return "Attaching would end with exit code " + std::to_string(code) + ".";
  }
  const std::string command = "heapsnap attach " + (pid == 0 ? "PID" : std::to_string(pid));
  const size_t degraded = count(checks, Severity::kDegrades);
  if (degraded == 0) return "Nothing prevents attaching: " + command;
  return "Attaching works, with the limits above: " + command;
}

void print_checklist(Writer& out, int pid, const std::vector<Obstacle>& checks,
                     const TextStyle& style) {
  const Ink ink(style.color);
  out.write(ink.bold(pid == 0 ? "Attaching to processes of this machine"
                              : "Attaching to process " + std::to_string(pid)) +
            "\n\n");
  for (const Obstacle& check : checks) print_check(out, check, ink, style.width);
  out.write("\n" + verdict(pid, checks) + "\n");
}

// One object; keys are only ever added. severity is ok, note, degraded or blocked; pid is 0 for the
// machine alone.
void print_checklist_json(Writer& out, int pid, const std::vector<Obstacle>& checks) {
  const int code = attach_exit_code(checks);
  JsonWriter json(out);
  json.begin_object();
  json.member("kind", "doctor");
  json.member("version", 1);
  json.member("pid", pid);
  json.member("attachable", code == kExitDone);
  json.member("exit_code", code);
  json.key("checks");
  json.begin_array();
  for (const Obstacle& check : checks) {
    json.begin_object();
    json.member("id", check.id);
    json.member("severity", to_string(check.severity));
    json.member("what", check.what);
    json.member("why", check.why);
    json.member("remedy", check.remedy);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  out.write("\n");
}

}  // namespace

int run_doctor(const std::vector<std::string>& arguments) {
  ReportStyle style;
  std::string target;
  OptionParser parser("doctor [options] [PID|NAME|container:ID|pod:UID]", kDoctorDescription);
  add_report_options(parser, style);
  parser.positional("PID", target);
  parser.example("heapsnap doctor 4242", "what would prevent attaching to PID 4242");
  parser.example("heapsnap doctor postgres", "the same by name, if only one process has it");
  parser.example("heapsnap doctor container:3f2a8c91d0b4", "the main process of a container");
  parser.example("heapsnap doctor", "this machine and this user in general");
  parser.example("heapsnap doctor 4242 -j | jq -r '.checks[] | select(.remedy != \"\") | .remedy'",
                 "only the commands that help");
  if (!parser.parse(arguments)) return kExitDone;

  const TextStyle text = text_style(style);
  const int pid = target.empty() ? 0 : resolve_target(target);
  AttachFacts facts = gather_attach_facts(pid);
  if (facts.target) facts.target->allocator = allocator_of(pid);
  const std::vector<Obstacle> checks = judge_attach(facts);
  Writer out(STDOUT_FILENO, "standard output");
  if (style.json) {
    print_checklist_json(out, pid, checks);
  } else {
    print_checklist(out, pid, checks, text);
  }
  out.flush();
  return attach_exit_code(checks);
}

}  // namespace heapsnap
