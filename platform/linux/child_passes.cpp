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
static_assert(sizeof(CarriedScan) <= kHeapsAt - kTaskAt);
static_assert(sizeof(CarriedLists) <= kHeapsAt - kTaskAt);
constexpr size_t kMostHeaps = 4096;
constexpr uint64_t kAnswersAt = kHeapsAt + kMostHeaps * sizeof(PlacedMemory);
constexpr uint64_t kAnswersSize = 256 << 10;  // about half a second-level cache
constexpr uint64_t kStackSize = 16 << 10;
constexpr uint64_t kSize = kAnswersAt + kAnswersSize + kStackSize;

}  // namespace

ChildPasses::ChildPasses(SnapshotChild& child, OnTracer on_tracer)
    : child_(child),
      on_tracer_(std::move(on_tracer)),
      code_(carried_passes()),
      links_(kAnswersSize / sizeof(uint64_t)) {
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

bool ChildPasses::place(std::span<const AddressRange> heaps) {
  if (std::equal(heaps.begin(), heaps.end(), heaps_.begin(), heaps_.end())) return true;
  if (heaps.size() > kMostHeaps) return false;
  std::vector<PlacedMemory> placed;
  for (const AddressRange& heap : heaps) {
    placed.push_back({heap.begin.value(), heap.end.value(), 0});
  }
  if (!child_.write(base_ + kHeapsAt, std::as_bytes(std::span(placed)))) return false;
  heaps_.assign(heaps.begin(), heaps.end());
  return true;
}

std::span<const ListedChunks> ChildPasses::follow(std::span<ListScan> lists,
                                                  std::span<const AddressRange> heaps) {
  if (base_ == 0 || lists.size() > kMostLists || !place(heaps)) return {};
  auto passes = links_.passes(lists, reinterpret_cast<uint64_t*>(base_ + kAnswersAt));
  CarriedLists task;
  task.memories = {reinterpret_cast<const PlacedMemory*>(base_ + kHeapsAt), heaps.size()};
  task.count = passes.size();
  std::copy(passes.begin(), passes.end(), task.lists);
  if (!run(code_.follow, task)) return {};
  for (size_t i = 0; i < passes.size(); ++i) {
    passes[i].scan = task.lists[i].scan;
    passes[i].forward = task.lists[i].forward;
    passes[i].backward = task.lists[i].backward;
    if (!read_answers(passes[i], links_.part(i))) return {};
  }
  return links_.told(passes, lists);
}

bool ChildPasses::read_answers(const ListPass& pass, std::span<uint64_t> to) const {
  if (pass.forward > to.size() || pass.backward > to.size() - pass.forward) return false;
  const auto begin = reinterpret_cast<uint64_t>(pass.answers);
  const uint64_t behind = to.size() - pass.backward;
  return child_.read(begin, std::as_writable_bytes(to.first(pass.forward))) &&
         child_.read(begin + behind * sizeof(uint64_t), std::as_writable_bytes(to.subspan(behind)));
}

}  // namespace heapsnap
