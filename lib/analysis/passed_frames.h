// Which functions a call stack is not charged to: those that allocate on behalf of others.
//
//   operator new                 passed over: a way to malloc
//   std::vector::push_back       passed over
//   parse                        charged: the innermost frame of the program's own
//   main
//   __libc_start_main, _start    passed over: they start a process or a thread
//
// Patterns are matched against the plain name of a function (tracking/function_name.h: without
// template arguments and parameters), and "*" matches any text: "xmalloc", "std::*". Functions
// without a name go by their module and start address: "libpool.so+*". docs/call-stacks.md lists
// the default patterns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tracking/interpreted_frames.h"

namespace heapsnap {

enum class FrameRole : uint8_t {
  kOwn,
  kKept,         // by "!PATTERN": as kOwn, also inside of kInterpreted
  kInterpreted,  // of the program's own, and what is inside of it is the interpreter's work
  kWayToMalloc,
  kStart,  // of a process or a thread
};

inline bool is_own(FrameRole role) {
  return role == FrameRole::kOwn || role == FrameRole::kKept || role == FrameRole::kInterpreted;
}

class PassedFrames {
 public:
  // The last pattern that matches a function counts. "!PATTERN": it is charged.
  void add(std::string_view pattern);

  FrameRole role_of(std::string_view function) const;
  // Of a function that an interpreter runs: only what was added applies to it.
  FrameRole role_of(std::string_view function, FrameLanguage language) const;
  // Whether "!PATTERN" was added for it.
  bool is_kept(std::string_view function) const;

  // Ways to malloc, by whole names and by patterns, and what starts a process or a thread.
  static std::span<const std::string_view> default_names();
  static std::span<const std::string_view> default_patterns();
  static std::span<const std::string_view> start_patterns();

 private:
  // What was added for a function of that plain name; nothing when nothing was.
  std::optional<FrameRole> added_role(std::string_view name) const;

  std::vector<std::string> added_;
};

// The index of the frame that a stack (innermost frame first) is charged to: the innermost kKept or
// kInterpreted if there is a kInterpreted, else the innermost one of the program's own. If
// all are passed over, the outermost way to malloc, which is closest to the code that wanted the
// memory; if there is none, the innermost frame. 0 if there are no frames.
size_t charged_frame(std::span<const FrameRole> frames);

// Whether `pattern`, in which each "*" matches any text, matches all of `text`.
bool fits_pattern(std::string_view text, std::string_view pattern);

}  // namespace heapsnap
