#include "heap/walk/system_mem_check.h"

namespace heapsnap {
namespace {

void settle_arena(HeapModel& model, int32_t index, uint64_t system_mem) {
  uint64_t sum = 0;
  for (const HeapSegment& segment : model.segments) {
    if (segment.arena == index) sum += segment.system_bytes;
  }
  std::vector<uint64_t> without_holes(model.segments.size());
  for (size_t i = model.segments.size(); i-- > 0 && sum > system_mem;) {
    const HeapSegment& segment = model.segments[i];
    if (segment.arena != index || segment.kind != SegmentKind::kBrk) continue;
    if (segment.system_bytes <= segment.range.size()) continue;
    sum -= segment.system_bytes - segment.range.size();
    without_holes[i] = segment.range.size();
  }
  if (sum != system_mem) return;
  for (size_t i = 0; i < without_holes.size(); ++i) {
    if (without_holes[i] != 0) model.segments[i].system_bytes = without_holes[i];
  }
}

}  // namespace

void settle_foreign_holes(HeapModel& model) {
  for (size_t i = 0; i < model.arenas.size(); ++i) {
    const Arena& arena = model.arenas[i];
    if (arena.is_main && arena.is_noncontiguous) {
      settle_arena(model, static_cast<int32_t>(i), arena.system_mem);
    }
  }
}

void check_system_mem(const HeapModel& model, CorruptionLog& log) {
  for (size_t i = 0; i < model.arenas.size(); ++i) {
    const Arena& arena = model.arenas[i];
    if (arena.walked == arena.system_mem) continue;
    log.add(arena.address, static_cast<int32_t>(i), -1,
            "the walk accounts for " + std::to_string(arena.walked) + " bytes of the arena at " +
                hex(arena.address) + ", but its system_mem is " + std::to_string(arena.system_mem));
  }
}

}  // namespace heapsnap
