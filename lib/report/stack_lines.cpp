#include "report/stack_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/file_name.h"
#include "report/fitted_name.h"
#include "report/number_text.h"
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

// Whether `caller` is a call of the same function in the same line.
bool is_repeated(const NamedFrame& callee, const NamedFrame& caller) {
  return is_same_function(callee, caller) && callee.file == caller.file &&
         callee.line == caller.line;
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

void print_line(Writer& out, const FrameLine& line, const std::string& indent, const Ink& ink) {
  out.write(indent + line.function + (line.place.empty() ? "" : "  " + ink.dim(line.place)) + "\n");
}

void print_end(Writer& out, StackEnd end, const std::string& indent, const Ink& ink) {
  if (!end_text(end).empty()) out.write(indent + ink.yellow(end_text(end)) + "\n");
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

std::string StackLines::mark_of(size_t index, const NamedFrame& frame, size_t frame_index) const {
  const auto found = marks_.find(index);
  if (found == marks_.end() || frame.function.empty()) return {};
  const Marks& marks = found->second;
  if (frame_index >= marks.frames.size() || !marks.frames[frame_index]) return {};
  return marks.mark == Mark::kOffset ? fmt::format("+{:#x}", frame.offset)
                                     : fmt::format("@{:#x}", frame.return_address.value());
}

FrameLine StackLines::line_of(const NamedFrame& frame, const std::string& mark,
                              size_t count) const {
  const std::string tail = mark + times_text(count);
  const size_t tail_width = display_width(tail);
  FrameLine line;
  const std::string function = printable(function_label(frame));
  line.place = clipped(place_of(frame), width_ - std::min(width_, kLeastName + tail_width + 2));
  const size_t place_width = line.place.empty() ? 0 : display_width(line.place) + 2;
  line.function = fitted_name(function, width_ - place_width - tail_width) + tail;
  return line;
}

size_t StackLines::end_of_line(size_t index, const std::vector<NamedFrame>& frames,
                               size_t first) const {
  const std::string mark = mark_of(index, frames[first], first);
  size_t next = first + 1;
  while (next < frames.size() && is_repeated(frames[first], frames[next]) &&
         mark_of(index, frames[next], next) == mark) {
    ++next;
  }
  return next;
}

std::vector<FrameLine> StackLines::lines_of(size_t index, StackEnd& end) const {
  const std::vector<NamedFrame> frames = frames_of(index, end);
  std::vector<FrameLine> lines;
  for (size_t first = 0, next = 0; first < frames.size(); first = next) {
    next = end_of_line(index, frames, first);
    // The function itself, where a part of its calls of itself is inlined.
    NamedFrame shown = frames[first];
    for (size_t i = first + 1; i < next; ++i) shown.is_inlined &= frames[i].is_inlined;
    lines.push_back(line_of(shown, mark_of(index, frames[first], first), next - first));
  }
  return lines;
}

size_t StackLines::charged_line(size_t index) const {
  StackEnd end{};
  const std::vector<NamedFrame> frames = frames_of(index, end);
  std::vector<FrameRole> roles;
  for (const NamedFrame& frame : frames) {
    roles.push_back(input_.passed.role_of(frame.function, frame.language));
  }
  const size_t charged = charged_frame(roles);
  size_t line = 0;
  for (size_t first = 0; first < frames.size(); ++line) {
    first = end_of_line(index, frames, first);
    if (charged < first) break;
  }
  return line;
}

bool StackLines::is_alike(size_t index) const {
  return std::binary_search(alike_.begin(), alike_.end(), index);
}

void print_frames_to_own(Writer& out, const StackLines& lines, size_t index, size_t most,
                         const std::string& indent, const Ink& ink) {
  constexpr size_t kCallersShown = 2;
  StackEnd end{};
  const std::vector<FrameLine> frames = lines.lines_of(index, end);
  const size_t charged = lines.charged_line(index);
  const size_t last = frames.size() - std::min(most, frames.size());  // that leaves none out behind
  const size_t first =
      charged == 0 || charged + kCallersShown < most ? 0 : std::min(charged - 1, last);
  const size_t behind = std::min(first + most, frames.size());
  if (first != 0) {
    out.write(indent + fmt::format("… {}\n", count_text(first, "more", "more")));
  }
  for (size_t i = first; i < behind; ++i) print_line(out, frames[i], indent, ink);
  if (behind != frames.size()) {
    out.write(indent + fmt::format("… {}\n", count_text(frames.size() - behind, "more", "more")));
  } else {
    print_end(out, end, indent, ink);
  }
}

void print_frames(Writer& out, const StackLines& lines, size_t index, const std::string& indent,
                  const Ink& ink) {
  StackEnd end{};
  for (const FrameLine& line : lines.lines_of(index, end)) print_line(out, line, indent, ink);
  print_end(out, end, indent, ink);
}

}  // namespace heapsnap
