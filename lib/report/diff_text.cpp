// A comparison as text: one page, whose tables have the same columns, and whose next step depends
// on all that is above it. What its rows are called is in diff_labels.h, what was not compared in
// diff_lacks.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/free_name.h"
#include "report/diff_labels.h"
#include "report/diff_lacks.h"
#include "report/diff_report.h"
#include "report/growth_text.h"
#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/shell_word.h"
#include "report/sparkline.h"
#include "report/stack_frames.h"
#include "report/terminal_text.h"
#include "report/text_table.h"

namespace heapsnap {

namespace {

constexpr size_t kBuildDigits = 8;
constexpr size_t kTrendWidth = 10;
constexpr size_t kLeastName = 20;
// With a limit, below a row is listed what an eighth of its change, or more, is of.
constexpr double kShares = 8;
constexpr const char* kNoRows = "nothing changed";

std::string short_value(const std::optional<Tally>& value) {
  return value ? short_size_text(value->bytes) : "-";
}

std::string count_change(int64_t change) {
  const auto size = static_cast<uint64_t>(change < 0 ? -change : change);
  return (change == 0 ? "" : change < 0 ? "-" : "+") + count_text(size);
}

std::string build_text(const Process& process) {
  return process.build_id.empty() ? "an unknown build"
                                  : "build " + process.build_id.substr(0, kBuildDigits);
}

// A row that is shown, and how far in.
struct ShownRow {
  uint32_t row;
  size_t depth;
};

class DiffPage {
 public:
  DiffPage(Writer& out, const DiffReportInput& input, size_t limit, const TextStyle& style)
      : out_(out),
        input_(input),
        diff_(input.diff),
        limit_(limit),
        ink_(style.color),
        width_(std::max(style.width, 60U)),
        has_steps_(diff_.snapshots.size() > 2),
        unit_(rate_unit(seconds())) {}

  void print() {
    print_head();
    for (const DiffSection& section : diff_.sections) {
      if (section.is_comparable()) print_section(section);
    }
    print_diff_lacks(out_, input_, ink_, width_);
    print_bound();
    print_next_command();
  }

 private:
  double seconds() const {
    const auto first = static_cast<double>(diff_.snapshots.front().process.taken_at_ns);
    const auto last = static_cast<double>(diff_.snapshots.back().process.taken_at_ns);
    return std::abs(last - first) / 1e9;
  }

  void field(const std::string& name, const std::string& text) {
    print_lines(out_, fmt::format("  {:<10}", name), text, width_);
  }

  // What no root leads to, where either snapshot has any.
  void unowned_field(const char* name, const std::optional<Tally>& before,
                     const std::optional<Tally>& after) {
    if (!before || !after || (before->bytes == 0 && after->bytes == 0)) return;
    const double change = static_cast<double>(after->bytes) - static_cast<double>(before->bytes);
    field(name, fmt::format("{}, {}", size_text(after->bytes), change_text(change)));
  }

  // "/opt/server (build 1a2b3c4d), process 41 at 2026-11-23T09:00:00.1Z"
  std::string process_text(const Process& process) const {
    const Process& first = diff_.snapshots.front().process;
    std::string text = fmt::format("{} ({}), process {}", printable(process.exe),
                                   build_text(process), process.pid);
    if (!process.hostname.empty() && process.hostname != first.hostname)
      text += " on " + printable(process.hostname);
    return text + " at " + time_text(process.taken_at_ns, 1);
  }

  std::string headline() const {
    const Process& first = diff_.snapshots.front().process;
    if (diff_.is_one_process) {
      return fmt::format("Process {}: {}", first.pid, printable(first.comm));
    }
    constexpr size_t kMostNamed = 3;
    std::vector<std::string> processes;
    std::set<std::string> known;
    std::set<std::string> programs;
    for (const DiffSnapshot& snapshot : diff_.snapshots) {
      const Process& process = snapshot.process;
      programs.insert(process.comm);
      const std::string identity =
          fmt::format("{} {} {} {} {}", process.boot_id, process.pid, process.start_time_ticks,
                      process.build_id, process.exe);
      if (known.insert(identity).second) processes.push_back(process_text(process));
    }
    if (processes.size() > kMostNamed) {
      const size_t more = processes.size() - kMostNamed;
      processes.erase(processes.begin() + kMostNamed - 1, processes.end() - 1);
      processes.insert(processes.end() - 1, fmt::format("{} more", count_text(more)));
    }
    const char* what = "Different processes";
    if (!diff_.is_one_build) what = programs.size() > 1 ? "Different programs" : "Different builds";
    return fmt::format("{}: {}", what, joined(processes));
  }

