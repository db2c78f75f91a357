// One pass over the targets of a configuration: which processes match, what is due, and a snapshot
// of it.
//
//   list processes once -> for each target: match -> last snapshot -> due? -> room? -> capture
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "tools/collect/collect_config.h"
#include "tools/collect/collect_line.h"
#include "tools/collect/collect_lock.h"
#include "tools/collect/target_finder.h"

namespace heapsnap {

class CollectPass {
 public:
  CollectPass(const CollectConfig& config, CollectLog& log);

  // Takes the lock of the host, then snapshots of what is due. Gives the signal by which this
  // process was asked to end meanwhile, and has to end; 0: none. Throws Error{kOutput} when the
  // store cannot be opened, Error{kUnsupported} when the clock gives no time to name a snapshot by.
  int collect();

  // Says what each target means now, what would be done with it, and whether an attach would work.
  // Writes nothing.
  void check();

 private:
  void remove_temporaries() const;
  void collect_target(const TargetRule& rule);
  void collect_process(const TargetRule& rule, const ListedProcess& process, CollectLine line,
                       int folder);
  void check_target(const TargetRule& rule);
  DueVerdict judge(const TargetRule& rule, const ListedProcess& process, int folder,
                   CollectLine& line) const;
  // The processes that are to be collected: all, or the oldest. Nothing but a line where there is
  // none.
  std::vector<ListedProcess> find(const TargetRule& rule, CollectLine& line);
  void fail(CollectLine line, const std::string& what, const std::string& why,
            const std::string& remedy, int exit_code);

  const CollectConfig& config_;
  CollectLog& log_;
  std::string host_;
  std::string boot_id_;
  std::vector<ListedProcess> processes_;
  std::map<int, std::string> collected_;  // pid, and the target that it was collected for
  UniqueFd store_;
  UniqueFd host_folder_;
  std::optional<Error> unreadable_;  // check(): why the store cannot be looked at
  CollectLock* lock_ = nullptr;
  int asked_to_end_ = 0;
};

}  // namespace heapsnap
