#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "base/byte_size.h"
#include "base/error.h"
#include "platform/linux/freeze/running_process.h"
#include "platform/linux/proc/proc_fs.h"
#include "report/churn_log.h"
#include "report/number_text.h"
#include "report/terminal_text.h"
#include "tools/capture/capture.h"
#include "tools/capture/tracking_capture.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/output_name.h"
#include "tools/heapsnap/stack_names.h"
#include "tools/heapsnap/target_argument.h"
#include "tracking/tracking_reader.h"

namespace heapsnap {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kDescription =
    "Reads the counters of a tracked process at intervals, prints a line each time, and takes a\n"
    "snapshot, as attach does, when a threshold is crossed. Reading does not pause the process: a\n"
    "few kilobytes of its memory are read from outside.\n"
    "\n"
    "  text       a line each time: live bytes, growth, churn, allocations, resident memory\n"
    "  churnlog   pmem's log instead of snapshots: an entry per crossed threshold, with the bytes\n"
    "             and counts that each call stack allocated and freed";

struct Arguments {
  std::string what;
  std::string every, churn, growth, interval = "1s";
  std::string folder;
  std::string format = "text";
  uint64_t count = 0;
};

struct Thresholds {
  uint64_t every_ms = 0;  // 0: none, as the others
  uint64_t churn = 0;
  uint64_t growth = 0;

  bool is_any() const { return every_ms != 0 || churn != 0 || growth != 0; }
};

enum class Threshold { kNone, kTime, kChurn, kGrowth };

std::string signed_size_text(int64_t bytes) {
  const uint64_t size = bytes < 0 ? 0 - static_cast<uint64_t>(bytes) : static_cast<uint64_t>(bytes);
  return (bytes < 0 ? "-" : "+") + size_text(size);
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// What the counters said, and when.
struct Look {
  TrackerTotals totals;
  Clock::time_point at;
  int64_t at_ns = 0;  // the same on the clock of the wall
  uint64_t resident = 0;
};

class Watch {
 public:
  Watch(int pid, const Arguments& arguments, const Thresholds& thresholds)
      : pid_(pid),
        arguments_(arguments),
        thresholds_(thresholds),
        target_(open_running_process(pid)),
        out_(STDOUT_FILENO, "standard output"),
        log_(out_) {
    std::vector<std::string> notes;
    const auto directory = find_tracker(*target_, notes);
    if (!directory) {
      throw Error(ErrorKind::kUnsupported, "heapsnap watch " + arguments.what,
                  notes.empty() ? "the process is not tracked" : notes.front(),
                  "load the tracker: heapsnap inject " + std::to_string(pid));
    }
    directory_ = *directory;
  }

  // Until the process ends or `count` snapshots were taken.
  void run() {
    try {
      watch();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNoProcess || !ProcFs().live_tid(pid_)) throw;
      fail_without_tracker(error.kind(),
                           "it executed another program, which does not have the tracker");
    }
  }

 private:
  void watch() {
    const milliseconds interval(parse_duration_ms("--interval", arguments_.interval));
    last_ = mark_ = look();
    if (arguments_.format == "churnlog") {
      log_.begin(read_tracking(target_->memory(), directory_, 0).stacks);
    }
    print(last_, "");
    // A line is measured against the look at which a threshold was passed before it, so that the
    // growth beside a snapshot is the growth that called for it.
    while (!is_done()) {
      std::this_thread::sleep_until(last_.at + interval);
      const Look now = look();
      ++looks_;
      if (now.totals.churn() < mark_.totals.churn()) mark_ = now;  // recording started over
      // At one look it may be about to get new options.
      if (!now.totals.recording && !last_.totals.recording) {
        fail_without_tracker(ErrorKind::kUnsupported, "its tracker was disabled (heapsnap eject)");
      }
      const Threshold threshold = passed(now);
      print(now, threshold == Threshold::kNone ? std::string() : respond(now, threshold));
      if (threshold != Threshold::kNone) mark_ = now;
      last_ = now;
    }
  }

  Look look() {
    return {read_tracker_totals(target_->memory(), directory_), Clock::now(), now_ns(),
            ProcFs().resident_bytes(ProcFs().live_tid(pid_).value_or(pid_))};
  }

  [[noreturn]] void fail_without_tracker(ErrorKind kind, const char* why) const {
    throw Error(kind, "heapsnap watch " + arguments_.what, why,
                "load it again: heapsnap inject " + std::to_string(pid_));
  }

  bool is_done() const {
    return arguments_.count != 0 &&
           (thresholds_.is_any() ? responses_ : looks_) >= arguments_.count;
  }

  // Which threshold was passed since the last time that one was.
  Threshold passed(const Look& now) const {
    const uint64_t churn = now.totals.churn() - mark_.totals.churn();
    const int64_t growth = now.totals.growth() - mark_.totals.growth();
    if (thresholds_.churn != 0 && churn >= thresholds_.churn) return Threshold::kChurn;
    if (thresholds_.growth != 0 && growth > 0 &&
        static_cast<uint64_t>(growth) >= thresholds_.growth) {
      return Threshold::kGrowth;
    }
    if (thresholds_.every_ms != 0 && now.at - mark_.at >= milliseconds(thresholds_.every_ms)) {
      return Threshold::kTime;
    }
    return Threshold::kNone;
  }

  // The figure that passed it, in its unit.
  std::string passed_text(const Look& now, Threshold threshold) const {
    switch (threshold) {
      case Threshold::kChurn:
        return "churned " + size_text(now.totals.churn() - mark_.totals.churn());
      case Threshold::kGrowth:
        return "grew by " +
               size_text(static_cast<uint64_t>(now.totals.growth() - mark_.totals.growth()));
      case Threshold::kTime: {
        const std::chrono::nanoseconds passed = now.at - mark_.at;
        return duration_text(static_cast<uint64_t>(passed.count())) + " passed";
      }
      case Threshold::kNone: break;
    }
    return {};
  }

  // Gives what to say of it.
  std::string respond(const Look& now, Threshold threshold) {
    ++responses_;
    if (arguments_.format == "churnlog") {
      add_to_log(now);
      return {};
    }
    const std::string name = expand_output_name("%n.%p.%t", target_->process(), now_ns());
    CaptureOptions options;
    options.output.path = fmt::format("{}{}.{}.hsnap", folder(), name, responses_);
    const CaptureResult result = capture_process(pid_, FreezeOptions{}, options);
    return fmt::format("{}: {}, paused {}", passed_text(now, threshold),
                       printable(options.output.path),
                       duration_text(result.metadata.freeze.pause_ns));
  }

  std::string folder() const {
    if (arguments_.folder.empty() || arguments_.folder.ends_with('/')) return arguments_.folder;
    return arguments_.folder + "/";
  }

  void add_to_log(const Look& now) {
    Tracking tracking = read_tracking(target_->memory(), directory_, 0);
    RecordedStacks recorded;
    recorded.stacks = tracking.stacks;
    // Names are looked for only where they will be printed.
    std::vector<bool> is_printed(recorded.stacks.nodes.size());
    for (const uint32_t id : log_.busy_stacks(recorded.stacks)) {
      recorded.stacks.walk(recorded.stacks.sites[id].node,
                           [&](uint32_t node) { is_printed[node] = true; });
    }
    for (size_t node = 0; node < is_printed.size(); ++node) {
      if (!is_printed[node]) tracking.stacks.nodes[node].module = -1;
    }
    recorded.symbols = name_stacks(*target_, tracking, DebugFileSearch(), paths_of_process(pid_));
    log_.add(recorded, tracking.record, now.totals.churn() - mark_.totals.churn(),
             thresholds_.churn);
    out_.flush();
  }

  void print(const Look& now, const std::string& what) {
    if (arguments_.format == "churnlog") return;
    const double seconds = std::max(1e-3, std::chrono::duration<double>(now.at - last_.at).count());
    const auto per_second = [seconds](uint64_t after, uint64_t before) {
      const double number = after > before ? static_cast<double>(after - before) : 0;
      return static_cast<uint64_t>(number / seconds);
    };
    const int64_t live = now.totals.growth();
    out_.write(fmt::format("{}  live {}  growth {}  churn {}/s  allocations {}/s  rss {}{}{}\n",
                           time_text(now.at_ns, 1),
                           size_text(live > 0 ? static_cast<uint64_t>(live) : 0),
                           signed_size_text(live - mark_.totals.growth()),
                           size_text(per_second(now.totals.churn(), last_.totals.churn())),
                           count_text(per_second(now.totals.allocations, last_.totals.allocations)),
                           size_text(now.resident), what.empty() ? "" : "  ", what));
    out_.flush();
  }

  int pid_;
  const Arguments& arguments_;
  Thresholds thresholds_;
  std::unique_ptr<Target> target_;
  Address directory_;
  Writer out_;
  ChurnLog log_;
  Look last_;  // the look before
  Look mark_;  // the look at which a threshold was passed last
  uint64_t looks_ = 0;
  uint64_t responses_ = 0;
};

}  // namespace