  void print_head() {
    for (const std::string& line : wrapped(headline(), width_)) out_.write(ink_.bold(line) + "\n");
    const Process& first = diff_.snapshots.front().process;
    const Process& last = diff_.snapshots.back().process;
    field("from",
          fmt::format("{}, {}", printable(input_.paths.front()), time_text(first.taken_at_ns, 1)));
    std::string to = printable(input_.paths.back());
    to += diff_.is_in_time ? ", " + long_span_text(seconds()) + " later"
                           : ", " + time_text(last.taken_at_ns, 1);
    if (has_steps_) {
      to += fmt::format(", by way of {} more", count_text(diff_.snapshots.size() - 2));
    }
    field("to", to);
    if (!diff_.is_in_time) {
      field("mind", first.taken_at_ns == last.taken_at_ns
                        ? "both are of the same moment: one is the other, or a copy of it"
                        : "the snapshots were not taken in this order, so that there are no rates "
                          "over time");
    }
    field("in use", total_text(diff_.in_use, true));
    field("resident", total_text(diff_.resident, false));
    const DiffSnapshot& old = diff_.snapshots.front();
    const DiffSnapshot& now = diff_.snapshots.back();
    unowned_field("leaked", old.leaked, now.leaked);
    unowned_field("garbage", old.garbage, now.garbage);
    if (has_steps_) {
      field("order", "what never shrank and grew in most steps comes first, by its slope");
    }
  }

  static std::string total_text(const DiffRow& row, bool with_blocks) {
    const auto& first = row.values.front();
    const auto& last = row.values.back();
    if (!first || !last) return last ? size_text(last->bytes) : "not known";
    std::string text = size_text(last->bytes);
    if (with_blocks) text += " in " + count_text(last->count, "block", "blocks");
    text += ", " + change_text(row.growth);
    if (first->bytes != 0) {
      text += fmt::format(" ({}{})", row.growth < 0 ? "-" : "",
                          percent_text(std::abs(row.growth) / static_cast<double>(first->bytes)));
    }
    if (with_blocks && row.more_blocks != 0) {
      text += fmt::format(" and {} blocks", count_change(row.more_blocks));
    }
    return text;
  }

  // The rows to show, each with what most of its change is of.
  std::vector<ShownRow> shown_rows(const DiffSection& section) const {
    std::vector<ShownRow> shown;
    const size_t most =
        limit_ == 0 ? section.ranked.size() : std::min(limit_, section.ranked.size());
    for (size_t i = 0; i < most; ++i) {
      const uint32_t at = section.ranked[i];
      shown.push_back({at, 0});
      add_held(section, at, 1, section.rows[at].growth / kShares, shown);
    }
    return shown;
  }

  // What row `at` holds, what changed most in its direction first.
  static std::vector<uint32_t> held_in_order(const DiffSection& section, uint32_t at) {
    std::vector<uint32_t> held = section.rows[at].held;
    const double sign = section.rows[at].growth < 0 ? -1 : 1;
    std::stable_sort(held.begin(), held.end(), [&](uint32_t a, uint32_t b) {
      return sign * section.rows[a].growth > sign * section.rows[b].growth;
    });
    return held;
  }

