// The looks of `heapsnap top` at a process that runs: those of `heapsnap watch`
// (watched_process.h), each arena of malloc, and what the call stacks of a tracked process did
// since the look before. Nothing here stops the process.
//
// Names of stacks are found in files, which takes longer than a look, so that is a step of its own:
// name_stacks() names those of the last look that have none yet, and what it finds is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analysis/passed_frames.h"
#include "analysis/stack_rates.h"
#include "analysis/top_model.h"
#include "snapshot/call_stack_tables.h"
#include "tools/heapsnap/watched_process.h"
#include "tracking/tracking_reader.h"

namespace heapsnap {

class TopLooks {
 public:
  // Throws as WatchedProcess does.
  explicit TopLooks(int pid);

  WatchedProcess& process() { return *process_; }
  // `by`: which stacks are the highest, of which the sample has no more than some hundreds. Throws
  // Error{kNoProcess} when the process has ended. When it executed another program, it is looked at
  // from the start, and take_replaced() says so.
  TopSample look(StackMeasure by);
  bool take_replaced() { return std::exchange(is_replaced_, false); }

  // Whether stacks of the last look have no names yet.
  bool lacks_names() const { return lacks_names_; }
  // For the next looks. Throws as look() does.
  void name_stacks();

 private:
  struct Named {
    std::string name;                  // where it is charged to, and who called that
    std::vector<std::string> details;  // a line for each frame
  };

  TopSample look_once(StackMeasure by);
  std::vector<TopRow> arena_rows(const std::vector<ArenaCounters>& arenas, uint64_t now_ns);
  std::vector<TopRow> stack_rows(const std::vector<StackRate>& rates);
  Named name_of(const RecordedStacks& recorded, const TrackerRecord& record, uint32_t stack) const;
  void begin_anew();

  int pid_;
  std::optional<WatchedProcess> process_;
  std::optional<WatchLook> last_;
  std::unordered_map<uint64_t, uint64_t> arenas_before_;  // bytes by address
  StackRates rates_;
  Tracking tracking_;  // of the last look
  std::vector<uint32_t> unnamed_;
  std::unordered_map<uint32_t, Named> names_;
  PassedFrames passed_;
  uint64_t generation_ = 0;  // of the tracker's tables
  bool lacks_names_ = false;
  bool is_replaced_ = false;
};

}  // namespace heapsnap