int run_watch(const std::vector<std::string>& words) {
  Arguments arguments;
  OptionParser parser("watch [options] PID|NAME", kDescription);
  parser.text("every", arguments.every, "TIME", "take a snapshot at this interval: 10s, 5m, 1h");
  parser.text("churn", arguments.churn, "BYTES",
              "take a snapshot each time this much has been allocated and freed");
  parser.text("growth", arguments.growth, "BYTES",
              "take a snapshot each time live memory has grown by this much");
  parser.text("interval", arguments.interval, "TIME",
              "how often to read the counters (default: 1s)");
  parser.text("output,o", arguments.folder, "DIR",
              "directory for snapshots, NAME.PID.TIME.NUMBER.hsnap (default: the current one)");
  parser.number("count", arguments.count, "N",
                "stop after N snapshots, or N intervals if no threshold is given");
  parser.text("format", arguments.format, "LOG", "text (default) or churnlog");
  parser.positional("PID", arguments.what);
  parser.example("heapsnap watch 4242 --growth 100MiB -o /var/tmp",
                 "take a snapshot each time the heap in use has grown by 100 MiB");
  parser.example("heapsnap watch 4242 --churn 64MiB --format churnlog >> churn.log",
                 "log which code allocated and freed how much");
  if (!parser.parse(words)) return kExitDone;
  if (arguments.what.empty()) {
    throw Error(ErrorKind::kUsage, "watch", "it needs one process",
                "give a PID or a name: heapsnap watch 4242");
  }
  Thresholds thresholds;
  if (!arguments.every.empty()) thresholds.every_ms = parse_duration_ms("--every", arguments.every);
  if (!arguments.churn.empty()) thresholds.churn = parse_byte_size("--churn", arguments.churn);
  if (!arguments.growth.empty()) thresholds.growth = parse_byte_size("--growth", arguments.growth);
  parse_duration_ms("--interval", arguments.interval);
  if (arguments.format != "text" && arguments.format != "churnlog") {
    throw Error(ErrorKind::kUsage, "--format " + arguments.format, "not one of text, churnlog");
  }
  if (arguments.format == "churnlog" && !thresholds.is_any()) {
    throw Error(ErrorKind::kUsage, "--format churnlog",
                "it needs a threshold: --every, --churn or --growth", "for example: --churn 64MiB");
  }
  Watch(resolve_target(arguments.what), arguments, thresholds).run();
  return kExitDone;
}

}  // namespace heapsnap
