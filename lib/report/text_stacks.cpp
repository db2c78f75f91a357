#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "analysis/language_runtime.h"
#include "report/fitted_name.h"
#include "report/number_text.h"
#include "report/old_blocks_report.h"
#include "report/stack_labels.h"
#include "report/stack_lines.h"
#include "report/stack_report.h"
#include "report/text_page.h"
#include "report/text_table.h"
#include "report/tracked_start.h"
#include "tracking/function_name.h"
#include "tracking/tracker_library.h"

namespace heapsnap {

namespace {

using Align = TextTable::Align;

const std::string kFrameIndent = "      ";
constexpr size_t kLeastGroupName = 28;  // of a function
constexpr size_t kLeastLabel = 40;      // of a stack
constexpr size_t kWhole = 1 << 20;      // columns that no name has

std::string rate_text(double number, uint64_t nanoseconds) {
  if (nanoseconds == 0) return {};
  const double rate = number / (static_cast<double>(nanoseconds) / 1e9);
  return rate >= 10 ? fmt::format(", {}/s", count_text(whole_number(rate)))
                    : fmt::format(", {:.1f}/s", rate);
}

std::string share_text(double part, double whole) {
  return percent_text(whole > 0 ? part / whole : 0);
}

std::string recording_text(uint64_t sample_bytes) {
  return sample_bytes == 0 ? std::string("every allocation recorded")
                           : fmt::format("one sample per {} on average", size_text(sample_bytes));
}

// A second inject can change what is sampled, and the counters go on.
bool has_other_sampling(const StackReportInput& input) {
  const std::vector<AllocationSite>& sites = input.recorded.stacks.sites;
  const uint64_t now = input.metadata.tracker->sample_bytes;
  return std::any_of(sites.begin(), sites.end(), [now](const AllocationSite& site) {
    return site.allocations != 0 && site.sample_bytes != now;
  });
}

// What the order compares, in its own unit.
std::string measure_text(const StackReportInput& input, uint32_t id) {
  const StackFigures& figures = input.census.stacks[id];
  const double measure = measure_of(input.census, input.recorded.stacks, input.order, id);
  switch (input.order) {
    case StackOrder::kLiveBytes: return live_text(figures.live_bytes, figures.live_blocks);
    case StackOrder::kLiveBlocks:
      return fmt::format("{} with {}", count_text(whole_number(measure), "block", "blocks"),
                         size_text(whole_number(figures.live_bytes)));
    case StackOrder::kRate:
      return count_text(whole_number(measure), "allocation", "allocations") +
             rate_text(measure, input.metadata.tracker->recorded_ns);
    case StackOrder::kChurn: break;
  }
  return size_text(whole_number(measure)) + " allocated plus freed";
}

// What the shares are shares of, where that is not what the line "live" says; else empty.
std::string total_text(const StackReportInput& input) {
  const double total = total_of(input.census, input.recorded.stacks, input.order);
  switch (input.order) {
    case StackOrder::kLiveBytes:
    case StackOrder::kLiveBlocks: return {};
    case StackOrder::kRate:
      return "by allocations: " + count_text(whole_number(total)) + " in total" +
             rate_text(total, input.metadata.tracker->recorded_ns);
    case StackOrder::kChurn: break;
  }
  return "by churn: " + size_text(whole_number(total)) + " allocated plus freed, in total";
}

// "16 B × 1,024, 32 B × 5", or, where there are many, by powers of two: "512 B to 1.0 KiB: 12,211
// blocks, 9 more sizes", without those of less than 0.1 % of the bytes.
std::string sizes_text(std::span<const SizeCount> sizes) {
  constexpr size_t kMost = 6;
  constexpr uint64_t kLeastShare = 1000;
  std::string text;
  const auto add = [&text](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
  if (sizes.size() <= kMost) {
    for (const SizeCount& one : sizes) {
      add(fmt::format("{} × {}", size_text(one.size), count_text(one.count)));
    }
    return text;
  }
  const auto bytes = [](const SizeCount& one) { return one.size * one.count; };
  uint64_t all = 0;
  for (const SizeCount& one : sizes) all += bytes(one);
  std::map<uint64_t, uint64_t> bytes_from;
  std::map<uint64_t, size_t> sizes_from;
  for (const SizeCount& one : sizes) {
    bytes_from[std::bit_floor(one.size)] += bytes(one);
    ++sizes_from[std::bit_floor(one.size)];
  }
  size_t left_out = 0;
  for (const SizeCount& one : by_power_of_two(sizes)) {
    if (bytes_from[one.size] < all / kLeastShare) {
      left_out += sizes_from[one.size];
      continue;
    }
    add(fmt::format("{} to {}: {}", size_text(one.size), size_text(2 * one.size),
                    count_text(one.count, "block", "blocks")));
  }
  if (left_out != 0) add(count_text(left_out, "more size", "more sizes"));
  return text;
}

void print_wrapped(Writer& out, std::string_view front, std::string_view text, size_t width) {
  std::string lead(front);
  const size_t indent = display_width(front);
  for (const std::string& line : wrapped(text, width > indent + 20 ? width - indent : 20)) {
    out.write(lead + line + "\n");
    lead.assign(indent, ' ');
  }
}

void print_head(Writer& out, const StackReportInput& input, const Ink& ink, size_t width) {
  const Process& process = input.metadata.process;
  const TrackerRecord& tracker = *input.metadata.tracker;
  out.write(ink.bold(fmt::format("Process {}: {}", process.pid, printable(process.comm))) + "\n");
  std::string what = recording_text(tracker.sample_bytes);
  if (tracker.sample_bytes != 0) what += ", from which sizes and counts are estimated,";
  if (tracker.recorded_ns != 0) what += " for " + duration_text(tracker.recorded_ns);
  if (has_other_sampling(input)) what += ", part of the time with another --sample";
  if (!tracker.recording) what += ", recording has stopped";
  print_wrapped(out, "  tracked   ", what, width);
  print_wrapped(out, "  live      ", live_text(input.census.live_bytes, input.census.live_blocks),
                width);
  for (const std::string& remark : stack_remarks(input.metadata, input.census)) {
    print_wrapped(out, "  note      ", remark, width);
  }
  constexpr size_t kRoomBesideName = 20;
  for (const std::string& text : old_blocks_texts(input, width - kRoomBesideName)) {
    print_wrapped(out, "  note      ", "untracked: " + text, width);
  }
  if (const std::string old = old_share_text(input.metadata, input.census); !old.empty()) {
    print_wrapped(out, "  note      ", old, width);
  }
}

void print_order(Writer& out, const StackReportInput& input, size_t width) {
  const std::string text = total_text(input);
  if (!text.empty()) print_wrapped(out, "  sorted    ", text, width);
}

// "10.5 MiB", or "10.5M" where columns are few.
std::string column_size(double bytes, size_t width) {
  constexpr size_t kWideEnough = 100;
  return width < kWideEnough ? short_size_text(whole_number(bytes))
                             : size_text(whole_number(bytes));
}

// Names of functions and of other groups, each cut in its way.
std::vector<std::string> group_names(const std::vector<StackGroup>& groups,
                                     const std::vector<std::string>& cells, size_t width) {
  std::vector<std::string> functions;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (groups[i].is_function) functions.push_back(cells[i]);
  }
  functions = fitted_names(functions, width);
  std::vector<std::string> names;
  size_t next = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    names.push_back(groups[i].is_function ? functions[next++] : clipped(cells[i], width));
  }
  return names;
}

void print_passed(Writer& out, const FunctionGroups& groups, size_t width) {
  if (!groups.passed.empty()) {
    std::string names;
    for (const CommonAllocator& one : groups.passed) {
      names += fmt::format("{}{} (for {})", names.empty() ? "" : ", ",
                           printable(plain_name(one.name)), count_text(one.callers));
    }
    print_wrapped(
        out, "  ",
        fmt::format("Also passed over, since they have no name and allocate blocks of many "
                    "sizes for many functions: {}. --pass-over '!{}' charges the first "
                    "one after all.",
                    names, printable(plain_name(groups.passed.front().name))),
        width);
  }
  if (groups.suspect) {
    const std::string name = printable(plain_name(groups.suspect->name));
    print_wrapped(
        out, "  ",
        fmt::format("{} allocates blocks of many sizes for {}. --pass-over '{}' charges "
                    "those instead.",
                    name, count_text(groups.suspect->callers, "function", "functions"), name),
        width);
  }
}

// The library was loaded from memory, as inject does it.
bool was_injected(const SnapshotMetadata& metadata) {
  return std::any_of(metadata.mappings.begin(), metadata.mappings.end(),
                     [](const Mapping& mapping) { return is_injected_tracker(mapping.path); });
}

}  // namespace

