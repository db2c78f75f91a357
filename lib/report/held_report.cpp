#include <fmt/format.h>

#include <algorithm>

#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/reference_report.h"
#include "report/stack_lines.h"
#include "report/terminal_text.h"
#include "report/tracked_start.h"

namespace heapsnap {

namespace {

// " (not to its start; may be stale)"
std::string remark_text(const HeldStep& step) {
  if (step.interior && step.may_be_stale) return " (not to its start; may be stale)";
  if (step.interior) return " (not to its start)";
  return step.may_be_stale ? " (may be stale)" : "";
}

bool may_be_stale(const HeldPath& path) {
  return std::any_of(path.steps.begin(), path.steps.end(),
                     [](const HeldStep& step) { return step.may_be_stale; });
}

// Whether one of its words is doubtful since it points into a block of a memory context.
bool is_into_context(const ReferenceReportInput& input, const HeldPath& path) {
  const std::vector<BlockType>& types = input.references.types;
  return std::any_of(path.steps.begin(), path.steps.end(), [&](const HeldStep& step) {
    return step.may_be_stale && step.interior && step.block.type < types.size() &&
           is_context_block(types[step.block.type]);
  });
}

bool is_nameless_variable(const RootPlace& place) {
  return place.name.empty() &&
         (place.kind == RootKind::kVariable || place.kind == RootKind::kThreadLocal);
}

// The place that a path begins in: of a variable without a name, the word.
RootPlace start_of(const ReferenceReportInput& input, const HeldPath& path) {
  RootPlace place = input.references.places[path.place];
  if (!is_nameless_variable(place) || path.steps.empty()) return place;
  const uint64_t offset = path.steps.front().held_at;
  place.begin = place.begin + offset;
  place.module_offset += offset;
  place.size = word_size(input.metadata.process.machine);
  return place;
}

bool are_alike(const BlockFacts& a, const BlockFacts& b) {
  return a.type == b.type && a.bytes == b.bytes;
}

// Behind the last of the blocks from `first` on that are alike and held alike, as the nodes of a
// list are.
size_t end_of_alike(const std::vector<HeldStep>& steps, size_t first) {
  size_t end = first + 1;
  while (end < steps.size() && are_alike(steps[end].block, steps[first].block) &&
         steps[end].held_at == steps[first + 1].held_at &&
         steps[end].interior == steps[first + 1].interior &&
         steps[end].may_be_stale == steps[first + 1].may_be_stale) {
    ++end;
  }
  return end;
}

// A line for each step; of many that are alike the first and the last.
std::vector<std::string> lines_of(const ReferenceReportInput& input, const HeldPath& path,
                                  bool starts_with_word) {
  constexpr size_t kAlikeShown = 3;
  const std::vector<HeldStep>& steps = path.steps;
  std::vector<std::string> lines;
  const auto add = [&](size_t i) {
    const BlockFacts& block = steps[i].block;
    const std::string where =
        i == 0 && starts_with_word ? "" : fmt::format("+{:#x}  ", steps[i].held_at);
    lines.push_back(fmt::format("{}→ {}  {}{}", where, address_text(block.address),
                                block_label(input, block.type, block.bytes),
                                remark_text(steps[i])));
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    add(i);
    const size_t end = end_of_alike(steps, i);
    if (end - i <= kAlikeShown) continue;
    lines.push_back(fmt::format("… {} like it, each at +{:#x} of the one before{}",
                                count_text(end - i - 2, "more", "more"), steps[i + 1].held_at,
                                remark_text(steps[i + 1])));
    i = end - 1;
    add(i);
  }
  return lines;
}

void print_path(Writer& out, const ReferenceReportInput& input, const HeldPath& path,
                const Ink& ink, size_t width) {
  constexpr size_t kLinesShown = 24;
  const RootPlace place = start_of(input, path);
  out.write("\n");
  print_lines(out, "  ",
              ink.bold(root_label(input.metadata, place)) + (path.is_owner ? ": its owner" : ""),
              width);
  const std::vector<std::string> lines =
      lines_of(input, path, place.begin.is_null() || is_nameless_variable(place));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines.size() > kLinesShown && i == kLinesShown / 2) {
      const size_t skipped = lines.size() - kLinesShown;
      out.write(fmt::format("    … {}\n", count_text(skipped, "more step", "more steps")));
      i += skipped;
    }
    print_lines(out, "    ", lines[i], width);
  }
}

