#include <fmt/format.h>
#include <sys/types.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/alteration.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "platform/linux/self/ending_signals.h"
#include "platform/linux/self/nap.h"
#include "platform/linux/self/watched_work.h"
#include "report/number_text.h"
#include "report/top_screen.h"
#include "tools/doctor/attach_obstacles.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/target_argument.h"
#include "tools/heapsnap/top_looks.h"
#include "tools/heapsnap/top_terminal.h"
#include "tools/heapsnap/watch_snapshots.h"

namespace heapsnap {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Keys and signals are noticed at least so often.
constexpr milliseconds kTick{100};
// Looking, and looking for names, take a part of the time at most.
constexpr int kRestAfterLook = 4;    // times as long as the look
constexpr int kRestAfterNames = 10;  // the same

constexpr const char* kTopDescription =
    "Shows a running process's memory on the terminal, once a second: what is resident, malloc's\n"
    "arenas, and of a tracked process (heapsnap inject) the call stacks that grow or churn most.\n"
    "A look does not stop the process: /proc and some of its memory are read from outside, in the\n"
    "time that the first line of the screen says. Only a snapshot (w) pauses it, for "
    "milliseconds.\n"
    "\n"
    "  q              quit\n"
    "  p, Space       pause, go on\n"
    "  s, F6; r       sort by the next column; reverse the order\n"
    "  /, F4          filter by name; Enter keeps the filter, Esc ends it\n"
    "  Tab, F5        arenas, or call stacks\n"
    "  Enter          all frames of the selected stack; Esc goes back\n"
    "  Up, Down, PgUp, PgDn, Home, End; k, j, g, G\n"
    "                 select a row\n"
    "  w              write a snapshot to the current directory\n"
    "  h, ?, F1       help, and what cannot be read and why\n"
    "\n"
    "  system, top     of an arena: what it has from the system, and its top chunk, which is free\n"
    "  live, blocks    of a call stack: what it allocated and is not freed\n"
    "  churn/s         bytes allocated plus freed; rates (/s) are of the interval before the look\n"
    "\n"
    "Where the output is no terminal, and with --count, it prints lines as heapsnap watch does.\n"
    "When the process has ended, top ends with exit code 3.";

// Which measure of stacks is the highest by the column that they are ordered by.
StackMeasure measure_of_column(size_t column) {
  constexpr StackMeasure kMeasures[] = {StackMeasure::kLive, StackMeasure::kLiveRate,
                                        StackMeasure::kChurn, StackMeasure::kAllocations,
                                        StackMeasure::kBlocks};
  return kMeasures[std::min(column, std::size(kMeasures) - 1)];
}

class Top {
 public:
  Top(int pid, milliseconds interval) : interval_(interval), looks_(pid) {
    model_.set_tracked(looks_.process().is_tracked());
  }

  // Until a key ends it. Throws when the process has ended.
  void run() {
    // Signals that end heapsnap wait until the terminal is as it was.
    alteration_.emplace();
    terminal_.emplace();
    unsigned continued = continuations();
    draw();
    while (true) {
      check_end();
      if (is_stop_asked()) stop();
      if (continuations() != continued) {
        continued = continuations();
        terminal_->resume();
      }
      if (Clock::now() >= next_look_) look();
      draw();
      if (looks_.lacks_names() && Clock::now() >= next_names_) find_names();
      const auto press = terminal_->wait(time_to_wait(), model_.is_typing());
      if (!press) continue;
      switch (model_.press(press->key, press->text)) {
        case TopAction::kQuit: return;
        case TopAction::kSnapshot: take_snapshot(); break;
        case TopAction::kNothing: break;
      }
    }
  }

 private:
  TopProcess described() {
    const WatchedProcess& process = looks_.process();
    return {process.pid(), process.comm(), process.has_malloc(), process.can_read_memory(),
            process.notes()};
  }

  void draw() {
    const size_t height = terminal_->height();
    model_.set_page(top_page(height));
    terminal_->show(top_screen(model_, described(), terminal_->width(), height));
  }

  void look() {
    const Clock::time_point begin = Clock::now();
    model_.take(looks_.look(measure_of_column(model_.stacks().sort())));
    if (looks_.take_replaced()) {
      model_.set_tracked(looks_.process().is_tracked());
      model_.say("it executed another program: " + looks_.process().comm());
    }
    const auto took = Clock::now() - begin;
    next_look_ = begin + std::max<Clock::duration>(interval_, (1 + kRestAfterLook) * took);
  }

