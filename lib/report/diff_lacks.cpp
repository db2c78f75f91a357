#include "report/diff_lacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/free_name.h"
#include "report/diff_labels.h"
#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/shell_word.h"
#include "report/terminal_text.h"
#include "report/tracked_start.h"

namespace heapsnap {

namespace {

class LackPage {
 public:
  LackPage(Writer& out, const DiffReportInput& input, const Ink& ink, size_t width)
      : out_(out), input_(input), diff_(input.diff), ink_(ink), width_(width) {}

  void print() {
    bool is_first = true;
    for (const DiffLack lack : {DiffLack::kReferences, DiffLack::kStacks, DiffLack::kResidency,
                                DiffLack::kObjects, DiffLack::kContexts}) {
      std::vector<std::string> sums;
      const DiffSection* example = nullptr;
      for (const DiffSection& section : diff_.sections) {
        if (std::count(section.lacks.begin(), section.lacks.end(), lack) == 0) continue;
        sums.emplace_back(plural_of(section.by));
        example = &section;
      }
      if (example == nullptr) continue;
      if (is_first) out_.write("\n" + ink_.bold("Not compared") + "\n");
      is_first = false;
      print_lines(out_, "  ", lack_sentence(*example, lack, joined(sums)), width_);
      for (const std::string& command : lack_commands(*example, lack)) {
        out_.write("    " + command + "\n");
      }
    }
  }

 private:
  std::vector<size_t> lacking(const DiffSection& section, DiffLack lack) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < section.lacks.size(); ++i) {
      if (section.lacks[i] == lack) found.push_back(i);
    }
    return found;
  }

  std::string lack_sentence(const DiffSection& section, DiffLack lack,
                            const std::string& sums) const {
    constexpr size_t kMostNamed = 3;
    const std::vector<size_t> without = lacking(section, lack);
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(without.size(), kMostNamed); ++i) {
      names.push_back(printable(input_.paths[without[i]]));
    }
    if (without.size() > kMostNamed) {
      names.push_back(fmt::format("{} more", count_text(without.size() - kMostNamed)));
    }
    const DiffSnapshot& last = diff_.snapshots[without.back()];
    std::string why;
    switch (lack) {
      case DiffLack::kReferences:
        why = fmt::format(
            "{} without references between blocks ({}). {}:", without.size() == 1 ? "is" : "are",
            printable(last.why_no_references),
            last.method == FreezeMethod::kCore ? "From the same core" : "While the process runs");
        break;
      case DiffLack::kStacks:
        why = fmt::format("{} of a process that was not tracked{}",
                          without.size() == 1 ? "is" : "are", way_to_stacks(section));
        break;
      case DiffLack::kObjects:
        why = fmt::format("{} without the objects of a language runtime",
                          without.size() == 1 ? "is" : "are");
        break;
      case DiffLack::kContexts:
        why = fmt::format("{} without PostgreSQL's memory contexts",
                          without.size() == 1 ? "is" : "are");
        break;
      default:
        why = fmt::format("{} of a core, which does not say what was resident",
                          without.size() == 1 ? "is" : "are");
        break;
    }
    const bool is_partial = section.is_comparable();
    return fmt::format("{}{}: {} {}", sums, is_partial ? ", in some of the snapshots" : "",
                       joined(names), why);
  }

  // The process came to be tracked in between, and may still run.
  bool is_tracked_by_now(const DiffSection& stacks) const {
    return diff_.is_one_process && diff_.is_in_time && stacks.lacks.back() == DiffLack::kNone &&
           diff_.snapshots.back().method != FreezeMethod::kCore;
  }

  // After what was said: a sentence that the commands complete. Without any where those that are
  // tracked have just been compared.
  std::string way_to_stacks(const DiffSection& stacks) const {
    if (is_tracked_by_now(stacks)) {
      if (stacks.is_comparable()) return {};
      return ". It is tracked by now: to compare call stacks, take another snapshot later, and "
             "compare with that:";
    }
    if (input_.may_run && last_live(diff_) != nullptr) {
      return ". To compare call stacks, load the tracker before the process grows, and take both "
             "snapshots after that:";
    }
    const DiffSnapshot& last = diff_.snapshots[lacking(stacks, DiffLack::kStacks).back()];
    const DiffSnapshot* const live = last_live(diff_);
    const bool has_ended = live != nullptr && !input_.may_run;
    const std::string ended = has_ended ? ". " + not_running_text(live->process) : "";
    return ended + ". To compare call stacks, " + tracked_start_reason(last.process) + ":";
  }

  std::vector<std::string> commands_to_stacks(const DiffSection& stacks) const {
    if (is_tracked_by_now(stacks)) {
      if (stacks.is_comparable()) return {};
      const std::string later = free_file_name("later.hsnap");
      return {
          fmt::format("heapsnap attach {} -o {}", pid_word(diff_.snapshots.back().process), later),
          fmt::format("heapsnap diff {} {}", shell_word(input_.paths.back(), "SNAPSHOT"), later)};
    }
    const DiffSnapshot& last = diff_.snapshots[lacking(stacks, DiffLack::kStacks).back()];
    const DiffSnapshot* const live = last.method == FreezeMethod::kCore ? last_live(diff_) : &last;
    return {live == nullptr || !input_.may_run
                ? tracked_start_command(last.process)
                : fmt::format("heapsnap inject {}", pid_word(live->process))};
  }

  std::vector<std::string> lack_commands(const DiffSection& section, DiffLack lack) const {
    if (lack == DiffLack::kStacks) return commands_to_stacks(section);
    if (lack != DiffLack::kReferences) return {};
    const DiffSnapshot& last = diff_.snapshots[lacking(section, lack).back()];
    if (last.method == FreezeMethod::kCore) return {"heapsnap core --references yes CORE"};
    return {fmt::format("heapsnap attach --references yes {}", pid_word(last.process))};
  }

  Writer& out_;
  const DiffReportInput& input_;
  const SnapshotDiff& diff_;
  Ink ink_;
  size_t width_;
};

}  // namespace

const DiffSnapshot* last_live(const SnapshotDiff& diff) {
  const auto found =
      std::find_if(diff.snapshots.rbegin(), diff.snapshots.rend(),
                   [](const DiffSnapshot& each) { return each.method != FreezeMethod::kCore; });
  return found == diff.snapshots.rend() ? nullptr : &*found;
}

void print_diff_lacks(Writer& out, const DiffReportInput& input, const Ink& ink, size_t width) {
  LackPage(out, input, ink, width).print();
}

}  // namespace heapsnap
