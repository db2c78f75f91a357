#include "tools/collect/collect_pass.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/proc_fs.h"
#include "report/number_text.h"
#include "store/store_folder.h"
#include "tools/collect/bounded_capture.h"
#include "tools/collect/own_host.h"
#include "tools/collect/skip_reason.h"
#include "tools/doctor/attach_obstacles.h"

namespace heapsnap {

namespace {

constexpr int kExitSkipped = 1;
constexpr int kExitAbsent = static_cast<int>(ErrorKind::kNoProcess);
// Snapshots of a process that are tried when the newest is damaged.
constexpr int kMostTried = 4;

// Snapshots are named by the clock and found again by their names, and they say in nanoseconds when
// they were taken.
void check_clock() {
  const int64_t now = realtime_s();
  if (now >= 0 && now <= kLastClockSecond) return;
  throw Error(ErrorKind::kUnsupported, "cannot collect",
              now < 0 ? "the clock of this machine is before 1970, and snapshots are named by it"
                      : "the clock of this machine is past the year 2262, and snapshots are named "
                        "by it",
              "set the clock: date --set=TIME, or start a time service");
}

// The newest snapshot of this very process whose time has come. `note`: what was found amiss.
std::optional<LastSnapshot> find_last(const std::vector<SnapshotName>& names,
                                      const ListedProcess& process, const std::string& boot_id,
                                      int folder, const std::string& folder_path, int64_t now,
                                      std::string& note) {
  int tried = 0;
  for (auto name = names.rbegin(); name != names.rend() && tried < kMostTried; ++name) {
    if (name->pid != process.pid || is_in_future(name->time_s, now)) continue;
    ++tried;
    const std::string path = folder_path + "/" + to_text(*name);
    try {
      const StoredSnapshot snapshot = read_stored_snapshot(folder, *name, path);
      const Process& its = snapshot.facts.process;
      if (its.start_time_ticks != process.start_time_ticks || its.boot_id != boot_id) break;
      return LastSnapshot{name->time_s, its.rss};
    } catch (const Error& error) {
      note = path + " cannot be used: " + error.why();
    }
  }
  return std::nullopt;
}

bool has_ended(const ListedProcess& process) {
  const auto stat = ProcFs().try_stat(process.pid);
  return !stat || stat->start_time_ticks != process.start_time_ticks;
}

}  // namespace

CollectPass::CollectPass(const CollectConfig& config, CollectLog& log)
    : config_(config),
      log_(log),
      host_(own_host_folder()),
      boot_id_(trimmed(kernel_text_or_empty(KernelFiles{}.proc + "/sys/kernel/random/boot_id"))) {}

int CollectPass::collect() {
  check_clock();
  store_ = make_store(config_.store);
  host_folder_ = make_folder(store_.get(), host_, config_.store + "/" + host_);
  CollectLock lock(config_, host_folder_.get(), config_.store + "/" + host_);
  if (!lock.is_held()) {
    CollectLine line;
    line.result = CollectResult::kSkipped;
    line.exit_code = kExitSkipped;
    line.why = "another heapsnap collect (" + lock.holder() + ") is at work on this host";
    log_.add(line);
    return 0;
  }
  lock_ = &lock;
  remove_temporaries();
  processes_ = list_processes(entries_for(config_.targets));
  for (const TargetRule& rule : config_.targets) {
    collect_target(rule);
    if (asked_to_end_ != 0) break;
  }
  lock_ = nullptr;
  return asked_to_end_;
}

// Also in the folders of targets that match nothing, or are no longer in the configuration.
void CollectPass::remove_temporaries() const {
  for (const std::string& name : names_in(host_folder_.get())) {
    if (!is_target_name(name)) continue;
    if (const UniqueFd folder = open_folder(host_folder_.get(), name)) {
      remove_left_temporaries(folder.get());
    }
  }
}

void CollectPass::check() {
  check_clock();
  processes_ = list_processes(entries_for(config_.targets));
  try {
    // What is not there yet is made by the first collect.
    if (::access(config_.store.c_str(), F_OK) == 0 || errno != ENOENT) {
      store_ = open_store(config_.store);
      host_folder_ = open_folder_if_any(store_.get(), host_, config_.store + "/" + host_);
    }
  } catch (const Error& error) {
    unreadable_ = error;
  }
  for (const TargetRule& rule : config_.targets) check_target(rule);
}

std::vector<ListedProcess> CollectPass::find(const TargetRule& rule, CollectLine& line) {
  line.target = rule.name;
  TargetMatch match = match_target(rule, processes_);
  line.matches = match.processes.size();
  if (match.processes.empty()) {
    line.result = CollectResult::kAbsent;
    line.exit_code = rule.optional ? 0 : kExitAbsent;
    line.why = match.why_none;
    log_.add(line);
  } else if (!rule.all) {
    line.is_oldest_of_several = match.processes.size() > 1;
    match.processes.resize(1);
  }
  return std::move(match.processes);
}

DueVerdict CollectPass::judge(const TargetRule& rule, const ListedProcess& process, int folder,
                              CollectLine& line) const {
  const std::string folder_path = config_.store + "/" + host_ + "/" + rule.name;
  DueState state;
  state.now_s = realtime_s();
  state.rss = ProcFs().resident_bytes(process.pid);
  line.rss = state.rss;
  if (folder < 0) return judge_due(rule.when, state);
  const std::vector<SnapshotName> names = snapshot_names_in(folder);
  size_t in_future = 0;
  for (const SnapshotName& name : names) {
    if (is_in_future(name.time_s, state.now_s)) {
      ++in_future;
    } else if (!rule.all || name.pid == process.pid) {
      state.last_of_target_s = name.time_s;  // they ascend
    }
  }
  state.last = find_last(names, process, boot_id_, folder, folder_path, state.now_s, line.note);
  if (in_future > 0 && line.note.empty()) {
    line.note =
        fmt::format("the clock was set back: {} in the store {} newer than now",
                    count_text(in_future, "snapshot", "snapshots"), in_future == 1 ? "is" : "are");
  }
  return judge_due(rule.when, state);
}

void CollectPass::fail(CollectLine line, const std::string& what, const std::string& why,
                       const std::string& remedy, int exit_code) {
  line.result = CollectResult::kFailed;
  line.why = what + ": " + why;
  line.remedy = remedy;
  line.exit_code = exit_code;
  log_.add(line);
}

void CollectPass::collect_target(const TargetRule& rule) {
  CollectLine line;
  const std::vector<ListedProcess> processes = find(rule, line);
  if (processes.empty()) return;
  UniqueFd folder;
  try {
    folder =
        make_folder(host_folder_.get(), rule.name, config_.store + "/" + host_ + "/" + rule.name);
  } catch (const Error& error) {
    fail(line, error.subject(), error.why(), error.remedy(), error.exit_code());
    return;
  }
  for (const ListedProcess& process : processes) {
    collect_process(rule, process, line, folder.get());
    if (asked_to_end_ != 0) return;
  }
}

void CollectPass::collect_process(const TargetRule& rule, const ListedProcess& process,
                                  CollectLine line, int folder) {
  line.pid = process.pid;
  line.comm = process.comm;
  if (const auto before = collected_.find(process.pid); before != collected_.end()) {
    line.result = CollectResult::kNotDue;
    line.why = "collected as " + before->second + " in this pass";
    log_.add(line);
    return;
  }
  const DueVerdict verdict = judge(rule, process, folder, line);
  if (line.rss == 0 && has_ended(process)) {
    line.result = CollectResult::kAbsent;
    line.exit_code = rule.optional ? 0 : kExitAbsent;
    line.why = "it has ended; the next run looks for the target again";
    log_.add(line);
    return;
  }
  line.why = verdict.why;
  if (!verdict.is_due) {
    line.result = CollectResult::kNotDue;
    log_.add(line);
    return;
  }
  if (const auto why = find_skip_reason(config_.skip, read_machine_state(folder))) {
    line.result = CollectResult::kSkipped;
    line.exit_code = kExitSkipped;
    line.why = *why;
    log_.add(line);
    return;
  }
  collected_[process.pid] = rule.name;
  const std::string file = to_text(SnapshotName{realtime_s(), process.pid});
  const std::string place = host_ + "/" + rule.name + "/" + file;
  if (struct stat there{}; ::fstatat(folder, file.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) {
    line.result = CollectResult::kNotDue;
    line.why = "there is " + file + " of this second already";
    log_.add(line);
    return;
  }
  line.snapshot = config_.store + "/" + place;
  const CaptureOrder order{process.pid,
                           process.start_time_ticks,
                           line.snapshot,
                           folder,
                           place,
                           rule.references,
                           {rule.timeout, rule.cpu},
                           [this] { lock_->drop_in_child(); }};
  CaptureOutcome outcome;
  try {
    outcome = capture_within(order);
  } catch (const Error& error) {
    line.snapshot.clear();
    fail(line, error.subject(), error.why(), error.remedy(), error.exit_code());
    return;
  }
  asked_to_end_ = outcome.late_signal;
  const std::string what = fmt::format("cannot collect process {}", process.pid);
  const int unsupported = static_cast<int>(ErrorKind::kUnsupported);
  switch (outcome.end) {
    case WorkEnd::kDone: break;
    case WorkEnd::kOutOfTime:
      line.snapshot.clear();
      fail(line, what,
           fmt::format("it took longer than timeout = {}",
                       duration_text(static_cast<uint64_t>(rule.timeout.count()) * 1'000'000)),
           fmt::format("raise timeout of target {}, or look for the cause: heapsnap doctor {}",
                       rule.name, process.pid),
           unsupported);
      return;
    case WorkEnd::kOutOfProcessorTime:
      line.snapshot.clear();
      fail(line, what,
           fmt::format("it took more processor time than cpu = {}",
                       duration_text(static_cast<uint64_t>(rule.cpu.count()) * 1'000'000)),
           fmt::format("raise cpu of target {}", rule.name), unsupported);
      return;
    case WorkEnd::kAsked:
      line.snapshot.clear();
      asked_to_end_ = outcome.signal;
      fail(line, what, fmt::format("heapsnap was asked to end by signal {}", outcome.signal), "",
           128 + outcome.signal);
      return;
    case WorkEnd::kKilled:
      line.snapshot.clear();
      fail(line, what, fmt::format("the process that took it ended by signal {}", outcome.signal),
           "look at the kernel log for the OOM killer: dmesg", unsupported);
      return;
  }
  if (outcome.exit_code == kExitAbsent) {
    line.result = CollectResult::kAbsent;
    line.exit_code = rule.optional ? 0 : kExitAbsent;
    line.why = outcome.why + "; the next run looks for the target again";
    line.snapshot.clear();
    log_.add(line);
    return;
  }
  if (outcome.exit_code != 0) {
    line.snapshot.clear();
    fail(line, outcome.what, outcome.why, outcome.remedy, outcome.exit_code);
    return;
  }
  line.result = CollectResult::kCollected;
  line.rss = outcome.rss;
  line.snapshot_bytes = outcome.file_size;
  line.pause_ns = outcome.pause_ns;
  if (!outcome.has_heap && line.note.empty()) {
    line.note =
        outcome.allocator.empty()
            ? "no malloc of glibc was found: its memory is accounted for by mapping"
            : "its allocator is " + outcome.allocator + ": its memory is accounted for by mapping";
  }
  log_.add(line);
}

void CollectPass::check_target(const TargetRule& rule) {
  CollectLine found;
  for (const ListedProcess& process : find(rule, found)) {
    CollectLine line = found;
    line.pid = process.pid;
    line.comm = process.comm;
    line.result = CollectResult::kMatched;
    line.rules = "taken " + to_text(rule.when);
    std::optional<Error> unreadable = unreadable_;
    UniqueFd folder;
    try {
      const std::string path = config_.store + "/" + host_ + "/" + rule.name;
      if (host_folder_) folder = open_folder_if_any(host_folder_.get(), rule.name, path);
    } catch (const Error& error) {
      unreadable = error;
    }
    const DueVerdict verdict = judge(rule, process, folder.get(), line);
    if (unreadable) {
      line.why =
          "whether it is due is not known: " + unreadable->subject() + ": " + unreadable->why();
      line.remedy = unreadable->remedy();
      line.exit_code = unreadable->exit_code();
    } else {
      line.why = (verdict.is_due ? "due now: " : "not due: ") + verdict.why;
    }
    const std::vector<Obstacle> obstacles = judge_attach(gather_attach_facts(process.pid));
    const auto barred = std::find_if(obstacles.begin(), obstacles.end(), [](const Obstacle& each) {
      return each.severity == Obstacle::Severity::kBlocks;
    });
    if (barred != obstacles.end()) {
      fail(line, barred->what, barred->why, barred->remedy, static_cast<int>(barred->kind));
    } else {
      log_.add(line);
    }
  }
}

}  // namespace heapsnap
