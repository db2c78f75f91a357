// The sections of the first screen that say what the snapshot is and what to do: head, advice,
// warnings, the next step.
#include <fmt/format.h>

#include "base/file_name.h"
#include "report/advice_text.h"
#include "report/next_step_text.h"
#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/stack_frames.h"
#include "report/text_page.h"

namespace heapsnap {

namespace {

constexpr size_t kAdviceOnFirstScreen = 4;

std::string snapshot_text(const ReportInput& input) {
  const std::string size = size_text(input.snapshot_bytes);
  return input.snapshot_path.empty() ? size : printable(input.snapshot_path) + " (" + size + ")";
}

// How long the process was paused, and what for.
std::string pause_text(const FreezeRecord& freeze) {
  const std::string pause = fmt::format("{} ({})", duration_text(freeze.pause_ns),
                                        count_text(freeze.threads, "thread", "threads"));
  switch (freeze.method) {
    case FreezeMethod::kNone: return "not at all: the process kept running while it was read";
    case FreezeMethod::kCore: return "not at all: " + printable(freeze.why);
    case FreezeMethod::kStop: return pause + " while it was read";
    case FreezeMethod::kFork: break;
  }
  return pause + " to fork it" +
         (freeze.reap_pause_ns == 0
              ? ""
              : ", then " + duration_text(freeze.reap_pause_ns) + " to reap the fork");
}

std::string malloc_text(const MallocInstance& instance) {
  return fmt::format("glibc {} in {}, found by {}, layout from {}", version_text(instance.version),
                     printable(instance.module), to_string(instance.strategy),
                     printable(instance.layout_source));
}

// "3.11.2 in libpython3.11.so.1.0, 300,123 objects"
std::string runtime_text(const Runtime& runtime) {
  std::string text = runtime.version.empty() ? "of unknown version" : printable(runtime.version);
  text += " in " + printable(file_name_of(runtime.module));
  if (!runtime.why_not.empty()) return text;
  if (runtime.contexts != 0) {
    return text + ", " + count_text(runtime.contexts, "memory context", "memory contexts");
  }
  return text + ", " + count_text(runtime.objects, "object", "objects");
}

}  // namespace

void print_head(TextPage& page) {
  const SnapshotMetadata& metadata = page.input.metadata;
  const Process& process = metadata.process;
  page.out.write(
      page.ink.bold(fmt::format("Process {}: {}", process.pid, printable(process.comm))) + "\n");
  page.field("program", printable(process.exe));
  page.field("snapshot", snapshot_text(page.input));
  page.field("taken", time_text(process.taken_at_ns, 3) +
                          (process.hostname.empty() ? "" : " on " + printable(process.hostname)));
  page.field("paused", pause_text(metadata.freeze));
  for (const MallocInstance& instance : metadata.heap.instances) {
    page.field("malloc", malloc_text(instance));
  }
  for (const Runtime& runtime : metadata.runtimes.runtimes) {
    page.field(to_string(runtime.kind), runtime_text(runtime));
  }
  if (!metadata.heap.foreign_allocator.empty()) {
    const std::string name = printable(metadata.heap.foreign_allocator);
    page.field("allocator",
               (metadata.heap.foreign_answers_malloc ? "malloc is provided by " + name
                                                     : "the process also uses " + name) +
                   "; its memory counts as other anonymous memory");
  }
}

void print_advice(TextPage& page) {
  if (page.input.advice.empty()) return;
  page.heading("What can be done");
  size_t number = 0;
  for (const Advice& advice : page.input.advice) {
    if (number == kAdviceOnFirstScreen) break;
    const AdviceText text = advice_text(advice, page.input.metadata, page.input.snapshot_path);
    std::string front = fmt::format("  {}. ", ++number);
    for (const std::string& line : wrapped(text.finding + ".", page.width - front.size())) {
      page.out.write(front + line + "\n");
      front.assign(front.size(), ' ');
    }
    for (const std::string& line : wrapped("→ " + text.action + ".", page.width - front.size())) {
      page.out.write(front + page.ink.green(line) + "\n");
    }
  }
  const std::string together = together_text(page.input.saved_together);
  if (!together.empty()) page.sentence(together + ".");
}

void print_warnings(TextPage& page) {
  const SnapshotMetadata& metadata = page.input.metadata;
  std::vector<std::string> warnings;
  if (metadata.heap.instances.empty()) {
    warnings.push_back("no glibc malloc was found: nothing is known about the heap");
  }
  for (const Runtime& runtime : metadata.runtimes.runtimes) {
    if (!runtime.why_not.empty()) warnings.push_back(left_out_text(runtime));
  }
  for (const std::string& note : metadata.freeze.notes) warnings.push_back(printable(note));
  for (const std::string& note : metadata.notes) warnings.push_back(printable(note));
  if (warnings.empty()) return;
  page.heading("Notes");
  for (const std::string& warning : warnings) {
    std::string front = "  - ";
    for (const std::string& line : wrapped(warning, page.width - front.size())) {
      page.out.write(front + page.ink.yellow(line) + "\n");
      front.assign(front.size(), ' ');
    }
  }
}

void print_next_step(TextPage& page) {
  const NextStepText text = next_step_text(page.input);
  page.heading("What next");
  page.sentence(text.why);
  // Never broken: they are there to be copied.
  const auto print_commands = [&](const std::vector<std::string>& commands) {
    for (const std::string& command : commands) {
      page.out.write("    " + page.ink.green(command) + "\n");
    }
  };
  print_commands(text.commands);
  for (const NextStepPart& part : text.more) {
    page.sentence(part.text);
    print_commands(part.commands);
  }
}

}  // namespace heapsnap