  // What row `at` holds that changed by `least` or more, in the same direction, the most first. If
  // one grew by more than all of it together, what shrank most follows. Without a limit, all.
  void add_held(const DiffSection& section, uint32_t at, size_t depth, double least,
                std::vector<ShownRow>& shown) const {
    constexpr size_t kDeepest = 3;
    constexpr size_t kMostBesideEachOther = 3;
    const bool is_all = limit_ == 0;
    if (!is_all && (depth > kDeepest || least == 0)) return;
    const std::vector<uint32_t> held = held_in_order(section, at);
    const auto share = [&](uint32_t each) { return section.rows[each].growth / least; };
    for (size_t i = 0; i < held.size(); ++i) {
      if (!is_all && (i == kMostBesideEachOther || share(held[i]) < 1)) break;
      shown.push_back({held[i], depth});
      add_held(section, held[i], depth + 1, least, shown);
    }
    if (is_all || held.empty()) return;
    const bool is_explained = share(held.front()) <= section.rows[at].growth / least;
    if (!is_explained && share(held.back()) < 0) shown.push_back({held.back(), depth});
  }

  static size_t rows_below(const DiffSection& section, uint32_t at) {
    const std::vector<uint32_t>& held = section.rows[at].held;
    size_t count = held.size();
    for (const uint32_t each : held) count += rows_below(section, each);
    return count;
  }

  void print_left_out(const DiffSection& section, const std::vector<ShownRow>& shown) {
    const std::string command = fmt::format("--by {} --limit 0", to_string(section.by));
    size_t listed = 0;
    size_t all = 0;
    for (const ShownRow& each : shown) {
      if (each.depth == 0) all += 1 + rows_below(section, each.row);
      listed += each.depth == 0 ? 1 : 0;
    }
    if (listed < section.ranked.size()) {
      out_.write(fmt::format("  {} more changed: {}\n", count_text(section.ranked.size() - listed),
                             command));
    }
    if (shown.size() < all) {
      print_lines(out_, "  ",
                  fmt::format("{} below these: {}",
                              count_text(all - shown.size(), "more row", "more rows"), command),
                  width_);
    }
    const Tally& left_out = section.left_out.back();
    if (left_out.count != 0) {
      print_lines(
          out_, "  ",
          fmt::format("not told apart: {} smaller ones, {} in {}", count_text(left_out.count),
                      size_text(left_out.bytes), printable(input_.paths.back())),
          width_);
    }
  }

  void print_section(const DiffSection& section) {
    out_.write("\n" + ink_.bold(title_of(section.by)) + "\n");
    const std::vector<ShownRow> shown = shown_rows(section);
    if (shown.empty()) {
      out_.write(fmt::format("  {}\n", kNoRows));
      return;
    }
    const bool is_fitted = diff_.is_in_time && section.steps > 1;
    TextTable table;
    if (section.by == DiffBy::kAccount) {
      table.add_column("what", TextTable::Align::kLeft);
    } else {
      table.add_column("what", kLeastName,
                       [by = section.by](const std::vector<std::string>& cells, size_t width) {
                         return fitted_labels(by, cells, width);
                       });
    }
    if (has_steps_) table.add_column("trend", TextTable::Align::kLeft);
    for (const char* title : {"first", "last", "growth"}) {
      table.add_column(title, TextTable::Align::kRight);
    }
    if (is_fitted) table.add_column(unit_.column, TextTable::Align::kRight);
    const bool has_blocks = section.by != DiffBy::kArena && section.by != DiffBy::kAccount;
    if (has_steps_) {
      table.add_column("grew", TextTable::Align::kRight);
    } else if (has_blocks) {
      table.add_column(counted_in(section.by), TextTable::Align::kRight);
    }
    for (size_t i = 0; i < shown.size(); ++i) {
      const DiffRow& row = section.rows[shown[i].row];
      std::vector<std::string> cells{row_label(section.by, row, shown[i].depth)};
      if (has_steps_) cells.push_back(trend_of(row));
      cells.push_back(short_value(row.values.front()));
      cells.push_back(short_value(row.values.back()));
      cells.push_back(short_change_text(row.growth));
      if (is_fitted) {
        cells.push_back(row.slope ? short_change_text(row.slope->per_second * unit_.seconds) : "-");
      }
      if (has_steps_) {
        cells.push_back(fmt::format("{} of {}", row.steps_up, section.steps));
      } else if (has_blocks) {
        cells.push_back(count_change(row.more_blocks));
      }
      table.add_row(std::move(cells));
    }
    table.print(out_, ink_, width_);
    print_left_out(section, shown);
  }

