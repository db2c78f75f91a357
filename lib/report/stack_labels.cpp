#include "report/stack_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "report/fitted_name.h"
#include "report/stack_frames.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

// Calls of a function by itself, one after the other; the frame is the innermost one.
struct RepeatedFrame : NamedFrame {
  size_t times = 1;
};

struct ChargedStack {
  std::vector<RepeatedFrame> frames;  // innermost first
  size_t charged = 0;
};

ChargedStack charged_stack(const StackReportInput& input, uint32_t stack) {
  ChargedStack result;
  StackEnd end{};
  for (const NamedFrame& frame : named_frames(input.recorded, *input.metadata.tracker,
                                              input.recorded.stacks.sites[stack].node, end)) {
    if (!result.frames.empty() && is_same_function(result.frames.back(), frame)) {
      ++result.frames.back().times;
    } else {
      result.frames.push_back({frame, 1});
    }
  }
  std::vector<FrameRole> roles;
  for (const RepeatedFrame& frame : result.frames) {
    roles.push_back(input.passed.role_of(frame.function, frame.language));
  }
  result.charged = charged_frame(roles);
  return result;
}

// What is said of a frame beside its function.
enum class Detail { kNothing, kFile, kLine, kOffset };

std::string detail_of(const NamedFrame& frame, Detail detail) {
  const bool has_line = !frame.file.empty();
  switch (detail) {
    case Detail::kNothing: break;
    case Detail::kFile: return has_line ? " " + printable(line_label(frame, false)) : "";
    case Detail::kLine: return has_line ? fmt::format(":{}", frame.line) : "";
    case Detail::kOffset:
      if (frame.is_inlined || frame.function.empty()) break;
      return fmt::format("+{:#x}", frame.offset);
  }
  return {};
}

std::string label_of(const RepeatedFrame& frame, Detail detail, size_t width) {
  std::string tail = detail == Detail::kFile ? times_text(frame.times) + detail_of(frame, detail)
                                             : detail_of(frame, detail) + times_text(frame.times);
  // A number that is cut would be another one.
  if (display_width(tail) > width / 2) tail.clear();
  const size_t room = width - std::min(width, display_width(tail));
  return fitted_name(printable(function_label(frame)), room) + tail;
}

// A way to tell stacks apart that are charged to the same.
struct Distinction {
  bool is_outwards;  // by who called, or by what was called
  Detail detail;
};
// The better ones first. What was called may have to be told twice: of three stacks the first time
// tells one from the other two.
constexpr Distinction kDistinctions[] = {{true, Detail::kNothing},
                                         {true, Detail::kLine},
                                         {false, Detail::kNothing},
                                         {false, Detail::kNothing},
                                         {true, Detail::kOffset}};

// The frame that is so far from the charged one.
const RepeatedFrame* frame_at(const ChargedStack& stack, size_t distance, bool is_outwards) {
  if (!is_outwards)
    return distance <= stack.charged ? &stack.frames[stack.charged - distance] : nullptr;
  const size_t at = stack.charged + distance;
  return at < stack.frames.size() ? &stack.frames[at] : nullptr;
}

// How far from their charged frames the stacks `alike` first differ; nothing when nowhere.
std::optional<size_t> distance_of_difference(const std::vector<ChargedStack>& stacks,
                                             const std::vector<size_t>& alike,
                                             const Distinction& by) {
  const auto looks_like = [&](const RepeatedFrame* a, const RepeatedFrame* b) {
    if (a == nullptr || b == nullptr) return a == b;
    return function_label(*a) == function_label(*b) && a->times == b->times &&
           detail_of(*a, by.detail) == detail_of(*b, by.detail);
  };
  // The charged frames differ in their offset at most, as they look now.
  for (size_t distance = by.detail == Detail::kOffset ? 0 : 1;; ++distance) {
    const RepeatedFrame* const first = frame_at(stacks[alike.front()], distance, by.is_outwards);
    for (const size_t other : alike) {
      if (!looks_like(first, frame_at(stacks[other], distance, by.is_outwards))) return distance;
    }
    if (first == nullptr) return std::nullopt;
  }
}

// What a label says: the charged frame, and what tells it apart from those that are alike.
struct Told {
  Detail charged = Detail::kFile;
  std::optional<size_t> inner = {};  // how far inside of the charged frame
  std::optional<size_t> outer = {};
  Detail outer_detail = Detail::kNothing;

  void add(size_t distance, const Distinction& by) {
    if (distance == 0) {
      charged = by.detail;
      return;
    }
    charged = Detail::kLine;
    (by.is_outwards ? outer : inner) = distance;
    if (by.is_outwards) outer_detail = by.detail;
  }
};

std::string label_of(const ChargedStack& stack, const Told& told, size_t width) {
  constexpr std::string_view kCalledBy = " ← ";
  const size_t others = size_t{told.inner.has_value()} + size_t{told.outer.has_value()};
  const size_t room = width - std::min(width, others * display_width(kCalledBy));
  const size_t share = room / (others + 1);
  const RepeatedFrame& charged = stack.frames[stack.charged];
  const size_t own = display_width(label_of(charged, told.charged, width));
  const size_t room_of_other = own < share && others != 0 ? (room - own) / others : share;
  std::string inner;
  std::string outer;
  if (told.inner) {
    inner = label_of(*frame_at(stack, *told.inner, false), Detail::kNothing, room_of_other);
    inner += kCalledBy;
  }
  if (told.outer) {
    outer = kCalledBy;
    outer += label_of(*frame_at(stack, *told.outer, true), told.outer_detail, room_of_other);
  }
  const size_t taken = display_width(inner) + display_width(outer);
  return inner + label_of(charged, told.charged, width - std::min(width, taken)) + outer;
}

}  // namespace

std::vector<std::string> stack_labels(const StackReportInput& input, size_t width) {
  std::vector<ChargedStack> stacks;
  std::vector<Told> told;
  std::vector<std::string> labels;
  for (const uint32_t id : input.ranked) {
    stacks.push_back(charged_stack(input, id));
    const ChargedStack& stack = stacks.back();
    told.emplace_back();
    labels.push_back(stack.frames.empty() ? "no call stack" : label_of(stack, told.back(), width));
  }
  for (const Distinction& by : kDistinctions) {
    std::map<std::string, std::vector<size_t>> by_label;
    for (size_t i = 0; i < labels.size(); ++i) by_label[labels[i]].push_back(i);
    for (const auto& [label, alike] : by_label) {
      if (alike.size() < 2) continue;
      const auto distance = distance_of_difference(stacks, alike, by);
      if (!distance) continue;
      for (const size_t i : alike) {
        if (frame_at(stacks[i], *distance, by.is_outwards) == nullptr) continue;
        told[i].add(*distance, by);
        labels[i] = label_of(stacks[i], told[i], width);
      }
    }
  }
  std::map<std::string, size_t> met;
  for (std::string& label : labels) {
    if (const size_t before = met[label]++; before != 0) {
      const std::string number = fmt::format(" (stack {})", before + 1);
      label = clipped(label, width - std::min(width, number.size())) + number;
    }
  }
  return labels;
}

std::string charged_function(const StackReportInput& input, uint32_t stack) {
  const ChargedStack charged = charged_stack(input, stack);
  return charged.frames.empty() ? std::string() : function_label(charged.frames[charged.charged]);
}

}  // namespace heapsnap
