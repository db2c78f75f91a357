#include "heap/in_place/remote_passes.h"

#include <algorithm>

namespace heapsnap {

namespace {

// Offsets in the room.
constexpr uint64_t kTaskAt = 0;
constexpr uint64_t kHeapsAt = kTaskAt + 4096;
static_assert(sizeof(ScanTask) <= kHeapsAt - kTaskAt);
static_assert(sizeof(ListsTask) <= kHeapsAt - kTaskAt);
constexpr size_t kMostHeaps = 4096;
constexpr uint64_t kAnswersAt = kHeapsAt + kMostHeaps * sizeof(PlacedMemory);
constexpr uint64_t kAnswersSize = 256 << 10;  // about half a second-level cache
constexpr uint64_t kRoom = kAnswersAt + kAnswersSize;

// As code there names it.
template <typename Value>
Value* pointer_there(Address address) {
  return reinterpret_cast<Value*>(address.value());
}

}  // namespace

RemotePasses::RemotePasses(CodeRunner& runner)
    : runner_(runner),
      loops_(loop_code()),
      room_(runner.load(loops_.code, kRoom)),
      links_(kAnswersSize / sizeof(uint64_t)) {}

template <typename Task>
bool RemotePasses::run(size_t function, Task& task) {
  const auto bytes = std::as_writable_bytes(std::span(&task, 1));
  const bool is_done = runner_.write(room_ + kTaskAt, bytes) &&
                       runner_.run(function, room_ + kTaskAt) &&
                       runner_.read(room_ + kTaskAt, bytes);
  if (!is_done) room_ = Address();
  return is_done;
}

std::span<const uint32_t> RemotePasses::scan(ChunkScan& scan) {
  if (!is_usable()) return {};
  ScanTask task;
  task.scan = scan;
  task.memory = {scan.at.value(), scan.readable_end.value(), 0};
  task.answers = pointer_there<uint32_t>(room_ + kAnswersAt);
  task.room = kAnswersSize / sizeof(uint32_t);
  if (!run(loops_.scan, task) || task.count > task.room) return {};
  chunks_.resize(task.count);
  if (!runner_.read(room_ + kAnswersAt, std::as_writable_bytes(std::span(chunks_)))) return {};
  scan = task.scan;
  return chunks_;
}

bool RemotePasses::place(std::span<const AddressRange> heaps) {
  if (std::equal(heaps.begin(), heaps.end(), heaps_.begin(), heaps_.end())) return true;
  if (heaps.size() > kMostHeaps) return false;
  std::vector<PlacedMemory> placed;
  for (const AddressRange& heap : heaps) {
    placed.push_back({heap.begin.value(), heap.end.value(), 0});
  }
  if (!runner_.write(room_ + kHeapsAt, std::as_bytes(std::span(placed)))) return false;
  heaps_.assign(heaps.begin(), heaps.end());
  return true;
}

std::span<const ListedChunks> RemotePasses::follow(std::span<ListScan> lists,
                                                   std::span<const AddressRange> heaps) {
  if (!is_usable() || lists.size() > kMostLists || !place(heaps)) return {};
  auto passes = links_.passes(lists, pointer_there<uint64_t>(room_ + kAnswersAt));
  ListsTask task;
  task.memories = {pointer_there<const PlacedMemory>(room_ + kHeapsAt), heaps.size()};
  task.count = passes.size();
  std::copy(passes.begin(), passes.end(), task.lists);
  if (!run(loops_.follow, task)) return {};
  for (size_t i = 0; i < passes.size(); ++i) {
    passes[i].scan = task.lists[i].scan;
    passes[i].forward = task.lists[i].forward;
    passes[i].backward = task.lists[i].backward;
    if (!read_answers(passes[i], links_.part(i))) return {};
  }
  return links_.told(passes, lists);
}

bool RemotePasses::read_answers(const ListPass& pass, std::span<uint64_t> to) {
  if (pass.forward > to.size() || pass.backward > to.size() - pass.forward) return false;
  const Address begin(reinterpret_cast<uint64_t>(pass.answers));
  const uint64_t behind = to.size() - pass.backward;
  return runner_.read(begin, std::as_writable_bytes(to.first(pass.forward))) &&
         runner_.read(begin + behind * sizeof(uint64_t),
                      std::as_writable_bytes(to.subspan(behind)));
}

}  // namespace heapsnap
