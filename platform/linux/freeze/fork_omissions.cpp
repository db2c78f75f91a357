#include "platform/linux/freeze/fork_omissions.h"

#include <algorithm>

#include "base/count_text.h"
#include "platform/linux/freeze/freeze_notes.h"
#include "platform/linux/proc/memory_room.h"
#include "platform/linux/proc/page_map.h"
#include "target/address_space.h"

namespace heapsnap {

std::optional<std::string> ForkOmissions::foresee(
    const MappingsWithUsage& before, const std::function<bool(uint64_t bytes)>& takes_longer) {
  wiped_.clear();
  uint64_t kept = 0;
  for (size_t i = 0; i < before.mappings.size(); ++i) {
    const Mapping& mapping = before.mappings[i];
    const MappingFlags& flags = before.flags[i];
    if (flags.on_demand) return "another process or thread handles its page faults (userfaultfd)";
    if (mapping.shared) continue;
    if (flags.hugetlb) return kMayRunOutOfHugePages;
    if (!flags.left_out && !flags.wiped) continue;
    if (mapping.executable && !mapping.is_anonymous()) return kCodeNotCopied;
    if (flags.wiped) wiped_.push_back(mapping.range);
    kept += before.usage[i].rss + before.usage[i].swap;
  }
  if (kept == 0) return std::nullopt;
  if (kept > MissingMemory::kMost || takes_longer(kept)) {
    return not_copied_text(size_text(kept));
  }
  kept_.reserve(kept + kept / 8);
  return std::nullopt;
}

std::optional<std::string> ForkOmissions::keep(const ProcFs& proc, int tid, int child,
                                               bool runs_code, MemoryReader& memory) {
  const uint64_t mapped = proc.sizes(tid).mapped;
  if (wiped_.empty() && mapped == proc.sizes(child).mapped) return std::nullopt;
  const AddressSpace copied(proc.maps(child));
  PageMap pages(proc, tid);
  for (const Mapping& mapping : proc.maps(tid)) {
    if (mapping.shared) continue;
    const bool is_left_out = copied.find(mapping.range.begin) == nullptr;
    const bool is_wiped = std::any_of(
        wiped_.begin(), wiped_.end(),
        [&mapping](const AddressRange& range) { return range.overlaps(mapping.range); });
    if (!is_left_out && !is_wiped) continue;
    if (mapping.executable && !mapping.is_anonymous()) return kCodeNotCopied;
    // A thread that is stepped out of the allocator in the copy would see the wiped memory.
    if (is_wiped && runs_code) {
      return "a thread is inside the allocator, and memory is wiped in a fork (MADV_WIPEONFORK)";
    }
    if (!kept_.keep(mapping, pages, memory)) {
      return not_copied_text("more than " + size_text(MissingMemory::kMost));
    }
  }
  return std::nullopt;
}

}  // namespace heapsnap
