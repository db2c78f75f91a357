// Which leaks nobody wants to hear of, in the format of LeakSanitizer's suppressions:
//
//   # a comment
//   leak:libfontconfig          any name that contains this
//   leak:^g_type_register*      ^ and $ anchor it; * stands for anything
//
// Source of the rules: compiler-rt/lib/sanitizer_common/sanitizer_common.cpp, TemplateMatch().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "snapshot/call_stack_tables.h"
#include "tracking/tracker_record.h"

namespace heapsnap {

class LeakSuppressions {
 public:
  // Throws Error{kBadInput} for a line that is no suppression of a leak; `name` is for that.
  static LeakSuppressions parse(std::string_view text, const std::string& name);

  bool is_empty() const { return patterns_.empty(); }
  // Of a function, a source file, a module or a type.
  bool matches(std::string_view name) const;

 private:
  std::vector<std::string> patterns_;
};

// Of each stack, as CallStacks::sites, whether a function, a source file or a module in it matches.
std::vector<bool> suppressed_stacks(const LeakSuppressions& suppressions,
                                    const RecordedStacks& recorded, const TrackerRecord& tracker);

}  // namespace heapsnap