std::string live_text(double bytes, double blocks) {
  return fmt::format("{} in {}", size_text(whole_number(bytes)),
                     count_text(whole_number(blocks), "block", "blocks"));
}

void print_top_stacks(TextPage& page) {
  if (page.input.stacks == nullptr || page.input.stacks->ranked.empty()) return;
  const StackReportInput& input = *page.input.stacks;
  TextTable table;
  for (int i = 0; i < 3; ++i) table.add_column("", Align::kRight);
  table.add_column("", kLeastLabel,
                   [&input](const auto&, size_t width) { return stack_labels(input, width); });
  const std::vector<std::string> labels = stack_labels(input, kWhole);
  for (size_t i = 0; i < input.ranked.size(); ++i) {
    const StackFigures& figures = input.census.stacks[input.ranked[i]];
    table.add_row({share_text(figures.live_bytes, input.census.live_bytes),
                   size_text(whole_number(figures.live_bytes)),
                   count_text(whole_number(figures.live_blocks), "block", "blocks"), labels[i]});
  }
  page.table(table);
}

std::string untracked_text(const SnapshotMetadata& metadata) {
  const TrackerRecord& tracker = *metadata.tracker;
  const bool lost_some =
      tracker.limit_reached_ns != 0 || tracker.dropped_slots != 0 || tracker.nested_events != 0;
  return std::string(was_injected(metadata) ? "allocated before inject"
                                            : "allocated before tracking began") +
         (tracker.sample_bytes == 0 ? "" : ", or not sampled") +
         (lost_some ? ", or not recorded" : "");
}