void print_sources(Writer& out, const ReferenceReportInput& input, const HeldBlock& held,
                   size_t width) {
  if (held.source_count == 0) {
    print_lines(out, "  ", "No block points to it, either.", width);
    return;
  }
  const char* const others = held.is_garbage ? "garbage" : "leaked blocks";
  print_lines(out, "  ", fmt::format("It is pointed to by other {}:", others), width);
  for (const HeldStep& source : held.sources) {
    print_lines(out, "    ",
                fmt::format("{}  {}, at +{:#x}{}", address_text(source.block.address),
                            block_label(input, source.block.type, source.block.bytes),
                            source.held_at, remark_text(source)),
                width);
  }
  if (held.source_count > held.sources.size()) {
    out.write(fmt::format("    … {}\n",
                          count_text(held.source_count - held.sources.size(), "more", "more")));
  }
}

// Who made it is what is left to ask.
void print_next_of_leaked(Writer& out, const ReferenceReportInput& input, const HeldBlock& held,
                          const Ink& ink, size_t width) {
  const std::string all_leaks = "heapsnap leaks " + source_word(input);
  if (held.source_count != 0) {
    print_next(out, "To see what points to the first of these:",
               fmt::format("heapsnap why {} {}", address_text(held.sources.front().block.address),
                           source_word(input)),
               ink, width);
    if (!held.is_garbage && !held.block.is_mallocs_own) {
      print_step(out, "To see all leaks, and which are cycles:", all_leaks, width);
    }
  } else if (held.block.stack == 0 && can_still_be_tracked(input)) {
    print_tracking_of_leaks(out, input.metadata, ink, width);
  } else if (held.block.stack == 0 && input.metadata.freeze.method != FreezeMethod::kCore) {
    const Process& process = input.metadata.process;
    print_next(out,
               (input.may_run ? "It was allocated before the tracker was loaded"
                              : not_running_text(process)) +
                   ". For the call stacks of all blocks, " + tracked_start_reason(process) + ":",
               tracked_start_command(process), ink, width);
  } else {
    print_next(out, "To see all leaks:", all_leaks, ink, width);
  }
}

void write_json_facts(JsonWriter& json, const ReferenceReportInput& input,
                      const BlockFacts& block) {
  json.member("addr", block.address);
  json.member("bytes", block.bytes);
  write_json_type(json, input, block.type);
}

void write_json_step(JsonWriter& json, const ReferenceReportInput& input, const HeldStep& step) {
  json.begin_object();
  write_json_facts(json, input, step.block);
  json.member("held_at", step.held_at);
  json.member("interior", step.interior);
  json.member("may_be_stale", step.may_be_stale);
  json.end_object();
}

}  // namespace

