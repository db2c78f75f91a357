#include "report/stack_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "report/fitted_name.h"
#include "report/terminal_text.h"
#include "tracking/function_name.h"

namespace heapsnap {

namespace {

std::string end_text(StackEnd end) {
  switch (end) {
    case StackEnd::kComplete: return {};
    case StackEnd::kNone: return "no frames were recorded";
    case StackEnd::kDepthLimit: return "more frames: the limit was reached";
    case StackEnd::kNoUnwindInfo: return "cut off: no unwind information for the next frame";
    case StackEnd::kBadFrame: return "cut off: the next frame is invalid";
  }
  return {};
}

constexpr size_t kLeastName = 20;

size_t hash_of(const std::vector<FrameLine>& lines, StackEnd end) {
  size_t hash = static_cast<size_t>(end);
  const std::hash<std::string> hash_text;
  for (const FrameLine& line : lines) {
    hash = hash * 0x100000001b3 ^ hash_text(line.function);
    hash = hash * 0x100000001b3 ^ hash_text(line.place);
  }
  return hash;
}

std::string place_of(const NamedFrame& frame) {
  std::string place = printable(line_label(frame, false));
  if (frame.is_inlined) place += place.empty() ? "inlined" : " (inlined)";
  if (place.empty() && frame.has_module && !frame.function.empty() &&
      !is_name_of_start(frame.function)) {
    place = printable(file_name_of(frame.module));
  }
  return place;
}

}  // namespace

StackLines::StackLines(const StackReportInput& input, size_t width) : input_(input), width_(width) {
  std::vector<size_t> open(input.ranked.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  // Without marks, with offsets, with addresses.
  for (int step = 0; step < 3; ++step) {
    std::unordered_map<size_t, std::vector<size_t>> by_text;
    for (const size_t i : open) {
      StackEnd end{};
      const auto lines = lines_of(i, end);
      by_text[hash_of(lines, end)].push_back(i);
    }
    open.clear();
    for (const auto& [text, alike] : by_text) {
      if (alike.size() < 2) continue;
      open.insert(open.end(), alike.begin(), alike.end());
      if (step < 2) tell_apart(alike, step == 0 ? Mark::kOffset : Mark::kAddress);
    }
  }
  alike_ = std::move(open);
  std::sort(alike_.begin(), alike_.end());
}

void StackLines::tell_apart(const std::vector<size_t>& alike, Mark mark) {
  StackEnd end{};
  const auto first = frames_of(alike.front(), end);
  std::vector<bool> differ(first.size());
  for (const size_t i : alike) {
    const auto frames = frames_of(i, end);
    for (size_t at = 0; at < std::min(first.size(), frames.size()); ++at) {
      // An inlined frame has the address of the function that it was inlined into.
      if (frames[at].return_address != first[at].return_address && !frames[at].is_inlined) {
        differ[at] = true;
      }
    }
  }
  for (const size_t i : alike) marks_[i] = {mark, differ};
}

std::vector<NamedFrame> StackLines::frames_of(size_t index, StackEnd& end) const {
  const AllocationSite& site = input_.recorded.stacks.sites[input_.ranked[index]];
  return named_frames(input_.recorded, *input_.metadata.tracker, site.node, end);
}

FrameLine StackLines::line_of(const NamedFrame& frame, const Marks* marks,
                              size_t frame_index) const {
  std::string mark;
  if (marks != nullptr && frame_index < marks->frames.size() && marks->frames[frame_index] &&
      !frame.function.empty()) {
    mark = marks->mark == Mark::kOffset ? fmt::format("+{:#x}", frame.offset)
                                        : fmt::format("@{:#x}", frame.return_address.value());
  }
  FrameLine line;
  const std::string function = printable(function_label(frame));
  line.place = clipped(place_of(frame), width_ - std::min(width_, kLeastName + mark.size() + 2));
  const size_t place_width = line.place.empty() ? 0 : display_width(line.place) + 2;
  line.function = fitted_name(function, width_ - place_width - mark.size()) + mark;
  return line;
}

std::vector<FrameLine> StackLines::lines_of(size_t index, StackEnd& end) const {
  const auto marks = marks_.find(index);
  std::vector<FrameLine> lines;
  for (const NamedFrame& frame : frames_of(index, end)) {
    lines.push_back(line_of(frame, marks == marks_.end() ? nullptr : &marks->second, lines.size()));
  }
  return lines;
}

bool StackLines::is_alike(size_t index) const {
  return std::binary_search(alike_.begin(), alike_.end(), index);
}

void print_frames(Writer& out, const StackLines& lines, size_t index, const std::string& indent,
                  const Ink& ink) {
  StackEnd end{};
  for (const FrameLine& line : lines.lines_of(index, end)) {
    out.write(indent + line.function + (line.place.empty() ? "" : "  " + ink.dim(line.place)) +
              "\n");
  }
  if (!end_text(end).empty()) out.write(indent + ink.yellow(end_text(end)) + "\n");
}

}  // namespace heapsnap