std::string passed_over_text(const StackCensus& census) {
  if (census.passed_over.bytes == 0) return {};
  return fmt::format("; the stacks' samples stand for about {} of it",
                     size_text(census.passed_over.bytes));
}

std::string old_share_text(const SnapshotMetadata& metadata, const StackCensus& census) {
  const auto old = static_cast<double>(census.without_stack.bytes);
  const bool is_old = metadata.tracker->sample_bytes == 0 && was_injected(metadata);
  if (!is_old || old <= census.live_bytes) return {};
  // Of so little that says nothing: what counts may have been freed.
  constexpr double kLittle = 1 << 20;
  if (old < kLittle) return {};
  return fmt::format(
      "{} of malloc's memory in use ({}) are older than the tracker; these stacks do not explain "
      "them. If they stay and the program has stopped growing, {}",
      size_text(census.without_stack.bytes), share_text(old, old + census.live_bytes),
      tracked_start_text(metadata.process,
                         recordable_language(metadata.mappings) ? kWithFunctions : ""));
}

std::vector<std::string> stack_remarks(const SnapshotMetadata& metadata,
                                       const StackCensus& census) {
  const TrackerRecord& tracker = *metadata.tracker;
  std::vector<std::string> remarks;
  if (census.without_stack.count != 0) {
    remarks.push_back(fmt::format("untracked: {} in {} ({}{})",
                                  size_text(census.without_stack.bytes),
                                  count_text(census.without_stack.count, "block", "blocks"),
                                  untracked_text(metadata), passed_over_text(census)));
  }
  if (census.strange.count != 0) {
    remarks.push_back(fmt::format(
        "the tracker's tables are damaged: the stacks of {} in {} are lost",
        size_text(census.strange.bytes), count_text(census.strange.count, "block", "blocks")));
  }
  std::string limits;
  for (const std::string& name : limit_names(tracker.limits)) {
    limits += (limits.empty() ? "" : ", ") + name;
  }
  if (!limits.empty()) remarks.push_back("the tracker reached its limit of: " + limits);
  if (tracker.limit_reached_ns != 0) {
    remarks.push_back(fmt::format(
        "its tables could not grow{}: from {} after the start of recording, new blocks were not "
        "recorded ({} or more), only frees",
        tracker.memory_limit == 0 ? std::string() : " beyond " + size_text(tracker.memory_limit),
        duration_text(limit_reached_after(tracker)),
        count_text(tracker.unrecorded, "block", "blocks")));
  }
  if (tracker.dropped_slots != 0) {
    remarks.push_back(count_text(tracker.dropped_slots, "block was", "blocks were") +
                      " not recorded");
  }
  if (tracker.dropped_stacks != 0) {
    remarks.push_back(count_text(tracker.dropped_stacks, "block was", "blocks were") +
                      " recorded without a stack, since a table was full");
  }
  for (const std::string& note : tracker.notes) remarks.push_back(printable(note));
  for (const Runtime& runtime : metadata.runtimes.runtimes) {
    const bool has_pages = runtime.areas != 0 || !runtime.why_not.empty();
    if (has_pages && runtime.kind == RuntimeKind::kPython) {
      remarks.push_back(
          "of Python's objects of up to 512 bytes no stack is known, unless it was started with "
          "PYTHONMALLOC=malloc: heapsnap objects lists them by class");
    } else if (has_pages && runtime.kind == RuntimeKind::kRuby) {
      remarks.push_back(
          "of Ruby's objects only what they have besides in malloc's memory has a stack: heapsnap "
          "objects lists them by class");
    }
  }
  return remarks;
}

