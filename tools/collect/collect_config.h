// The configuration of `heapsnap collect`, `prune` and `history`: a TOML file
// (docs/collecting.md has all keys).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/due.h"
#include "store/retention.h"
#include "tools/capture/reference_capture.h"

namespace heapsnap {

// "5%" of a whole, or bytes.
struct ShareOrBytes {
  std::optional<double> percent;
  uint64_t bytes = 0;

  uint64_t of(uint64_t whole) const {
    return percent ? static_cast<uint64_t>(static_cast<double>(whole) * *percent / 100) : bytes;
  }
};

// When no snapshot is taken, whatever is due. Pressures in percent of the last ten seconds.
struct SkipRules {
  ShareOrBytes memory_below{5.0, 0};  // of the machine, available
  ShareOrBytes disk_below{5.0, 0};    // of the store's file system, free for who is not root
  double memory_pressure_over = 20;
  double io_pressure_over = 60;
  double cpu_pressure_over = 100;  // never
};

// What names a process; all that is given must hold.
struct TargetRule {
  std::string name;
  std::string process;    // comm, or the file name of the executable
  std::string pid_file;   // path
  std::string unit;       // "nginx.service"
  std::string cgroup;     // path; groups below it too
  std::string container;  // first digits of its id
  std::string pod;        // first digits of the UID of a Kubernetes pod, without dashes
  bool all = false;       // every match; else the oldest
  bool optional = false;  // no match is no failure
  DueRules when;
  CaptureChoice references = CaptureChoice::kAuto;
  std::chrono::milliseconds timeout{60'000};
  std::chrono::milliseconds cpu{60'000};
};

struct CollectConfig {
  std::string path;
  std::string store = "/var/lib/heapsnap";
  std::string lock;  // empty: the usual place (collect_lock.h)
  std::chrono::milliseconds jitter{0};
  RetentionRules keep;
  SkipRules skip;
  std::vector<TargetRule> targets;
};

inline constexpr const char* kDefaultConfigPath = "/etc/heapsnap/collect.toml";

// Throws Error{kUsage} that names file and line for what is no TOML, an unknown key, a value of the
// wrong kind, and targets that name no process or have the same name; Error{kBadInput} when the
// file cannot be read. A file without targets is none of these: see require_targets().
CollectConfig read_collect_config(const std::string& path);
// The same of a text; `path` is for messages.
CollectConfig parse_collect_config(const std::string& text, const std::string& path);
// Throws Error{kUsage} if it has none.
void require_targets(const CollectConfig& config);

}  // namespace heapsnap
