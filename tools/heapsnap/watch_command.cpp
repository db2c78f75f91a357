#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>

#include "analysis/stack_census.h"
#include "analysis/watch_trigger.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "report/churn_log.h"
#include "report/next_step_text.h"
#include "report/number_text.h"
#include "report/shell_word.h"
#include "report/terminal_text.h"
#include "report/watch_report.h"
#include "tools/capture/tracking_capture.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/report_output.h"
#include "tools/heapsnap/target_argument.h"
#include "tools/heapsnap/terminal.h"
#include "tools/heapsnap/watch_snapshots.h"
#include "tools/heapsnap/watched_process.h"
#include "tracking/tracking_reader.h"

namespace heapsnap {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kDying{1};

constexpr const char* kWatchDescription =
    "Looks at a running process at intervals, prints a line each time, and takes a snapshot, as\n"
    "attach does, when a threshold is crossed. Looking does not stop the process: /proc and some\n"
    "kilobytes of its memory are read from outside. Only a snapshot pauses it, for milliseconds.\n"
    "\n"
    "  rss, anon, file, shmem, swap   resident memory, its parts, and what is in swap, as the\n"
    "                                 kernel counts them\n"
    "  thr                            threads\n"
    "  malloc, arenas                 what glibc's malloc has from the system, free memory\n"
    "                                 included; - where that cannot be read or cannot be true.\n"
    "                                 The process changes it meanwhile: not of one instant\n"
    "  live, churn/s, allocs/s        of a tracked process (heapsnap inject): bytes in use, bytes\n"
    "                                 allocated plus freed, and allocations\n"
    "  growth                         since the last snapshot or the first look; with --growth\n"
    "\n"
    "Rates (/s) are of the interval before the line. Columns that do not fit the width are left\n"
    "out; -j prints everything. When the process has ended, watch ends with exit code 3.\n"
    "\n"
    "A snapshot is taken when any of the thresholds is crossed, and each counts again from there:\n"
    "  --rss-over   one snapshot when RSS exceeds SIZE, now or later, and the next one only after\n"
    "               it has fallen to 95 % of SIZE and exceeds SIZE again\n"
    "  --growth     one each time live memory, or RSS and swap of an untracked process, has grown\n"
    "               by so much since the last snapshot of any kind\n"
    "  --churn, --every   the same for bytes allocated plus freed, and for time\n"
    "A snapshot that cannot be written, for example since the disk is full, is reported and tried\n"
    "again after a second, then two, and so on up to a minute.";

struct WatchArguments {
  std::string what;
  std::string every, churn, growth, rss_over, interval = "1s";
  std::string folder;
  std::string format = "text";
  uint64_t count = 0;
  uint64_t keep = 0;
  ReportStyle style;

  bool is_churn_log() const { return format == "churnlog"; }
};

std::string why_text(const WatchCall& call, const WatchRules& rules) {
  switch (call.rule) {
    case WatchRule::kRssOver:
      return size_text(call.amount) + " resident, over " + size_text(*rules.rss_over);
    case WatchRule::kGrowth: return "grew by " + size_text(call.amount);
    case WatchRule::kChurn: return "churned " + size_text(call.amount);
    case WatchRule::kEvery: return duration_text(call.amount) + " passed";
  }
  return {};
}

uint64_t churned(const TrackerTotals& totals) {
  return churned_bytes(totals.freed_bytes,
                       static_cast<uint64_t>(std::max<int64_t>(totals.growth(), 0)));
}

// Digits of a second that tell one look from the next.
unsigned time_digits(milliseconds interval) {
  if (interval >= milliseconds(1000)) return 0;
  if (interval >= milliseconds(100)) return 1;
  return interval >= milliseconds(10) ? 2 : 3;
}

class Watch {
 public:
  Watch(int pid, const WatchArguments& arguments, const WatchRules& rules, milliseconds interval)
      : arguments_(arguments),
        rules_(rules),
        interval_(interval),
        process_(pid),
        out_(STDOUT_FILENO, "standard output"),
        log_(out_),
        ink_(text_style(arguments.style).color),
        table_(out_, ink_,
               {process_.is_tracked(), process_.has_malloc(), rules.growth.has_value(),
                time_digits(interval)}) {
    if (rules.churn && !process_.is_tracked()) process_.fail_untracked("--churn");
    if (arguments.is_churn_log() && !process_.is_tracked()) {
      process_.fail_untracked("--format churnlog");
    }
    if (rules.is_empty() || arguments.is_churn_log()) return;
    process_.require_memory();
    snapshots_.emplace(arguments.folder, arguments.keep);
  }

  // Until so many snapshots or looks as asked for. Throws when the process has ended.
  void run() {
    try {
      watch();
    } catch (const Error& error) {
      // A process loses its memory some time before it has ended.
      if (error.kind() == ErrorKind::kNoProcess && process_.ends_before(Clock::now() + kDying)) {
        print_what_next(true);
      }
      throw;
    }
    print_what_next(false);
  }

