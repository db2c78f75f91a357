#include "report/churn_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/file_name.h"
#include "report/stack_frames.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

// FNV-1a of the return addresses.
uint64_t path_hash(const CallStacks& stacks, uint32_t node) {
  uint64_t hash = 0xcbf29ce484222325;
  stacks.walk(node, [&](uint32_t id) {
    uint64_t address = stacks.nodes[id].return_address.value();
    for (int i = 0; i < 8; ++i, address >>= 8) hash = (hash ^ (address & 0xff)) * 0x100000001b3;
  });
  return hash;
}

long long number(double value) {
  return std::llround(value);
}

// Counters of a running process are read one after the other: a free may be seen before its
// allocation.
uint64_t difference(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}

}  // namespace

void ChurnLog::begin(const CallStacks& stacks) {
  before_ = stacks.sites;
}

std::vector<uint32_t> ChurnLog::busy_stacks(const CallStacks& stacks) const {
  std::vector<uint32_t> busy;
  for (uint32_t id = 0; id < stacks.sites.size(); ++id) {
    const AllocationSite& now = stacks.sites[id];
    const AllocationSite before = id < before_.size() ? before_[id] : AllocationSite{};
    if (now.allocations != before.allocations || now.frees != before.frees) busy.push_back(id);
  }
  return busy;
}

void ChurnLog::add(const RecordedStacks& recorded, const TrackerRecord& tracker, uint64_t churn,
                   uint64_t threshold) {
  out_.write(
      fmt::format("\n[{:3}]=========================================================\n"
                  "churn={}/{}\n",
                  entries_++, churn, threshold));
  const CallStacks& stacks = recorded.stacks;
  const std::vector<uint32_t> busy = busy_stacks(stacks);
  before_.resize(std::max(before_.size(), stacks.sites.size()));
  for (const uint32_t id : busy) {
    const AllocationSite& now = stacks.sites[id];
    AllocationSite& before = before_[id];
    const uint64_t live = difference(now.allocated_bytes, now.freed_bytes);
    const uint64_t live_count = difference(now.allocations, now.frees);
    AllocationSite change = now;
    change.allocations = difference(now.allocations, before.allocations);
    change.frees = difference(now.frees, before.frees);
    AllocationSite living = now;
    living.allocations = live_count;
    out_.write(fmt::format(
        "\n{{{:x}}} live:{}, alloc:{}/{}, free:{}/{}, live_count:{}, alloc_count:{}/{}, "
        "free_count:{}/{}\n",
        path_hash(stacks, now.node), live, difference(now.allocated_bytes, before.allocated_bytes),
        now.allocated_bytes, difference(now.freed_bytes, before.freed_bytes), now.freed_bytes,
        number(living.allocation_count()), number(change.allocation_count()),
        number(now.allocation_count()), number(change.free_count()), number(now.free_count())));
    StackEnd end{};
    size_t index = 0;
    for (const NamedFrame& frame : named_frames(recorded, tracker, now.node, end)) {
      std::string place;
      if (!frame.function.empty()) {
        if (!frame.is_inlined) place = fmt::format("+{:#x}", frame.offset);
        place += " (" + printable(file_name_of(frame.module)) + ")";
      }
      out_.write(fmt::format("  {{{}}} {}{}\n", index++, printable(function_label(frame)), place));
    }
    before = now;
  }
}

}  // namespace heapsnap
