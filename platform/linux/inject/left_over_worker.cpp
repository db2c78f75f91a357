#include "platform/linux/inject/left_over_worker.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "platform/linux/inject/injected_code.h"
#include "platform/linux/inject/injected_mapping.h"
#include "platform/linux/proc/process_status.h"

namespace heapsnap {

namespace {

constexpr std::chrono::milliseconds kWorkerNap{2};

std::vector<ThreadBlock> find_blocks(const ProcFs& proc, int tid, MemoryReader& memory) {
  const InjectedCode code = injected_code();
  std::vector<ThreadBlock> blocks;
  for (const Mapping& mapping : proc.maps(tid)) {
    if (!mapping.is_anonymous() || !mapping.executable || mapping.writable ||
        mapping.range.size() != InjectedMapping::kCodeSize) {
      continue;
    }
    std::vector<std::byte> bytes(code.bytes.size());
    if (!memory.read_exact(mapping.range.begin, bytes) ||
        !std::equal(bytes.begin(), bytes.end(), code.bytes.begin())) {
      continue;
    }
    if (const auto block = memory.read_value<ThreadBlock>(mapping.range.end)) {
      blocks.push_back(*block);
    }
  }
  return blocks;
}

// Whether the process has a thread with the tid in the word at `place`. The kernel clears the word
// when that thread exits; in a forked child it names a thread that does not exist there.
bool is_alive(const ProcFs& proc, int pid, MemoryReader& memory, uint64_t place) {
  const int tid = static_cast<int>(memory.read_value<uint32_t>(Address(place)).value_or(0));
  if (tid == 0) return false;
  const std::vector<int> tids = proc.task_list(pid);
  return std::any_of(tids.begin(), tids.end(), [&](int each) {
    const auto status = read_process_status(proc, each);
    return status && (status->namespace_pids.empty() ? each : status->namespace_pids.back()) == tid;
  });
}

}  // namespace

void await_left_over_workers(const ProcFs& proc, int pid, MemoryReader& memory,
                             std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto is_at_work = [&](const ThreadBlock& block) {
    return is_alive(proc, pid, memory, block.bootstrap_tid) ||
           (block.worker != 0 && is_alive(proc, pid, memory, block.worker + block.tid_offset));
  };
  while (true) {
    const std::vector<ThreadBlock> blocks =
        find_blocks(proc, proc.live_tid(pid).value_or(pid), memory);
    if (std::none_of(blocks.begin(), blocks.end(), is_at_work)) return;
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorKind::kUnsupported, "cannot change process " + std::to_string(pid),
                  "a thread that an earlier heapsnap, since killed, created in it is still running",
                  "check what the other threads are doing, then try again");
    }
    std::this_thread::sleep_for(kWorkerNap);
  }
}

}  // namespace heapsnap