 private:
  void watch() {
    Clock::time_point at = Clock::now();
    WatchLook last = process_.look();
    trigger_.emplace(rules_, last);
    if (arguments_.is_churn_log()) {
      log_.begin(read_tracking(process_.target().memory(), process_.tracker(), 0).stacks);
    }
    print_head();
    react(last, std::nullopt);
    while (!is_done()) {
      if (process_.ends_before(at + interval_)) throw process_.ended();
      at = Clock::now();
      const WatchLook now = process_.look();
      ++looks_;
      // At one look it may be about to get new options.
      if (now.tracker && !now.tracker->recording && !last.tracker->recording) {
        throw Error(ErrorKind::kUnsupported, "heapsnap watch " + arguments_.what,
                    "its tracker was disabled (heapsnap eject)",
                    "load it again: heapsnap inject " + std::to_string(process_.pid()));
      }
      react(now, rates_between(last, now));
      churned_ = now.tracker ? churned(*now.tracker) : 0;
      grew_ += now.held_bytes() - last.held_bytes();
      last = now;
    }
  }

  void print_what_next(bool has_ended) {
    if (arguments_.style.json || arguments_.is_churn_log()) return;
    out_.write("\nWhat next\n");
    const std::string pid = std::to_string(process_.pid());
    if (!taken_.empty()) {
      print_step("To see what its memory was used for at the last snapshot:",
                 "heapsnap report " + shell_word(taken_.back(), "SNAPSHOT"));
    }
    if (taken_.size() > 1) {
      print_step("To see what grew since the first one that is kept:",
                 fmt::format("heapsnap history {} {}", shell_word(taken_.front(), "FIRST"),
                             shell_word(taken_.back(), "LAST")));
    }
    if (!taken_.empty()) return out_.flush();
    if (has_ended) {
      print_step("To have a snapshot of its end, start it again with:",
                 "heapsnap run --at-exit last.hsnap -- COMMAND");
    } else if (process_.is_tracked()) {
      if (churned_ == 0 || grew_ > 0) {
        print_step("To see which code allocated what is in use:", "heapsnap stacks " + pid);
      }
      if (churned_ != 0) {
        const NextStepPart step = churn_step(churned_, pid);
        print_step(step.text, step.commands.front());
      }
    } else {
      print_step("To see what its memory is used for:", "heapsnap attach " + pid);
    }
    out_.flush();
  }

  void print_step(const std::string& why, const std::string& command) {
    for (const std::string& line : wrapped(why, width() - 2)) out_.write("  " + line + "\n");
    out_.write("    " + command + "\n");
  }

  bool is_done() const {
    return arguments_.count != 0 && (rules_.is_empty() ? looks_ : responses_) >= arguments_.count;
  }

  void react(const WatchLook& now, const std::optional<WatchRates>& rates) {
    WatchRow row;
    row.look = now;
    row.rates = rates;
    if (process_.take_replaced()) {
      trigger_->start_over(now);
      row.rates.reset();
      row.notes = {"it executed another program: " + process_.comm()};
    }
    const auto call = trigger_->judge(now);
    // The growth beside a snapshot is the growth that called for it.
    row.growth = trigger_->growth(now);
    if (call && arguments_.is_churn_log()) {
      add_to_log(now);
      answer(now);
    } else if (call) {
      row.snapshot = snapshots_->take(process_, row.notes);
      if (row.snapshot) {
        row.snapshot->why = why_text(*call, rules_);
        remember(row.snapshot->path);
        answer(now);
      }
    }
    print(row);
  }

  void remember(const std::string& path) {
    taken_.push_back(path);
    if (arguments_.keep != 0 && taken_.size() > arguments_.keep) taken_.pop_front();
    // Of many the first and the last are enough.
    if (arguments_.keep == 0 && taken_.size() > 2) taken_.erase(taken_.begin() + 1);
  }

  void answer(const WatchLook& now) {
    trigger_->answer(now);
    ++responses_;
  }

  void print_head() {
    if (arguments_.style.json || arguments_.is_churn_log()) return;
    out_.write(fmt::format("Process {}: {} (K, M, G: KiB, MiB, GiB)\n", process_.pid(),
                           printable(process_.comm())));
    std::vector<std::string> notes = process_.notes();
    if (arguments_.count == 0) {
      notes.push_back(fmt::format("Ctrl-C ends this; heapsnap {} {} then shows {}",
                                  process_.is_tracked() ? "stacks" : "attach", process_.pid(),
                                  process_.is_tracked() ? "which code allocated what is in use"
                                                        : "what its memory is used for"));
    }
    for (const std::string& note : notes) {
      for (const std::string& line : wrapped(printable(note), width() - 2)) {
        out_.write("  " + line + "\n");
      }
    }
  }

  void print(const WatchRow& row) {
    if (arguments_.is_churn_log()) return;
    if (arguments_.style.json) {
      print_watch_json(out_, process_.pid(), process_.comm(), row);
    } else {
      table_.fit(width(), terminal_height(STDOUT_FILENO));
      table_.add(row);
    }
    out_.flush();
  }

  unsigned width() const { return output_width(STDOUT_FILENO, arguments_.style.width); }