  void find_names() {
    const Clock::time_point begin = Clock::now();
    try {
      looks_.name_stacks();
    } catch (const Error& error) {
      // It ended or executed another program: the next look says which.
      if (error.kind() != ErrorKind::kNoProcess) throw;
    }
    const Clock::time_point end = Clock::now();
    next_names_ = end + kRestAfterNames * (end - begin);
    next_look_ = std::min(next_look_, end);
  }

  milliseconds time_to_wait() const {
    const auto left = std::chrono::duration_cast<milliseconds>(next_look_ - Clock::now());
    return std::clamp(left + milliseconds(1), milliseconds(0), kTick);
  }

  // The shell gets its terminal while we are stopped.
  void stop() {
    terminal_->suspend();
    alteration_.reset();
    while (is_stop_asked()) nap(milliseconds(10));
    alteration_.emplace();
    terminal_->resume();
  }

  void take_snapshot() {
    model_.say("taking a snapshot");
    draw();
    std::vector<std::string> notes;
    try {
      looks_.process().require_memory();
      if (!snapshots_) snapshots_.emplace(std::string(), 0);
      if (const auto taken = snapshots_->take(looks_.process(), notes)) {
        return model_.say(fmt::format("{}: {}, paused {}", taken->path, size_text(taken->bytes),
                                      duration_text(taken->pause_ns)));
      }
    } catch (const Error& error) {
      if (looks_.process().has_ended()) throw;
      notes.push_back("no snapshot: " + explained(error).why());
    }
    model_.say(notes.empty() ? "no snapshot: the last attempt was just before" : notes.back());
  }

  milliseconds interval_;
  TopLooks looks_;
  TopModel model_;
  std::optional<WatchSnapshots> snapshots_;
  // The terminal is put back before the alteration ends.
  std::optional<Alteration> alteration_;
  std::optional<TopTerminal> terminal_;
  Clock::time_point next_look_;
  Clock::time_point next_names_;
};

// Runs `work` in this process, watched by a child (platform/linux/self/watched_work.h): so this is
// the process that the shell stops, continues and waits for. If a call blocks for good, the child
// puts the terminal back before it says so.
int do_watched_on_terminal(const std::function<int()>& work) {
  termios modes{};
  const bool has_modes = ::tcgetattr(STDIN_FILENO, &modes) == 0;
  const pid_t self = ::getpid();
  try {
    return do_watched_by_child(work);
  } catch (const Error&) {
    if (::getpid() != self && has_modes) {
      constexpr std::string_view kScreenFromBefore = "\033[?1049l\033[?25h\033[0m\n";
      ::tcsetattr(STDIN_FILENO, TCSANOW, &modes);
      fmt::print("{}", kScreenFromBefore);
      std::fflush(stdout);
    }
    throw;
  }
}

}  // namespace

int run_top(const std::vector<std::string>& words) {
  std::string what;
  std::string interval = "1s";
  uint64_t count = 0;
  OptionParser parser("top [options] PID|NAME|container:ID|pod:UID", kTopDescription);
  parser.text("interval", interval, "TIME", "how often to look (default: 1s)");
  parser.number("count", count, "N", "print N lines as heapsnap watch does, and end");
  parser.positional("PID", what);
  parser.example("heapsnap top 4242", "until q is pressed");
  parser.example("heapsnap top nginx --interval 250ms", "look four times a second");
  if (!parser.parse(words)) return kExitDone;
  if (what.empty()) fail_without_one_target("top");
  const milliseconds between(parse_duration_ms("--interval", interval));
  if (count != 0 || ::isatty(STDOUT_FILENO) == 0 || ::isatty(STDIN_FILENO) == 0) {
    std::vector<std::string> watched{"--interval", interval, what};
    if (count != 0) watched.insert(watched.end(), {"--count", std::to_string(count)});
    return do_watched([&] { return do_until_asked_to_end([&] { return run_watch(watched); }); });
  }
  return do_watched_on_terminal([&] {
    return do_until_asked_to_end([&] {
      Top(resolve_target(what), between).run();
      return kExitDone;
    });
  });
}

}  // namespace heapsnap