  static std::string trend_of(const DiffRow& row) {
    std::vector<std::optional<double>> values;
    for (const auto& value : row.values) {
      values.emplace_back();
      if (value) values.back() = static_cast<double>(value->bytes);
    }
    const std::vector<size_t> runs(values.size());
    return sparkline(values, runs, kTrendWidth);
  }

  void print_bound() {
    if (!input_.bound) return;
    const DiffRow& row = input_.measured();
    out_.write("\n");
    const std::string what =
        input_.by ? std::string(plural_of(*input_.by)) + ", all together" : "memory " + row.name;
    print_lines(
        out_, "  ",
        fmt::format("{}: {}, which is {} the bound of {}", what, change_text(row.growth),
                    input_.is_past_bound() ? "past" : "within", printable(input_.bound->text)),
        width_);
  }

  // Half of what grew, at least, is in memory contexts.
  bool contexts_grew_most() const {
    const DiffSection* const contexts = diff_.section(DiffBy::kContext);
    return contexts != nullptr && contexts->is_comparable() && contexts->total.growth > 0 &&
           2 * contexts->total.growth >= diff_.in_use.growth;
  }

  bool has_changed() const {
    return std::any_of(diff_.sections.begin(), diff_.sections.end(),
                       [](const DiffSection& section) { return !section.ranked.empty(); });
  }

  bool is_any_comparable() const {
    return std::any_of(diff_.sections.begin(), diff_.sections.end(),
                       [](const DiffSection& section) { return section.is_comparable(); });
  }

  bool has_changed(DiffBy by) const {
    const DiffSection* const section = diff_.section(by);
    return section != nullptr && section->is_comparable() && !section->ranked.empty();
  }

  void print_more_steps(const std::string& newest) {
    const auto& leaked = diff_.snapshots.back().leaked;
    if (has_changed(DiffBy::kLeak) && leaked && leaked->count != 0) {
      print_step(out_,
                 "To see what is leaked, and what only that leads to:", "heapsnap leaks " + newest,
                 width_);
    }
    if (has_changed(DiffBy::kClass)) {
      print_step(out_, "To see all objects of the language runtime, by class:",
                 "heapsnap objects " + newest, width_);
    }
    if (has_changed(DiffBy::kType)) {
      print_step(out_, "To see all blocks added up by type, also those that did not change:",
                 "heapsnap types " + newest, width_);
    }
  }

  // In number, in size or by any sum that is compared; or it is not known.
  bool have_blocks_changed() const {
    const bool is_known = diff_.in_use.values.front() && diff_.in_use.values.back();
    return !is_known || diff_.in_use.growth != 0 || diff_.in_use.more_blocks != 0 ||
           std::any_of(diff_.sections.begin(), diff_.sections.end(),
                       [](const DiffSection& section) {
                         return section.by != DiffBy::kArena && section.by != DiffBy::kAccount &&
                                !section.ranked.empty();
                       });
  }

  // Beside what did not change.
  std::string resident_change() const {
    constexpr double kMuch = 1 << 20;
    const auto& row = diff_.resident;
    if (!row.values.front() || !row.values.back() || std::abs(row.growth) < kMuch) return {};
    return fmt::format(", and {} {} resident",
                       size_text(static_cast<uint64_t>(std::abs(row.growth))),
                       row.growth < 0 ? "less" : "more");
  }

  // `take`: the command for the snapshot that is to come; `compared`: the others.
  void print_later(const std::string& why, const std::string& take, const std::string& compared) {
    const std::string later = free_file_name("later.hsnap");
    print_next(out_, why, take + " -o " + later, ink_, width_);
    out_.write(fmt::format("    heapsnap diff {} {}\n", compared, later));
  }

  void print_next_comparison(const std::string& what) {
    const DiffSnapshot* const live = last_live(diff_);
    const std::string references =
        diff_.snapshots.back().why_no_references.empty() ? " --references yes" : "";
    print_later(what + ". To compare once the process has grown:",
                live == nullptr
                    ? fmt::format("heapsnap core{} CORE", references)
                    : fmt::format("heapsnap attach{} {}", references, pid_word(live->process)),
                shell_word(input_.paths.back(), "SNAPSHOT"));
  }

