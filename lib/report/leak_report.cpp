#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "report/garbage_text.h"
#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/reference_report.h"
#include "report/shell_word.h"
#include "report/stack_lines.h"
#include "report/stack_report.h"
#include "report/terminal_text.h"
#include "report/tracked_start.h"

namespace heapsnap {

namespace {

constexpr size_t kGroupIndent = 6;

std::string tally_text(const Tally& tally) {
  return fmt::format("{} in {}", size_text(tally.bytes),
                     count_text(tally.count, "block", "blocks"));
}

// "12 × Session of 48 bytes", "12 × 200 to 216 bytes", "3 cycles with blocks of 48 bytes"
std::string group_text(const ReferenceReportInput& input, const LeakGroup& group) {
  const std::string type = type_label(input, group.type);
  const std::string sizes = block_sizes_label(group.least_size, group.most_size);
  if (group.kind == LeakKind::kCycle) {
    return fmt::format("{} with {} of {}", count_text(group.count, "cycle", "cycles"),
                       type.empty() ? "blocks" : type, sizes);
  }
  return fmt::format("{} × {}{}", count_text(group.count), type.empty() ? "" : type + " of ",
                     sizes);
}

// What the leaked blocks are, below their sum.
void print_kinds(Writer& out, const LeakCensus& census, size_t width) {
  const auto kind = [&](LeakKind one) { return census.kinds[static_cast<size_t>(one)]; };
  print_lines(out, "            ",
              fmt::format("{} directly, {} in cycles, {} held by these",
                          count_text(kind(LeakKind::kDirect).count, "block", "blocks"),
                          count_text(kind(LeakKind::kCycle).count),
                          count_text(kind(LeakKind::kIndirect).count)),
              width);
  print_lines(out, "            ",
              "No root leads to these blocks. Sizes include everything that is reachable only "
              "through them.",
              width);
}

// The call stacks of the groups that are shown: no two that differ look alike.
class GroupStacks {
 public:
  GroupStacks(const ReferenceReportInput& input, std::span<const LeakGroup> groups, size_t width) {
    for (const LeakGroup& group : groups) {
      const bool is_new = std::find(stacks_.begin(), stacks_.end(), group.stack) == stacks_.end();
      if (is_new && has_stack(input, group.stack)) stacks_.push_back(group.stack);
    }
    if (stacks_.empty()) return;
    input_.emplace(input_of_stacks(input, stacks_));
    lines_.emplace(*input_, width - kGroupIndent);
  }
  GroupStacks(const GroupStacks&) = delete;
  GroupStacks& operator=(const GroupStacks&) = delete;

  void print(Writer& out, uint32_t stack, const Ink& ink) const {
    constexpr size_t kFramesShown = 6;
    const auto found = std::find(stacks_.begin(), stacks_.end(), stack);
    if (found == stacks_.end()) return;
    print_frames_to_own(out, *lines_, static_cast<size_t>(found - stacks_.begin()), kFramesShown,
                        std::string(kGroupIndent, ' '), ink);
  }