void print_stacks(Writer& out, const StackReportInput& input, const TextStyle& style) {
  const Ink ink(style.color);
  const size_t width = std::max(style.width, 60U);
  const TrackerRecord& tracker = *input.metadata.tracker;
  print_head(out, input, ink, width);
  print_order(out, input, width);
  const double total = total_of(input.census, input.recorded.stacks, input.order);
  const StackLines lines(input, width - kFrameIndent.size());
  for (size_t i = 0; i < input.ranked.size(); ++i) {
    const uint32_t id = input.ranked[i];
    const AllocationSite& site = input.recorded.stacks.sites[id];
    const StackFigures& figures = input.census.stacks[id];
    const double measure = measure_of(input.census, input.recorded.stacks, input.order, id);
    out.write("\n" +
              ink.bold(fmt::format("{}. {}  {}", i + 1, share_text(measure, total),
                                   measure_text(input, id))) +
              "\n");
    if (lines.is_alike(i)) {
      print_wrapped(out, "    recorded   ", recording_text(site.sample_bytes), width);
    }
    if (input.order == StackOrder::kRate || input.order == StackOrder::kChurn) {
      print_wrapped(out, "    live       ", live_text(figures.live_bytes, figures.live_blocks),
                    width);
    }
    if (const std::string sizes = sizes_text(input.sizes[i]); !sizes.empty()) {
      print_wrapped(out, "    requested  ", sizes, width);
    }
    print_wrapped(
        out, "    allocated  ",
        fmt::format("{} in {}{}; freed {} in {}", size_text(site.allocated_bytes),
                    count_text(whole_number(site.allocation_count())),
                    rate_text(site.allocation_count(), tracker.recorded_ns),
                    size_text(site.freed_bytes), count_text(whole_number(site.free_count()))),
        width);
    print_frames(out, lines, i, kFrameIndent, ink);
  }
}

void print_stack_groups(Writer& out, const StackReportInput& input, const FunctionGroups& all,
                        const std::string& what, const TextStyle& style) {
  const Ink ink(style.color);
  const size_t width = std::max(style.width, 60U);
  print_head(out, input, ink, width);
  print_order(out, input, width);
  out.write("\n");
  const double total = total_of(input.census, input.recorded.stacks, input.order);
  std::vector<StackGroup> shown;
  for (const StackGroup& group : all.groups) {
    if (measure_of(group, input.order) > 0) shown.push_back(group);
  }
  const bool by_rate = input.order == StackOrder::kRate;
  TextTable table;
  for (const char* title :
       {"share", "live", "blocks", "with callees", by_rate ? "allocations" : "churn"}) {
    table.add_column(title, Align::kRight);
  }
  table.add_column(what, kLeastGroupName, [&shown](const auto& cells, size_t columns) {
    return group_names(shown, cells, columns);
  });
  for (const StackGroup& group : shown) {
    table.add_row(
        {share_text(measure_of(group, input.order), total), column_size(group.live_bytes, width),
         count_text(whole_number(group.live_blocks)), column_size(group.live_bytes_below, width),
         by_rate ? count_text(whole_number(group.allocations))
                 : column_size(group.allocated_bytes + group.freed_bytes, width),
         printable(group.name)});
  }
  table.print(out, ink, width);
  print_wrapped(out, "  ", "with callees: live memory of all stacks in which it occurs.", width);
  print_passed(out, all, width);
}

void print_tracked_threads(Writer& out, const StackReportInput& input,
                           std::span<const uint32_t> ranked, const TextStyle& style) {
  const Ink ink(style.color);
  const size_t width = std::max(style.width, 60U);
  const std::vector<TrackedThread>& threads = input.metadata.tracker->threads;
  const bool has_truncated = std::any_of(threads.begin(), threads.end(),
                                         [](const auto& thread) { return thread.truncated != 0; });
  print_head(out, input, ink, width);
  out.write("\n");
  TextTable table;
  table.add_column("thread", Align::kRight);
  table.add_column("name", Align::kLeft);
  for (const char* title : {"allocated", "in", "freed", "in"}) {
    table.add_column(title, Align::kRight);
  }
  if (has_truncated) table.add_column("truncated", Align::kRight);
  for (const uint32_t index : ranked) {
    const TrackedThread& thread = threads[index];
    std::vector<std::string> cells = {
        thread.tid == 0 ? "exited" : fmt::format("{}", thread.tid),
        printable(thread.name) + (thread.exited && thread.tid != 0 ? " (exited)" : ""),
        size_text(thread.allocated_bytes),
        count_text(thread.allocations),
        size_text(thread.freed_bytes),
        count_text(thread.frees)};
    if (has_truncated) cells.push_back(count_text(thread.truncated));
    table.add_row(cells);
  }
  table.print(out, ink, width);
  if (ranked.size() < threads.size()) {
    out.write(fmt::format("  {}: --all\n", count_text(threads.size() - ranked.size(), "more thread",
                                                      "more threads")));
  }
  if (has_truncated) {
    print_wrapped(out, "  ",
                  "truncated: allocations whose stacks lack the outer frames, since code on the "
                  "way has no unwind information, or a damaged one.",
                  width);
  }
}

}  // namespace heapsnap