void print_held_block(Writer& out, const ReferenceReportInput& input, const HeldBlock& held,
                      const TextStyle& style) {
  constexpr size_t kFramesShown = 12;
  const Ink ink(style.color);
  const size_t width = std::max(style.width, 60U);
  print_reference_head(out, input, ink, width);
  const std::string into = held.offset == 0 ? ""
                                            : fmt::format("; the address is {} into it",
                                                          count_text(held.offset, "byte", "bytes"));
  print_lines(out, "  block     ",
              fmt::format("{}, {}{}", address_text(held.block.address),
                          block_label(input, held.block.type, held.block.bytes), into),
              width);
  print_lines(out, "  retains   ",
              fmt::format("{} in {}, itself included", size_text(held.retained.bytes),
                          count_text(held.retained.count, "block", "blocks")),
              width);
  if (held.block.is_mallocs_own) {
    print_lines(
        out, "  state     ",
        held.block.is_thread_cache
            ? "in use by malloc itself: a thread's cache (tcache)"
            : "a page of a language runtime's heap: the objects in it count, and not the page",
        width);
  }
  if (has_stack(input, held.block.stack)) {
    out.write("\n" + ink.bold("Allocated by") + "\n");
    const StackReportInput stacks = input_of_stacks(input, {held.block.stack});
    print_frames_to_own(out, StackLines(stacks, width - 2), 0, kFramesShown, "  ", ink);
  }
  const std::string address = address_text(held.block.address);
  if (held.paths.empty()) {
    const char* state = ": it is leaked";
    if (held.is_garbage) state = ": it is garbage, which the next full garbage collection frees";
    if (held.block.is_mallocs_own) state = "";
    out.write("\n" + ink.bold(fmt::format("No root leads to it{}", state)) + "\n");
    print_sources(out, input, held, width);
    print_next_of_leaked(out, input, held, ink, width);
    return;
  }
  out.write("\n" + ink.bold("Held by") + "\n");
  const auto first_stale = std::ranges::find_if(held.paths, may_be_stale);
  const bool some_may_be_stale = first_stale != held.paths.end();
  const char* stale_ones = "";
  if (some_may_be_stale) stale_ones = ", those that may be stale last";
  if (std::ranges::all_of(held.paths, may_be_stale)) {
    stale_ones = "; all of them may be stale: if the block is in use, one of them holds it";
  }
  print_lines(
      out, "  ",
      fmt::format("The shortest way from each root, the nearest roots first{}.", stale_ones),
      width);
  for (auto path = held.paths.begin(); path != held.paths.end(); ++path) {
    const bool is_first_stale = path == first_stale && path != held.paths.begin();
    if (is_first_stale) out.write("\n" + ink.bold("May be stale") + "\n");
    print_path(out, input, *path, ink, width);
  }
  if (held.lacks_paths) {
    out.write("\n");
    print_lines(out, "  ", "Other ways are not shown: they have more than a million steps.", width);
  }
  if (some_may_be_stale) {
    out.write("\n");
    print_lines(
        out, "  ",
        "A word may be stale where few blocks of that size hold an address, behind the end of a "
        "text, in memory that a string, vector, deque, node or object has and does not use, in an "
        "object that is destroyed, below its thread's stack pointer, or on a language runtime's "
        "stack whose end is not known: it is probably left over from earlier use. One that leads "
        "to a container's node and is not the container's own, as an iterator, only looks at it.",
        width);
    const bool some_into_context =
        std::any_of(held.paths.begin(), held.paths.end(),
                    [&](const HeldPath& path) { return is_into_context(input, path); });
    if (some_into_context) {
      print_lines(out, "  ",
                  "So may be a word that points into a memory context's block: only its context "
                  "holds that block.",
                  width);
    }
  }
  print_next(out, "To see how much each root holds:", "heapsnap owners " + source_word(input), ink,
             width);
}

void print_json_held_block(Writer& out, const ReferenceReportInput& input, const HeldBlock& held) {
  JsonWriter json(out);
  json.begin_object();
  write_json_reference_head(json, "why", input);
  write_json_facts(json, input, held.block);
  json.member("offset", held.offset);
  json.member("thread_cache", held.block.is_thread_cache);
  json.member("leaked", held.paths.empty() && !held.is_garbage && !held.block.is_mallocs_own);
  json.member("garbage", held.is_garbage);
  json.member("retained_blocks", held.retained.count);
  json.member("retained_bytes", held.retained.bytes);
  write_json_stack(json, input, held.block.stack);
  json.key("paths");
  json.begin_array();
  for (const HeldPath& path : held.paths) {
    json.begin_object();
    write_json_root(json, start_of(input, path));
    json.member("owner", path.is_owner);
    json.key("steps");
    json.begin_array();
    for (const HeldStep& step : path.steps) write_json_step(json, input, step);
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.member("lacks_paths", held.lacks_paths);
  json.member("referrers", held.source_count);
  json.key("referred_by");
  json.begin_array();
  for (const HeldStep& source : held.sources) write_json_step(json, input, source);
  json.end_array();
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
