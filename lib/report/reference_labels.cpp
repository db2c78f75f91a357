#include "report/reference_labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/thread_family.h"
#include "base/file_name.h"
#include "base/free_name.h"
#include "references/local_name.h"
#include "report/json_head.h"
#include "report/number_text.h"
#include "report/shell_word.h"
#include "report/stack_frames.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

std::string thread_name(const SnapshotMetadata& metadata, int32_t tid) {
  const auto& threads = metadata.threads;
  const auto thread = std::find_if(threads.begin(), threads.end(),
                                   [tid](const Thread& one) { return one.tid == tid; });
  return thread == threads.end() ? std::string() : thread->name;
}

std::string in_brackets(const std::string& name) {
  return name.empty() ? std::string() : fmt::format(" ({})", printable(name));
}

// Of so many threads of one family with `tid`. A name that the program gave them is told.
std::string thread_label(const SnapshotMetadata& metadata, int32_t tid, uint32_t threads) {
  const std::string name = thread_name(metadata, tid);
  const bool is_given = name != metadata.process.comm;
  if (threads < 2) return fmt::format("thread {}{}", tid, is_given ? in_brackets(name) : "");
  return count_text(threads, "thread", "threads") +
         (is_given ? in_brackets(thread_family_of(metadata, tid)) : "");
}

// "server+0x4010" for what has no name, "server+0x4010 to +0x4038" for several words.
std::string unnamed_label(const SnapshotMetadata& metadata, const RootPlace& place) {
  const uint64_t word = word_size(metadata.process.machine);
  const uint64_t last = place.size > word ? place.size - word : 0;
  if (place.module.empty()) {
    const std::string begin = address_text(place.begin);
    return last == 0 ? begin : begin + " to " + address_text(place.begin + last);
  }
  std::string label =
      fmt::format("{}+{:#x}", printable(file_name_of(place.module)), place.module_offset);
  if (last != 0) label += fmt::format(" to +{:#x}", place.module_offset + last);
  return label;
}

// `name`: of the variable or function.
std::string label_of(const SnapshotMetadata& metadata, const RootPlace& place,
                     const std::string& name, uint32_t threads) {
  switch (place.kind) {
    case RootKind::kVariable:
    case RootKind::kGlobal: return name;
    case RootKind::kLocal: return std::string(threads < 2 ? name : local_without_line(name));
    case RootKind::kThreadLocal:
      return fmt::format("{}, thread-local of {}", name,
                         thread_label(metadata, place.tid, threads));
    case RootKind::kStack:
      if (place.name.empty()) return thread_label(metadata, place.tid, 1) + ", on its stack";
      return fmt::format("{}, in {}", thread_label(metadata, place.tid, threads), name);
    case RootKind::kRegister:
      return fmt::format("{}, in register {}", thread_label(metadata, place.tid, 1),
                         printable(place.name));
    case RootKind::kMapping: break;
  }
  return place.name.empty() ? "anonymous memory at " + address_text(place.begin)
                            : printable(place.name);
}

std::string size_label(uint64_t bytes, uint64_t exact_below) {
  return bytes < exact_below ? count_text(bytes, "byte", "bytes") : size_text(bytes);
}

}  // namespace

std::string thread_family_of(const SnapshotMetadata& metadata, int32_t tid) {
  return thread_family(thread_name(metadata, tid));
}

std::string root_label(const SnapshotMetadata& metadata, const RootPlace& place, uint32_t threads) {
  // Variables of an interpreted program are not the interpreter's.
  const bool is_interpreted = place.kind == RootKind::kGlobal || place.kind == RootKind::kLocal;
  const std::string in_module =
      place.module.empty() || is_interpreted ? "" : " in " + printable(file_name_of(place.module));
  std::string label = label_of(
      metadata, place,
      place.name.empty() ? unnamed_label(metadata, place) : printable(place.name) + in_module,
      threads);
  if (place.kind == RootKind::kLocal && place.tid != 0) {
    label += ", " + thread_label(metadata, place.tid, threads);
  }
  return label;
}

std::string short_root_label(const SnapshotMetadata& metadata, const RootPlace& place,
                             uint32_t threads) {
  return label_of(metadata, place,
                  place.name.empty() ? unnamed_label(metadata, place) : printable(place.name),
                  threads);
}

std::string block_size_label(uint64_t bytes) {
  return size_label(bytes, 1 << 20);
}

