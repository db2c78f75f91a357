#include <chrono>
#include <random>
#include <thread>

#include "base/error.h"
#include "platform/linux/self/bounded_work.h"
#include "tools/collect/collect_pass.h"
#include "tools/doctor/attach_obstacles.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/config_option.h"
#include "tools/heapsnap/option_parser.h"

namespace heapsnap {

namespace {

constexpr const char* kCollectDescription =
    "Takes a snapshot of each configured target that is due, as attach does, into the store:\n"
    "STORE/HOST/NAME/20260131T235959Z-PID.hsnap. Makes one pass, to be run by cron or a timer,\n"
    "and prints one line per target. The configuration says when a target is due; no snapshot is\n"
    "taken while there is too little memory or disk space, or too much pressure. Only one collect\n"
    "runs on a host at a time.\n"
    "\n"
    "The configuration is TOML:\n"
    "\n"
    "    store = \"/var/lib/heapsnap\"\n"
    "    jitter = \"30s\"  # waits a random time, up to this\n"
    "    keep = { last = 24, max_bytes = \"5GiB\" }  # for prune\n"
    "    [[target]]\n"
    "    name = \"web\"\n"
    "    process = \"nginx\"  # or unit, pid_file, cgroup,\n"
    "                       # container, pod\n"
    "    when = { rss_over = \"500MiB\", every = \"10m\" }\n"
    "    timeout = \"60s\"\n"
    "\n"
    "A target is the oldest process that matches, or with all = true every process that matches.\n"
    "docs/collecting.md explains every key.\n"
    "\n"
    "Exit code: the highest of all targets: 0 collected or not due, 1 skipped, 3 no such process,\n"
    "4 not permitted, 5 not supported or past its timeout, 7 not written. Without looking at any:\n"
    "2 the configuration is wrong, 6 it cannot be read, 7 the store cannot be written.";

void wait_at_random(std::chrono::milliseconds most) {
  if (most.count() <= 0) return;
  std::random_device source;
  std::uniform_int_distribution<int64_t> wait(0, most.count());
  std::this_thread::sleep_for(std::chrono::milliseconds(wait(source)));
}

// That no target could be looked at.
CollectLine line_of(const Error& error) {
  CollectLine line;
  line.result = CollectResult::kFailed;
  line.exit_code = error.exit_code();
  line.why = error.subject() + ": " + error.why();
  line.remedy = error.remedy();
  return line;
}

}  // namespace

int run_collect(const std::vector<std::string>& arguments) {
  std::string path = kDefaultConfigPath;
  bool check = false;
  bool json = false;
  bool at_once = false;
  OptionParser parser("collect [options]", kCollectDescription);
  add_config_option(parser, path);
  parser.flag(
      "check", check,
      "only check the configuration; for each target, say which processes match now, whether "
      "it is due and what prevents attaching");
  parser.flag("at-once", at_once, "do not wait for jitter");
  parser.flag("json,j", json, "print one line of JSON per target");
  parser.example("heapsnap collect --check", "what would be collected, and why the rest would not");
  parser.example("heapsnap collect --at-once", "one pass now");
  parser.example("* * * * * root heapsnap collect >> /var/log/heapsnap.log",
                 "in /etc/cron.d: one pass a minute; `when` decides which take snapshots");
  if (!parser.parse(arguments)) return kExitDone;
  const bool to_journal = is_journal_output();
  CollectLog log(json, to_journal);
  int signal = 0;
  try {
    const CollectConfig config = read_collect_config(path);
    require_targets(config);
    CollectPass pass(config, log);
    if (check) {
      pass.check();
    } else {
      if (!at_once) wait_at_random(config.jitter);
      signal = pass.collect();
    }
  } catch (const Error& error) {
    // Who reads lines gets this as one, too.
    if (!json && !to_journal) throw;
    log.add(line_of(explained(error)));
  }
  if (signal != 0) end_by_signal(signal);
  log.check();
  return log.worst();
}

}  // namespace heapsnap
