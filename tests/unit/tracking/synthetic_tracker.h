// The tracker's tables as tracker/table_layout.h describes them, put together by a test.
//
//   SyntheticTracker made;
//   const uint32_t main_frame = made.node(tracker::kRootComplete, 0, 0x401000);
//   const uint32_t stack = made.stack({.node = main_frame, .depth = 1, .allocations = 3});
//   made.slot(Address(0x10000010), stack, 8);
//   made.finish();
//   read_tracking(made.target.memory(), made.directory_address(), 0);
//
// Blocks may lie in [kHeap, kHeap + kHeapSize). Tables have chunks of 4 entries, so that a few
// entries are several chunks.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/heap/fake_target.h"
#include "tracker/table_layout.h"

namespace heapsnap {

class SyntheticTracker {
 public:
  static constexpr Address kHeap{0x10000000};
  static constexpr uint64_t kHeapSize = 512 << 10;
  static constexpr uint32_t kChunkShift = 2;

  SyntheticTracker() : target(Machine::kX86_64) {
    target.map("10000000-10080000 rw-p 00000000 00:00 0 [heap]");
    // Just the pages of the leaf and the root that are used here.
    target.map("7f0000000000-7f0000010000 rw-p 00000000 00:00 0 [anon:heapsnap_tables]");
    target.map("7f1000000000-7f1000001000 rw-p 00000000 00:00 0 [anon:heapsnap_tables]");
    target.map("7f2000000000-7f2000100000 rw-p 00000000 00:00 0 [anon:heapsnap_tables]");
    directory.magic = tracker::kDirectoryMagic;
    directory.version = tracker::kLayoutVersion;
    directory.directory_size = tracker::kDirectorySize;
    directory.state = tracker::kStateRecording;
    directory.pid = 42;
    directory.process_generation = 1;
    directory.start_count = 1;
    directory.started_monotonic_ns = 1000;
    directory.max_frames = tracker::kDefaultFrames;
    directory.allocator = tracker::kAllocatorPtmalloc;
    directory.live_root = kRoot.value();
    directory.live_root_entries = 64;
    nodes_.resize(tracker::kFirstNode);
    stacks_.resize(tracker::kFirstStack);
  }