  void add_to_log(const WatchLook& now) {
    Target& target = process_.target();
    Tracking tracking = read_tracking(target.memory(), process_.tracker(), 0);
    RecordedStacks recorded;
    recorded.stacks = tracking.stacks;
    // Names are looked for only where they will be printed.
    recorded.symbols =
        names_of_stacks(target, process_.pid(), tracking, log_.busy_stacks(recorded.stacks));
    log_.add(recorded, tracking.record, trigger_->churn(now), rules_.churn.value_or(0));
    out_.flush();
  }

  const WatchArguments& arguments_;
  WatchRules rules_;
  milliseconds interval_;
  WatchedProcess process_;
  Writer out_;
  ChurnLog log_;
  Ink ink_;
  WatchTable table_;
  std::optional<WatchSnapshots> snapshots_;  // when thresholds call for some
  std::optional<WatchTrigger> trigger_;      // from the first look on
  uint64_t looks_ = 0;                       // after the first
  uint64_t responses_ = 0;
  uint64_t churned_ = 0;           // at the last look: churned_bytes()
  int64_t grew_ = 0;               // since the first look, of what its growth is measured by
  std::deque<std::string> taken_;  // paths of snapshots that are kept, the newest last
};

void require(bool is_given, const char* option, const char* why, const char* remedy) {
  if (!is_given) throw Error(ErrorKind::kUsage, option, why, remedy);
}

// Throws Error{kUsage} for what does not go together.
void check(const WatchArguments& arguments, const WatchRules& rules) {
  check_choice("--format", arguments.format, {"text", "churnlog"});
  text_style(arguments.style);
  require(!arguments.is_churn_log() || !rules.is_empty(), "--format churnlog",
          "it needs a threshold: --every, --churn or --growth", "for example: --churn 64MiB");
  require(!arguments.is_churn_log() || !arguments.style.json, "--json",
          "churnlog is a format of its own", "leave out one of the two");
  require(arguments.keep == 0 || (!rules.is_empty() && !arguments.is_churn_log()), "--keep",
          "no snapshots are taken without a threshold", "for example: --growth 100MiB");
}

}  // namespace

int run_watch(const std::vector<std::string>& words) {
  WatchArguments arguments;
  OptionParser parser("watch [options] PID|NAME|container:ID|pod:UID", kWatchDescription);
  parser.text("interval", arguments.interval, "TIME", "how often to look (default: 1s)");
  parser.text("rss-over", arguments.rss_over, "SIZE",
              "take a snapshot when resident memory exceeds this");
  parser.text("growth", arguments.growth, "BYTES",
              "take a snapshot each time the memory has grown by this much");
  parser.text("churn", arguments.churn, "BYTES",
              "take a snapshot each time this much has been allocated plus freed");
  parser.text("every", arguments.every, "TIME", "take a snapshot at this interval: 10s, 5m, 1h");
  parser.text("output,o", arguments.folder, "DIR",
              "directory for snapshots, NAME.PID.TIME.NUMBER.hsnap (default: the current one)");
  parser.number("keep", arguments.keep, "N",
                "keep the newest N snapshots of this run and remove its older ones; other files, "
                "also those of earlier runs, are never removed (default: 0, keep all)");
  parser.number("count", arguments.count, "N",
                "stop after N snapshots, or N intervals if no threshold is given");
  parser.text("format", arguments.format, "LOG",
              "text (default), or churnlog: pmem's log instead of snapshots, with the bytes and "
              "counts that each call stack allocated and freed");
  add_report_options(parser, arguments.style, "print one line of JSON per look");
  parser.positional("PID", arguments.what);
  parser.example("heapsnap watch 4242", "one line per second, until Ctrl-C");
  parser.example("heapsnap watch nginx --rss-over 500MiB -o /var/tmp",
                 "a snapshot as soon as it is that large");
  parser.example("heapsnap watch 4242 --growth 100MiB --keep 5 -o /var/tmp",
                 "a snapshot each time it has grown by 100 MiB; keep the newest five");
  parser.example("heapsnap watch 4242 -j --interval 10s >> memory.ndjson", "for a program to read");
  parser.example("heapsnap watch 4242 --churn 64MiB --format churnlog >> churn.log",
                 "log which code allocated and freed how much, of a tracked process");
  if (!parser.parse(words)) return kExitDone;
  if (arguments.what.empty()) fail_without_one_target("watch");
  WatchRules rules;
  const auto bytes = [](const char* option, const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(parse_byte_size(option, text));
  };
  rules.rss_over = bytes("--rss-over", arguments.rss_over);
  rules.growth = bytes("--growth", arguments.growth);
  rules.churn = bytes("--churn", arguments.churn);
  if (!arguments.every.empty()) rules.every_ms = parse_duration_ms("--every", arguments.every);
  const milliseconds interval(parse_duration_ms("--interval", arguments.interval));
  check(arguments, rules);
  Watch(resolve_target(arguments.what), arguments, rules, interval).run();
  return kExitDone;
}

}  // namespace heapsnap