 private:
  std::vector<uint32_t> stacks_;
  std::optional<StackReportInput> input_;
  std::optional<StackLines> lines_;
};

void print_group(Writer& out, const ReferenceReportInput& input, const LeakCensus& census,
                 const LeakGroup& group, const GroupStacks& stacks, const Ink& ink, size_t width) {
  const LeakedBlock& example = census.blocks[census.sources[group.largest].block];
  out.write("\n");
  print_lines(
      out, "  ",
      fmt::format("{} {}, {}", ink.bold(size_text(group.retained_bytes)),
                  fmt::format("in {}", count_text(group.retained_blocks, "block", "blocks")),
                  group_text(input, group)),
      width);
  stacks.print(out, group.stack, ink);
  std::string where =
      (group.count == 1 ? "at " : "the largest at ") + address_text(example.address);
  for (size_t i = 0; i < group.partners.size(); ++i) {
    where += (i == 0 ? ", with " : ", ") + type_label(input, group.partners[i]);
  }
  for (const std::string& line : wrapped(where, width - kGroupIndent)) {
    out.write(ink.dim(std::string(kGroupIndent, ' ') + line) + "\n");
  }
}

void write_tally(JsonWriter& json, const char* blocks, const char* bytes, const Tally& tally) {
  json.member(blocks, tally.count);
  json.member(bytes, tally.bytes);
}

void write_json_block(JsonWriter& json, const ReferenceReportInput& input, const LeakCensus& census,
                      const LeakedBlock& block) {
  json.begin_object();
  json.member("addr", block.address);
  json.member("bytes", block.bytes);
  json.member("kind", to_string(block.kind));
  write_json_type(json, input, block.type);
  if (block.stack != 0) json.member("stack", block.stack);
  if (block.source != LeakClasses::kSeveral) {
    const LeakOrigin& source = census.sources[block.source];
    json.member("held_by", census.blocks[source.block].address);
  }
  json.end_object();
}

void write_json_leak_group(JsonWriter& json, const ReferenceReportInput& input,
                           const LeakCensus& census, const LeakGroup& group) {
  json.begin_object();
  json.member("kind", to_string(group.kind));
  json.member("count", group.count);
  write_json_type(json, input, group.type);
  if (group.least_size == group.most_size) json.member("bytes", group.most_size);
  json.member("least_size", group.least_size);
  json.member("most_size", group.most_size);
  json.member("retained_blocks", group.retained_blocks);
  json.member("retained_bytes", group.retained_bytes);
  json.member("largest", census.blocks[census.sources[group.largest].block].address);
  if (!group.partners.empty()) {
    json.key("partners");
    json.begin_array();
    for (const TypeNumber type : group.partners) json.value(input.references.types[type].name);
    json.end_array();
  }
  write_json_stack(json, input, group.stack);
  json.end_object();
}

// Of a leak from before the tracker nothing more is known, of a newer one who allocated it.
void print_next_of_leaks(Writer& out, const ReferenceReportInput& input, const LeakCensus& census,
                         std::span<const LeakGroup> shown, const Ink& ink, size_t width) {
  const bool is_old = census.groups.front().stack == 0;
  if (is_old && can_still_be_tracked(input)) {
    print_tracking_of_leaks(out, input.metadata, ink, width);
    return;
  }
  const Process& process = input.metadata.process;
  const bool is_tracked = was_recorded(input.metadata);
  if (is_old && !is_tracked && !input.may_run) {
    print_next(out,
               not_running_text(process) + ". To learn who allocates such blocks, " +
                   tracked_start_reason(process) + ":",
               tracked_start_command(process), ink, width);
    return;
  }
  const auto newer =
      std::find_if(shown.begin(), shown.end(), [](const LeakGroup& one) { return one.stack != 0; });
  const bool has_newer = is_old && is_tracked && newer != shown.end();
  std::string why = "To see what the largest one retains, and what points to it:";
  if (has_newer) {
    why = "The call stacks above tell who leaks now; of the largest one none is known (" +
          untracked_text(input.metadata) +
          "). To see what the largest with a stack retains, and what points to it:";
  } else if (is_old && is_tracked) {
    why = "No stack is known of the largest one (" + untracked_text(input.metadata) +
          "). To see what it retains:";
  }
  const LeakGroup& group = has_newer ? *newer : census.groups.front();
  const Address example = census.blocks[census.sources[group.largest].block].address;
  print_next(out, why, fmt::format("heapsnap why {} {}", address_text(example), source_word(input)),
             ink, width);
}

}  // namespace

void print_leaks(Writer& out, const ReferenceReportInput& input, const LeakCensus& census,
                 size_t limit, const TextStyle& style) {
  const Ink ink(style.color);
  const size_t width = std::max(style.width, 60U);
  print_reference_head(out, input, ink, width);
  print_lines(out, "  in use    ", tally_text(census.in_use), width);
  const bool are_all_held = census.garbage.count == 0 && census.suppressed.count == 0;
  const std::string leaked = census.all.count == 0
                                 ? (are_all_held ? "nothing: roots lead to all blocks"
                                                 : "nothing: roots lead to all others")
                                 : fmt::format("{} ({} of what is in use)", tally_text(census.all),
                                               percent_text(census.all.bytes, census.in_use.bytes));
  print_lines(out, "  leaked    ", leaked, width);
  if (census.all.count != 0) print_kinds(out, census, width);
  if (census.garbage.count != 0) {
    print_lines(out, "  garbage   ",
                tally_text(census.garbage) + ": " +
                    garbage_text(input.metadata.runtimes, census.garbage, census.in_use),
                width);
  }
  if (census.suppressed.count != 0) {
    print_lines(out, "  suppressed ", tally_text(census.suppressed), width);
  }
  const bool is_none = census.all.count == 0;
  print_lines(out, "  ",
              std::string(is_none ? "Some may be leaked still" : "More may be leaked") +
                  ": a word that holds an address by chance, or is left over on a stack or in "
                  "memory that is used again, keeps a block from being listed. What only grows is "
                  "seen in two snapshots.",
              width);
  if (is_none) {
    print_next(out, "To see what keeps the memory alive:", "heapsnap owners " + source_word(input),
               ink, width);
    return;
  }
  const size_t shown = limit == 0 ? census.groups.size() : std::min(limit, census.groups.size());
  const std::span<const LeakGroup> shown_groups = std::span(census.groups).first(shown);
  const GroupStacks stacks(input, shown_groups, width);
  for (const LeakGroup& group : shown_groups) {
    print_group(out, input, census, group, stacks, ink, width);
  }
  if (shown < census.groups.size()) {
    uint64_t rest = 0;
    for (size_t i = shown; i < census.groups.size(); ++i) rest += census.groups[i].retained_bytes;
    out.write(fmt::format("\n  {} with {}: --limit 0\n",
                          count_text(census.groups.size() - shown, "more group", "more groups"),
                          size_text(rest)));
  }
  if (census.held_by_several.count != 0) {
    out.write("\n");
    print_lines(out, "  ",
                tally_text(census.held_by_several) +
                    " more are reachable through more than one of these, and counted in none.",
                width);
  }
  out.write("\n");
  const bool shares_memory = std::any_of(
      input.metadata.mappings.begin(), input.metadata.mappings.end(), [](const Mapping& mapping) {
        return mapping.shared && (mapping.writable || mapping.deleted);
      });
  print_lines(out, "  ",
              fmt::format("A program that keeps addresses in another form (tagged, packed, or in "
                          "the kernel as epoll_data){} hides its blocks: they look leaked, and are "
                          "in use.",
                          shares_memory ? ", or in shared memory that is not mapped in now," : ""),
              width);
  print_next_of_leaks(out, input, census, shown_groups, ink, width);
}

void print_json_leaks(Writer& out, const ReferenceReportInput& input, const LeakCensus& census,
                      bool all) {
  JsonWriter json(out);
  json.begin_object();
  write_json_reference_head(json, "leaks", input);
  write_tally(json, "blocks_in_use", "bytes_in_use", census.in_use);
  write_tally(json, "leaked_blocks", "leaked_bytes", census.all);
  for (int i = 0; i < kLeakKindCount; ++i) {
    const std::string name = to_string(static_cast<LeakKind>(i));
    write_tally(json, (name + "_blocks").c_str(), (name + "_bytes").c_str(),
                census.kinds[static_cast<size_t>(i)]);
  }
  write_tally(json, "held_by_several_blocks", "held_by_several_bytes", census.held_by_several);
  write_tally(json, "suppressed_blocks", "suppressed_bytes", census.suppressed);
  write_tally(json, "garbage_blocks", "garbage_bytes", census.garbage);
  json.key("groups");
  json.begin_array();
  for (const LeakGroup& group : census.groups) write_json_leak_group(json, input, census, group);
  json.end_array();
  if (all) {
    json.key("leaks");
    json.begin_array();
    for (const LeakedBlock& block : census.blocks) write_json_block(json, input, census, block);
    json.end_array();
  }
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