  uint32_t node(uint32_t parent, uint32_t module, uint64_t return_address) {
    nodes_.push_back({parent, module, return_address});
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  uint32_t stack(const tracker::StackRecord& record) {
    stacks_.push_back(record);
    return static_cast<uint32_t>(stacks_.size() - 1);
  }
  tracker::StackRecord& record(uint32_t stack) { return stacks_[stack]; }
  struct Thread {
    uint32_t tid = 0;
    uint32_t state = tracker::kThreadSeen;
    uint64_t allocations = 0, frees = 0, allocated_bytes = 0, freed_bytes = 0;
    uint64_t generation = 1;
  };
  void thread(const Thread& thread, const std::vector<tracker::PendingCounts>& pending = {}) {
    tracker::ThreadRecord record{};
    record.tid = thread.tid;
    record.state = thread.state;
    record.allocations = thread.allocations;
    record.frees = thread.frees;
    record.allocated_bytes = thread.allocated_bytes;
    record.freed_bytes = thread.freed_bytes;
    record.generation = thread.generation;
    if (!pending.empty()) {
      record.pending = place(pending);
      record.pending_count = pending.size();
    }
    threads_.push_back(record);
  }
  uint32_t module(const std::string& path, uint64_t bias, AddressRange range,
                  const std::vector<uint8_t>& build_id = {}) {
    tracker::ModuleRecord record{};
    record.bias = bias;
    record.begin = range.begin.value();
    record.end = range.end.value();
    record.path = place(std::vector<char>(path.begin(), path.end()));
    record.path_size = static_cast<uint32_t>(path.size());
    record.build_id_size = static_cast<uint32_t>(build_id.size());
    std::copy(build_id.begin(), build_id.end(), record.build_id);
    record.loaded = 1;
    modules_.push_back(record);
    return static_cast<uint32_t>(modules_.size() - 1);
  }
  // A function of an interpreted program.
  struct Function {
    tracker::CopiedText name{}, file{}, lines{};
    uint32_t first_line = 0;
  };
  void function(const Function& function) {
    functions_.resize(std::max<size_t>(functions_.size(), tracker::kFirstFunction));
    tracker::FunctionRecord record{};
    record.language = tracker::kInterpreterPython;
    record.first_line = function.first_line;
    record.name = function.name;
    record.file = function.file;
    record.lines = function.lines;
    functions_.push_back(record);
  }
  uint64_t text(const void* bytes, size_t size) {
    const auto* const first = static_cast<const char*>(bytes);
    return place(std::vector<char>(first, first + size));
  }
  tracker::CopiedText copied(const std::string& bytes) {
    return {text(bytes.data(), bytes.size()), static_cast<uint32_t>(bytes.size()), 1};
  }
  void region(AddressRange range, uint32_t kind) {
    regions_.push_back(
        {range.begin.value(), range.end - range.begin, tracker::kNoFileOffset, kind, 0});
  }
  void slot(Address block, uint32_t stack, uint32_t slack) {
    const uint64_t index = block.value() >> tracker::kLeafShift;
    target.put(kRoot + index * 8, kLeaf.value());
    const uint64_t place = (block.value() >> tracker::kGranuleShift) & (tracker::kLeafSlots - 1);
    target.put(kLeaf + place * 4, stack << tracker::kSlackBits | slack);
  }

  // Writes it all; `name` is what the kernel calls the directory's mapping.
  // `begin`: where that begins.
  void finish(const std::string& name = "[anon:heapsnap_directory]",
              uint64_t begin = 0x7f3000000000) {
    char line[64];
    std::snprintf(line, sizeof line, "%llx-7f3000001000 rw-p 00000000 00:00 0 ",
                  static_cast<unsigned long long>(begin));
    target.map(line + name);
    directory.self = kDirectory.value();
    directory.nodes = table(nodes_);
    directory.stacks = table(stacks_);
    directory.threads = table(threads_);
    directory.modules = table(modules_);
    if (!functions_.empty()) directory.functions = table(functions_);
    directory.regions = table(regions_);
    write_directory();
  }
  void write_directory() { target.put(kDirectory, directory); }

  Address directory_address() const { return kDirectory; }
  // Where tables lie, for those who want to damage them.
  std::vector<AddressRange> places() const {
    return {{kDirectory, kDirectory + sizeof(tracker::Directory)},
            {kTables, next_},
            {kRoot, kRoot + 64 * 8},
            {kLeaf, kLeaf + 0x10000}};
  }

  FakeTarget target;
  tracker::Directory directory{};

 private:
  static constexpr Address kLeaf{0x7f0000000000};
  static constexpr Address kRoot{0x7f1000000000};
  static constexpr Address kTables{0x7f2000000000};
  static constexpr Address kDirectory{0x7f3000000000};

  template <typename T>
  uint64_t place(const std::vector<T>& values) {
    const Address at = next_;
    target.put_bytes(at, std::as_bytes(std::span(values)));
    next_ = (next_ + values.size() * sizeof(T)).align_up(8);
    return at.value();
  }

  template <typename Entry>
  tracker::ChunkedTable table(const std::vector<Entry>& entries) {
    constexpr size_t kEntries = size_t{1} << kChunkShift;
    std::vector<uint64_t> chunks;
    for (size_t first = 0; first < entries.size(); first += kEntries) {
      std::vector<Entry> chunk(
          entries.begin() + static_cast<ptrdiff_t>(first),
          entries.begin() + static_cast<ptrdiff_t>(std::min(entries.size(), first + kEntries)));
      chunk.resize(kEntries);
      chunks.push_back(place(chunk));
    }
    tracker::ChunkedTable table{};
    table.count = entries.size();
    table.entry_size = sizeof(Entry);
    table.chunk_shift = kChunkShift;
    table.chunk_capacity = static_cast<uint32_t>(chunks.size() + 8);
    chunks.resize(table.chunk_capacity);
    table.chunks = place(chunks);
    return table;
  }

  Address next_ = kTables;
  std::vector<tracker::StackNode> nodes_;
  std::vector<tracker::StackRecord> stacks_;
  std::vector<tracker::ThreadRecord> threads_;
  std::vector<tracker::ModuleRecord> modules_;
  std::vector<tracker::FunctionRecord> functions_;
  std::vector<tracker::Region> regions_;
};

}  // namespace heapsnap