std::string block_sizes_label(uint64_t least, uint64_t most) {
  if (least == most) return block_size_label(least);
  constexpr uint64_t kExact = 1024;
  std::string to = size_label(most, kExact);
  const std::string from = size_label(least, kExact);
  if (from == to) return to;  // as they are rounded
  return fmt::format("{} to {}", most < kExact ? count_text(least) : from, to);
}

std::string type_label(const ReferenceReportInput& input, TypeNumber type) {
  const std::vector<BlockType>& types = input.references.types;
  return type == 0 || type >= types.size() ? std::string() : printable(types[type].name);
}

std::string block_label(const ReferenceReportInput& input, TypeNumber type, uint64_t bytes) {
  const std::string name = type_label(input, type);
  return name.empty() ? block_size_label(bytes) : name + " of " + block_size_label(bytes);
}

std::string source_word(const ReferenceReportInput& input) {
  if (!input.snapshot_path.empty()) return shell_word(input.snapshot_path, "SNAPSHOT");
  if (input.metadata.freeze.method == FreezeMethod::kCore) {
    return shell_word(input.core_path, "CORE");
  }
  return pid_word(input.metadata.process);
}

std::string overview_command(const ReferenceReportInput& input) {
  const bool is_core = input.metadata.freeze.method == FreezeMethod::kCore;
  const char* const verb = !input.snapshot_path.empty() ? "report" : is_core ? "core" : "attach";
  return fmt::format("heapsnap {} {}", verb, source_word(input));
}

std::string with_references_command(const SnapshotMetadata& metadata,
                                    const std::string& core_path) {
  return metadata.freeze.method == FreezeMethod::kCore
             ? "heapsnap core --references yes " + shell_word(core_path, "CORE")
             : fmt::format("heapsnap attach --references yes {}", pid_word(metadata.process));
}

std::string left_out_text(const Runtime& runtime) {
  const std::string text = fmt::format("the heap of {} was not read: {}", name_of(runtime.kind),
                                       printable(runtime.why_not));
  const bool is_choice =
      runtime.why_not == kRuntimeWouldHold || runtime.why_not == kRuntimeNotAsked;
  return is_choice ? text + " (a snapshot with --runtimes yes has it)" : text;
}

std::vector<std::string> reference_remarks(const ReferenceReportInput& input) {
  std::vector<std::string> remarks;
  const ReferenceRecord& record = *input.metadata.references;
  for (const Runtime& runtime : input.metadata.runtimes.runtimes) {
    if (!runtime.why_not.empty()) remarks.push_back(left_out_text(runtime));
  }
  if (record.bytes_in_swap != 0) {
    remarks.push_back(size_text(record.bytes_in_swap) +
                      " were in swap and not looked at: what only they lead to counts as leaked");
  }
  if (record.bytes_unreadable != 0) {
    const bool is_core = input.metadata.freeze.method == FreezeMethod::kCore;
    remarks.push_back(size_text(record.bytes_unreadable) +
                      (is_core
                           ? " of its memory are not in the core"
                           : " could not be read, or are memory without read access in excess of "
                             "16 GiB, and were not looked at") +
                      ": what only they lead to counts as leaked");
  }
  return remarks;
}

void print_lines(Writer& out, const std::string& front, const std::string& text, size_t width) {
  constexpr size_t kLeast = 20;
  std::string lead = front;
  const size_t indent = display_width(front);
  for (const std::string& line : wrapped(text, std::max(width, indent + kLeast) - indent)) {
    out.write(lead + line + "\n");
    lead.assign(indent, ' ');
  }
}

void print_reference_head(Writer& out, const ReferenceReportInput& input, const Ink& ink,
                          size_t width) {
  const Process& process = input.metadata.process;
  out.write(ink.bold(fmt::format("Process {}: {}", process.pid, printable(process.comm))) + "\n");
  for (const std::string& remark : reference_remarks(input)) {
    print_lines(out, "  note      ", remark, width);
  }
}

void print_step(Writer& out, const std::string& why, const std::string& command, size_t width) {
  print_lines(out, "  ", why, width);
  out.write("    " + command + "\n");
}

void print_next(Writer& out, const std::string& why, const std::string& command, const Ink& ink,
                size_t width) {
  out.write("\n" + ink.bold("What next") + "\n");
  print_step(out, why, command, width);
}

void print_next_growth(Writer& out, const SnapshotMetadata& metadata,
                       const std::string& snapshot_path, const std::string& core_path,
                       const Ink& ink, size_t width) {
  out.write("\n" + ink.bold("What next") + "\n");
  print_growth_step(out, metadata, snapshot_path, core_path, width);
}