  // By so little that a process which allocates and frees all the time may change as much.
  bool has_hardly_grown() const {
    constexpr double kShare = 0.01;
    constexpr double kBytes = 1 << 20;
    const auto is_little = [](const DiffRow& row) {
      return row.values.front() && row.values.back() && row.growth < kBytes &&
             row.growth < kShare * static_cast<double>(row.values.front()->bytes);
    };
    return diff_.is_one_process && diff_.is_in_time && !diff_.in_use.only_grows &&
           is_little(diff_.in_use) && is_little(diff_.resident);
  }

  // Growth that goes on differs from churn by one more snapshot.
  void print_another_snapshot(const DiffSnapshot& live) {
    const bool has_grown = diff_.in_use.growth > 0 || diff_.resident.growth > 0;
    const std::string what =
        has_grown ? "The process has hardly grown: by less than 1 % and 1 MiB, in use and resident"
                  : "The process has not grown, neither in use nor resident";
    print_later(what +
                    ". To tell slow growth from churn, take one more snapshot later, and see what "
                    "grew in each step:",
                fmt::format("heapsnap attach {}", pid_word(live.process)), input_.snapshot_words());
  }

  void print_next_command() {
    if (!has_changed()) {
      if (input_.by && !is_any_comparable()) {
        print_next(out_,
                   "Nothing was compared, for the reason above. To compare what they do tell:",
                   "heapsnap diff " + input_.snapshot_words(), ink_, width_);
      } else {
        print_next_comparison("Nothing that is compared has changed");
      }
      return;
    }
    const std::string newest = shell_word(input_.paths.back(), "SNAPSHOT");
    if (!have_blocks_changed()) {
      print_next_comparison("The program has as much in use as before" + resident_change());
      print_step(out_, "To see what takes memory besides, such as what is free in malloc's heaps:",
                 "heapsnap report " + newest, width_);
      return;
    }
    const DiffSnapshot& first = diff_.snapshots.front();
    const DiffSnapshot& last = diff_.snapshots.back();
    if (last.leaked && first.leaked && last.leaked->bytes > first.leaked->bytes) {
      const uint64_t more = last.leaked->bytes - first.leaked->bytes;
      if (2 * static_cast<double>(more) > diff_.in_use.growth) {
        print_next(out_, "To see what is leaked, and what only that leads to:",
                   "heapsnap leaks " + newest, ink_, width_);
        return;
      }
    }
    const DiffSnapshot* const live = last_live(diff_);
    if (live != nullptr && has_hardly_grown()) {
      print_another_snapshot(*live);
      if (last.why_no_references.empty()) {
        print_step(out_, "To see what holds the blocks in use:", "heapsnap owners " + newest,
                   width_);
      }
      return;
    }
    if (contexts_grew_most()) {
      print_next(out_, "To see all memory contexts, with what is free in them:",
                 "heapsnap objects " + newest, ink_, width_);
      return;
    }
    if (last.why_no_references.empty()) {
      print_next(out_,
                 has_changed(DiffBy::kOwner)
                     ? "To see what the largest of them hold, by which blocks, and what leads to "
                       "one:"
                     : "To see what holds the blocks in use, also what did not change:",
                 "heapsnap owners " + newest, ink_, width_);
      print_more_steps(newest);
      return;
    }
    const bool is_core = last.method == FreezeMethod::kCore;
    print_next(out_, "To see who holds what grew, take the next snapshots with references:",
               is_core ? "heapsnap core --references yes CORE"
                       : fmt::format("heapsnap attach --references yes {}", pid_word(last.process)),
               ink_, width_);
  }

  Writer& out_;
  const DiffReportInput& input_;
  const SnapshotDiff& diff_;
  size_t limit_;
  Ink ink_;
  size_t width_;
  bool has_steps_;
  RateUnit unit_;
};

}  // namespace

void print_diff(Writer& out, const DiffReportInput& input, size_t limit, const TextStyle& style) {
  DiffPage(out, input, limit, style).print();
}

}  // namespace heapsnap
