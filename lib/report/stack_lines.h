// The frames of listed stacks as lines of text that fit a terminal, so that two stacks that differ
// never look alike on one screen.
//
// Where all lines of two stacks would be the same, the frames in which they differ are followed by
// what tells them apart:
//
//   parse(int)+0x1a  parser.so        parse(int)+0x40  parser.so
//   main  main.cpp:9                  main  main.cpp:9
//
// Frames of a function that calls itself from one line are one line: "visit(Node*) × 12".
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/stack_frames.h"
#include "report/stack_report_input.h"
#include "report/terminal_text.h"
#include "report/writer.h"

namespace heapsnap {

// A frame's line: what it calls, and where that is.
struct FrameLine {
  std::string function;
  std::string place;  // "parse.cpp:42 (inlined)", "parser.so"; may be empty
};

class StackLines {
 public:
  // Of input.ranked, in lines of `width` columns.
  StackLines(const StackReportInput& input, size_t width);

  // Of the stack at that index of input.ranked, innermost first. `end`: why there are no more. A
  // line may stand for several frames.
  std::vector<FrameLine> lines_of(size_t index, StackEnd& end) const;
  // Which of these the stack is charged to (analysis/passed_frames.h); 0 if there are none.
  size_t charged_line(size_t index) const;
  // Whether its lines are still those of another one: that then has the same return addresses.
  bool is_alike(size_t index) const;

 private:
  enum class Mark : uint8_t { kOffset, kAddress };
  struct Marks {
    Mark mark = Mark::kOffset;
    std::vector<bool> frames;  // those that get it
  };

  std::vector<NamedFrame> frames_of(size_t index, StackEnd& end) const;
  // Behind the last of the frames that are one line with frames[first].
  size_t end_of_line(size_t index, const std::vector<NamedFrame>& frames, size_t first) const;
  std::string mark_of(size_t index, const NamedFrame& frame, size_t frame_index) const;
  // `count`: how many frames it stands for.
  FrameLine line_of(const NamedFrame& frame, const std::string& mark, size_t count) const;
  void tell_apart(const std::vector<size_t>& alike, Mark mark);

  const StackReportInput& input_;
  size_t width_;
  std::unordered_map<size_t, Marks> marks_;  // of stacks that look like others without
  std::vector<size_t> alike_;                // sorted
};

// At most `most` lines of a stack's frames, with the one that it is charged to among them, and how
// many lines there are before and behind: a library may take a dozen to malloc.
void print_frames_to_own(Writer& out, const StackLines& lines, size_t index, size_t most,
                         const std::string& indent, const Ink& ink);
// The frames of a stack, a line each, and why there are no more where that is not the stack's end.
void print_frames(Writer& out, const StackLines& lines, size_t index, const std::string& indent,
                  const Ink& ink);

}  // namespace heapsnap