void print_growth_step(Writer& out, const SnapshotMetadata& metadata,
                       const std::string& snapshot_path, const std::string& core_path,
                       size_t width) {
  const bool is_core = metadata.freeze.method == FreezeMethod::kCore;
  const std::string take = with_references_command(metadata, core_path) + " -o ";
  // A second look at the same core tells nothing new.
  const std::string again = with_references_command(metadata) + " -o ";
  const std::string compare = "To see which of these grow, compare with a later core (here CORE):";
  if (snapshot_path.empty()) {
    const std::string first = free_file_name("first.hsnap");
    const std::string second = free_file_name("second.hsnap");
    print_step(out,
               is_core
                   ? compare
                   : "To see which of these grow, take two snapshots some time apart, and compare:",
               take + first, width);
    out.write(fmt::format("    {}{}\n    heapsnap diff {} {}\n", again, second, first, second));
    return;
  }
  const std::string later = free_file_name("later.hsnap");
  print_step(
      out,
      is_core ? compare : "To see which of these grow, take another snapshot later, and compare:",
      again + later, width);
  out.write(fmt::format("    heapsnap diff {} {}\n", shell_word(snapshot_path, "SNAPSHOT"), later));
}

bool was_recorded(const SnapshotMetadata& metadata) {
  return metadata.tracker && metadata.tracker->recording;
}

bool can_still_be_tracked(const ReferenceReportInput& input) {
  return input.metadata.freeze.method != FreezeMethod::kCore && !was_recorded(input.metadata) &&
         input.may_run;
}

std::string not_running_text(const Process& process) {
  return fmt::format("Process {} does not run here", process.pid);
}

void print_tracking_of_leaks(Writer& out, const SnapshotMetadata& metadata, const Ink& ink,
                             size_t width) {
  print_next(out,
             "To learn who allocates such blocks, load the tracker, let the program work, and "
             "look again:",
             fmt::format("heapsnap inject {}", pid_word(metadata.process)), ink, width);
  out.write(fmt::format("    heapsnap leaks {}\n", pid_word(metadata.process)));
  print_step(out, "If it leaks no more, start it with the tracker:", "heapsnap run -- COMMAND",
             width);
}

StackReportInput input_of_stacks(const ReferenceReportInput& input, std::vector<uint32_t> stacks) {
  static const StackCensus not_counted;
  return {input.metadata,
          input.recorded,
          not_counted,
          StackOrder::kLiveBytes,
          std::move(stacks),
          {},
          {}};
}

bool has_stack(const ReferenceReportInput& input, uint32_t stack) {
  return input.metadata.tracker && stack != 0 && stack < input.recorded.stacks.sites.size();
}

void write_json_root(JsonWriter& json, const RootPlace& place) {
  json.member("root", place.name);
  json.member("kind", to_string(place.kind));
  if (!place.module.empty()) {
    json.member("module", place.module);
    // Variables of a language runtime are not at an address of the file.
    const bool is_in_file = place.kind != RootKind::kGlobal && place.kind != RootKind::kLocal;
    if (is_in_file) json.member("module_offset", place.module_offset);
  }
  if (place.name.empty() && place.size != 0) json.member("size", place.size);
  if (place.tid != 0) json.member("tid", place.tid);
  if (!place.begin.is_null()) json.member("addr", place.begin);
}

void write_json_stack(JsonWriter& json, const ReferenceReportInput& input, uint32_t stack) {
  if (!has_stack(input, stack)) return;
  StackEnd end{};
  const auto frames = named_frames(input.recorded, *input.metadata.tracker,
                                   input.recorded.stacks.sites[stack].node, end);
  json.member("stack", stack);
  write_json_frames(json, frames, end);
}

void write_json_type(JsonWriter& json, const ReferenceReportInput& input, TypeNumber type) {
  const std::vector<BlockType>& types = input.references.types;
  if (type != 0 && type < types.size()) json.member("type", types[type].name);
}

void write_json_reference_head(JsonWriter& json, const char* kind,
                               const ReferenceReportInput& input) {
  const ReferenceRecord& record = *input.metadata.references;
  write_json_head(json, kind, input.metadata, input.snapshot_path);
  json.key("references");
  json.begin_object();
  json.member("blocks", record.blocks);
  json.member("references", record.references);
  json.member("roots", record.roots);
  json.member("scanned_bytes", record.scanned_bytes);
  json.member("bytes_in_swap", record.bytes_in_swap);
  json.member("bytes_unreadable", record.bytes_unreadable);
  json.end_object();
}

}  // namespace heapsnap
