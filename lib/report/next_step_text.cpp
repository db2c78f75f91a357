#include "report/next_step_text.h"

#include <fmt/format.h>

#include "report/number_text.h"
#include "report/shell_word.h"
#include "report/stack_report.h"
#include "report/terminal_text.h"
#include "report/tracked_start.h"

namespace heapsnap {

namespace {

// What there is: the sentence before the one on the commands.
std::string subject_text(const ReportInput& input) {
  const NextStep& next = input.next;
  const std::string size = size_text(next.bytes);
  switch (next.subject) {
    case NextSubject::kDamage:
      return fmt::format("The heap is inconsistent in {}.",
                         count_text(next.bytes, "place", "places"));
    case NextSubject::kAllocator:
      return next.name.empty() ? "No glibc malloc was found, so no chunks are known."
                               : "heapsnap walks glibc's malloc, not " + printable(next.name) + ".";
    case NextSubject::kLittle:
      return fmt::format("Heaps and other anonymous memory take only {}.", size);
    case NextSubject::kOtherMemory:
      return fmt::format("{} of anonymous memory is not malloc's.", size);
    case NextSubject::kRuntime:
      return next.free_bytes > next.bytes / 2
                 ? fmt::format("{}'s heap takes {}, {} of it free.", next.name, size,
                               size_text(next.free_bytes))
                 : fmt::format("{}'s heap takes {}.", next.name, size);
    case NextSubject::kFree: return fmt::format("{} is free in malloc's heaps.", size);
    case NextSubject::kInUse:
      return fmt::format("The program's blocks in use take {}{}.", size,
                         input.account.basis == RssBasis::kResident ? " of resident memory" : "");
  }
  return {};
}

const char* language_name(NextRuntime runtime) {
  return runtime == NextRuntime::kRuby ? "Ruby" : "Python";
}

NextStepText to_call_stacks(const NextStep& next, const std::string& pid) {
  const char* const what = next.subject == NextSubject::kFree
                               ? "allocates the blocks that remain between the free ones"
                               : "allocates the blocks that remain";
  const std::string options = next.can_record_functions ? std::string(kWithFunctions) + " " : "";
  return {
      fmt::format("To see which code {}, record call stacks{}, let the program run for a "
                  "while, and list them:",
                  what,
                  next.can_record_functions
                      ? fmt::format(" of samples, with {}'s functions", language_name(next.runtime))
                      : ""),
      {fmt::format("heapsnap inject {}{}", options, pid), fmt::format("heapsnap stacks {}", pid)},
      {{std::string("Blocks that exist now get no call stack; inject records new ones only. ") +
            (next.runtime == NextRuntime::kPostgres
                 ? "Run the query again in this session before you list them."
                 : fmt::format("If the program has stopped growing, start it under heapsnap: "
                               "heapsnap run {}-- COMMAND",
                               options)),
        {}}}};
}

// For a tracked process.
NextStepPart to_functions(const NextStep& next, const std::string& pid) {
  return {fmt::format("These stacks name functions of the interpreter. To record {}'s, of samples, "
                      "from now on:",
                      language_name(next.runtime)),
          {fmt::format("heapsnap inject {} {}", kWithFunctions, pid)}};
}

// What the runtime's own tools say of its memory.
std::string runtime_text(const NextStep& next, const std::string& pid) {
  if (next.has_objects || next.can_record_functions) return {};
  switch (next.runtime) {
    case NextRuntime::kNone: break;
    case NextRuntime::kPython:
      return "Call stacks name the interpreter's C functions; for lines of Python: python3 -X "
             "tracemalloc, or memray";
    case NextRuntime::kRuby:
      return "Call stacks name the interpreter's C functions; for Ruby's objects: require "
             "'objspace'; ObjectSpace.dump_all";
    case NextRuntime::kPostgres:
      return fmt::format(
          "To have PostgreSQL (14 or newer) write a backend's memory contexts to its "
          "log: SELECT pg_log_backend_memory_contexts({})",
          pid);
  }
  return {};
}

NextStepText own_account(const NextStep& next, const std::string& program) {
  switch (next.action) {
    case NextAction::kStatistics:
      return {fmt::format("{} prints its statistics when the program exits, if it is started with:",
                          printable(next.name)),
              {fmt::format("{} {} ARGUMENTS", statistics_variable(next.name), program)}};
    case NextAction::kPythonObjects:
      return {
          "To see Python's objects as blocks with call stacks, start it with malloc instead of "
          "pymalloc; heapsnap stacks then lists what allocated them:",
          {fmt::format("PYTHONMALLOC=malloc heapsnap run -- {} ARGUMENTS", program)}};
    case NextAction::kRubyObjects:
      return {"To see how much memory Ruby's objects take, by type, when the script ends:",
              {fmt::format("{} -robjspace -e 'at_exit {{ p ObjectSpace.count_objects_size }}; load "
                           "ARGV.shift' SCRIPT",
                           program)}};
    default: break;
  }
  return {
      "To see JavaScript's objects, start it with a signal that makes it write a *.heapsnapshot "
      "file (for Chrome's DevTools), and send that signal:",
      {fmt::format("{} --heapsnapshot-signal=SIGUSR2 ARGUMENTS", program), "kill -USR2 PID"}};
}

NextStepText action_text(const ReportInput& input) {
  const NextStep& next = input.next;
  const std::string pid = pid_word(input.metadata.process);
  const std::string file = shell_word(input.snapshot_path, "FILE");
  const std::string program = shell_word(input.metadata.process.exe, "PROGRAM");
  switch (next.action) {
    case NextAction::kReport:
      return {next.subject == NextSubject::kDamage
                  ? "To see where, and what is wrong there (under \"Damage\"):"
                  : "To see arenas, block sizes and the largest blocks:",
              {"heapsnap report " + file}};
    case NextAction::kJson:
      return {"To compare all figures with those of another snapshot:",
              {"heapsnap report -j " + file}};
    case NextAction::kExport:
      return {next.subject == NextSubject::kDamage
                  ? "To see the chunks around each place (where memory was overwritten, the owner "
                    "of one before it probably did it):"
                  : "To see each chunk with its address, size and state:",
              {fmt::format("heapsnap export {} --format ndjson -o chunks.ndjson", file)}};
    case NextAction::kTrim:
      return {"To give its whole free pages back to the kernel:",
              {fmt::format("heapsnap trim {}", pid)}};
    case NextAction::kTrack: return to_call_stacks(next, pid);
    case NextAction::kTrackNextRun:
      if (next.runtime == NextRuntime::kPostgres) {
        return {"To record call stacks, " + tracked_start_reason(input.metadata.process) + ":",
                {tracked_start_command(input.metadata.process)}};
      }
      return {"To record call stacks in the next run, from its first allocation on:",
              {fmt::format("heapsnap run -- {} ARGUMENTS", program)}};
    case NextAction::kOwners:
      return {"To see what holds the blocks that remain between the free ones:",
              {"heapsnap owners " + file}};
    case NextAction::kStacks:
      return {"To see all call stacks, with frames, sizes and rates:", {"heapsnap stacks " + file}};
    case NextAction::kStacksLater:
      return {"No block that was recorded is still in use. Once the program has run for a while:",
              {fmt::format("heapsnap stacks {}", pid)}};
    case NextAction::kChurn:
      return {"Much more was allocated and freed than is in use. To see by which code:",
              {fmt::format("heapsnap stacks {} --sort churn", file)}};
    case NextAction::kTrackAndWatch:
      return {"To see how much it allocates and frees per second, and whether it grows:",
              {fmt::format("heapsnap inject {}", pid),
               fmt::format("heapsnap watch {} --count 5", pid)}};
    case NextAction::kWatch:
      return {"To see how much it allocates and frees per second, and whether it grows:",
              {fmt::format("heapsnap watch {} --count 5", pid)}};
    case NextAction::kJavaObjects:
      return {"To see how much memory Java's objects take, by class:",
              {fmt::format("jcmd {} GC.class_histogram", pid)}};
    case NextAction::kObjects:
      return {fmt::format("To see {}'s objects by class:", next.name),
              {"heapsnap objects " + file}};
    case NextAction::kAttach:
      return {
          "The process kept running while it was read, and a sound heap looks like that, too. "
          "To read it at one instant:",
          {fmt::format("heapsnap attach {}", pid)}};
    case NextAction::kWhoMaps:
      return {"To see which code maps more memory, for 10 s (this slows the process down):",
              {fmt::format("timeout -s INT 10 strace -f -k -e trace=mmap,mremap,brk -p {}", pid)}};
    case NextAction::kStatistics:
    case NextAction::kPythonObjects:
    case NextAction::kRubyObjects:
    case NextAction::kV8Objects: break;
  }
  return own_account(next, program);
}

}  // namespace

NextStepPart churn_step(uint64_t churned, const std::string& what) {
  return {
      size_text(churned) +
          " was allocated and freed again, much more than is in use. To see by which functions:",
      {"heapsnap stacks " + what + " --by function --sort churn"}};
}

NextStepText next_step_text(const ReportInput& input) {
  const NextStep& next = input.next;
  const std::string pid = pid_word(input.metadata.process);
  NextStepText text = action_text(input);
  // The runtime's own tools come first: they name what its memory is for.
  if (const std::string own = runtime_text(next, pid); !own.empty()) {
    text.why = own + ". " + text.why;
  }
  text.why = subject_text(input) + " " + text.why;
  if (next.action == NextAction::kStacks && input.stacks != nullptr) {
    if (std::string old = old_share_text(input.metadata, input.stacks->census); !old.empty()) {
      text.more.push_back({std::move(old), {}});
    }
  }
  if (next.action == NextAction::kStacks && next.can_record_functions) {
    text.more.push_back(to_functions(next, pid));
  }
  if (next.churned_bytes != 0) {
    text.more.push_back(churn_step(next.churned_bytes, shell_word(input.snapshot_path, "FILE")));
  }
  if (next.has_objects) {
    NextStepPart objects{next.runtime == NextRuntime::kPostgres
                             ? "To see the server's memory contexts, by name:"
                             : "To see the objects of the language runtime, by class:",
                         {"heapsnap objects " + shell_word(input.snapshot_path, "FILE")}};
    // What the runtime knows by name comes before call stacks of its C functions.
    if (next.runtime == NextRuntime::kPostgres && next.action != NextAction::kTrim) {
      text.more.insert(text.more.begin(), NextStepPart{action_text(input).why, text.commands});
      text.why = subject_text(input) + " " + objects.text;
      text.commands = std::move(objects.commands);
    } else {
      text.more.push_back(std::move(objects));
    }
  }
  if (next.trim_bytes != 0) {
    text.more.push_back({fmt::format("To give {} in whole free pages back to the kernel:",
                                     size_text(next.trim_bytes)),
                         {fmt::format("heapsnap trim {}", pid)}});
  }
  return text;
}

}  // namespace heapsnap
