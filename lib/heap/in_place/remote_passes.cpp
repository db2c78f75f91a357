#include "heap/in_place/remote_passes.h"

#include <algorithm>

namespace heapsnap {

namespace {

// Offsets in the room.
constexpr uint64_t kTaskAt = 0;
constexpr uint64_t kHeapsAt = kTaskAt + 4096;
static_assert(sizeof(ListsTask) <= kHeapsAt - kTaskAt);
constexpr size_t kMostHeaps = 4096;
constexpr uint64_t kAnswersAt = kHeapsAt + kMostHeaps * sizeof(PlacedMemory);
constexpr uint64_t kAnswersSize = 256 << 10;  // about half a second-level cache
constexpr uint64_t kRoom = kAnswersAt + kAnswersSize;
constexpr uint64_t kHalf = kAnswersSize / 2;
static_assert(sizeof(ScanTask) < kHalf && sizeof(ScanTask) % sizeof(uint32_t) == 0);

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
bool RemotePasses::start(size_t function, Address place, const Task& task) {
  const bool is_there = runner_.write(place, std::as_bytes(std::span(&task, 1)));
  if (is_there) {
    runner_.start(function, place);
  } else {
    room_ = Address();
  }
  return is_there;
}

template <typename Task>
bool RemotePasses::finish(Address place, Task& task) {
  const bool is_done =
      runner_.finish() && runner_.read(place, std::as_writable_bytes(std::span(&task, 1)));
  if (!is_done) room_ = Address();
  return is_done;
}

Address RemotePasses::scan_place() const {
  return room_ + kAnswersAt + (in_second_half_ ? kHalf : 0);
}

void RemotePasses::start_scan(const ChunkScan& scan) {
  in_second_half_ = !in_second_half_;
  ScanTask task;
  task.scan = scan;
  task.memory = {scan.at.value(), scan.readable_end.value(), 0};
  task.answers = pointer_there<uint32_t>(scan_place() + sizeof task);
  task.room = (kHalf - sizeof task) / sizeof(uint32_t);
  if (start(loops_.scan, scan_place(), task)) begun_ = scan;
}

std::span<const uint32_t> RemotePasses::scan(ChunkScan& scan) {
  if (is_usable() && begun_ != scan) start_scan(scan);
  if (!is_usable()) return {};
  begun_.reset();
  const Address place = scan_place();
  ScanTask task;
  if (!finish(place, task) || task.count > task.room) return {};
  if (task.count == task.room) start_scan(task.scan);
  chunks_.resize(task.count);
  if (!runner_.read(place + sizeof task, std::as_writable_bytes(std::span(chunks_)))) return {};
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
  const Address place = room_ + kTaskAt;
  begun_.reset();
  if (!start(loops_.follow, place, task) || !finish(place, task)) return {};
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
