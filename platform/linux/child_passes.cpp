#include "platform/linux/child_passes.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>

namespace heapsnap {

namespace {

constexpr uint64_t kCodeSize = 16 << 10;
constexpr uint64_t kTaskAt = kCodeSize;
constexpr uint64_t kHeapsAt = kTaskAt + 4096;
constexpr size_t kMostHeaps = 4096;
constexpr uint64_t kAnswersAt = kHeapsAt + kMostHeaps * sizeof(PlacedMemory);
constexpr uint64_t kAnswersSize = 256 << 10;  // about half a second-level cache
constexpr uint64_t kStackSize = 16 << 10;
constexpr uint64_t kSize = kAnswersAt + kAnswersSize + kStackSize;

}  // namespace

ChildPasses::ChildPasses(SnapshotChild& child, OnTracer on_tracer)
    : child_(child), on_tracer_(std::move(on_tracer)), code_(carried_passes()) {
  if (!map()) base_ = 0;
}

bool ChildPasses::map() {
  if (code_.bytes.size() > kCodeSize) return false;
  const auto mapped = child_.call(
      {SYS_mmap, {0, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0}});
  constexpr long kLastError = -4095;
  if (!mapped || (*mapped < 0 && *mapped >= kLastError)) return false;
  base_ = static_cast<uint64_t>(*mapped);
  return child_.write(base_, std::as_bytes(code_.bytes)) &&
         child_.call({SYS_mprotect, {base_, kCodeSize, PROT_READ | PROT_EXEC, 0, 0, 0}}) == 0;
}

template <typename Task>
bool ChildPasses::run(size_t function, Task& task) {
  const auto bytes = std::as_writable_bytes(std::span(&task, 1));
  bool is_done = false;
  on_tracer_([&] {
    is_done = child_.write(base_ + kTaskAt, bytes) &&
              child_.execute({.entry = base_ + code_.entry,
                              .end = base_ + code_.trap,
                              .function = base_ + function,
                              .argument = base_ + kTaskAt,
                              .stack = base_ + kSize}) &&
              child_.read(base_ + kTaskAt, bytes);
  });
  if (!is_done) base_ = 0;
  return is_done;
}

std::span<const uint32_t> ChildPasses::scan(ChunkScan& scan) {
  if (base_ == 0) return {};
  CarriedScan task;
  task.scan = scan;
  task.memory = {scan.at.value(), scan.readable_end.value(), 0};
  task.answers = reinterpret_cast<uint32_t*>(base_ + kAnswersAt);
  task.room = kAnswersSize / sizeof(uint32_t);
  if (!run(code_.scan, task) || task.count > task.room) return {};
  chunks_.resize(task.count);
  if (!child_.read(base_ + kAnswersAt, std::as_writable_bytes(std::span(chunks_)))) return {};
  scan = task.scan;
  return chunks_;
}

ListedChunks ChildPasses::follow(ListScan& list, std::span<const AddressRange> heaps) {
  if (base_ == 0 || heaps.size() > kMostHeaps) return {};
  if (!std::equal(heaps.begin(), heaps.end(), heaps_.begin(), heaps_.end())) {
    std::vector<PlacedMemory> placed;
    for (const AddressRange& heap : heaps) {
      placed.push_back({heap.begin.value(), heap.end.value(), 0});
    }
    if (!child_.write(base_ + kHeapsAt, std::as_bytes(std::span(placed)))) return {};
    heaps_.assign(heaps.begin(), heaps.end());
  }
  CarriedList task;
  task.list = list;
  task.memories = reinterpret_cast<const PlacedMemory*>(base_ + kHeapsAt);
  task.memory_count = heaps.size();
  task.answers = reinterpret_cast<uint64_t*>(base_ + kAnswersAt);
  task.room = kAnswersSize / sizeof(uint64_t);
  const auto& [forward, backward] = task.counts;
  if (!run(code_.follow, task) || forward > task.room || backward > task.room - forward) return {};
  links_.resize(forward + backward);
  const std::span<uint64_t> links(links_);
  const uint64_t answers_end = base_ + kAnswersAt + task.room * sizeof(uint64_t);
  if (!child_.read(base_ + kAnswersAt, std::as_writable_bytes(links.first(forward))) ||
      !child_.read(answers_end - backward * sizeof(uint64_t),
                   std::as_writable_bytes(links.last(backward)))) {
    return {};
  }
  std::reverse(links_.end() - static_cast<ptrdiff_t>(backward), links_.end());
  list = task.list;
  return {links.first(forward), links.last(backward)};
}

}  // namespace heapsnap
