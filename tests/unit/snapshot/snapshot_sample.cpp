#include "snapshot_sample.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace heapsnap::test {

void ChunkCollector::on_batch(const ChunkBatch& batch) {
  Address at = batch.begin;
  for (size_t i = 0; i < batch.sizes.size(); ++i) {
    chunks.push_back({at, batch.sizes[i], batch.states[i], batch.arena, batch.segment});
    if (!batch.stacks.empty()) chunks.back().stack = batch.stacks[i];
    if (!batch.slacks.empty()) chunks.back().slack = batch.slacks[i];
    at += batch.sizes[i];
  }
}

Everything read_all(const SnapshotReader& reader) {
  Everything all;
  ChunkCollector collector;
  reader.read_chunks(collector);
  all.chunks = std::move(collector.chunks);
  all.mmapped = std::move(collector.mmapped);
  reader.read_pages([&](const SnapshotReader::PageRun& run) { all.pages.push_back(run); });
  reader.read_contents([&](Address from, std::span<const std::byte> bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) all.contents.emplace_back(from + i, bytes[i]);
  });
  all.call_stacks = reader.read_call_stacks();
  return all;
}

Address OwnedBatch::end() const {
  Address at = begin;
  for (const uint64_t size : sizes) at += size;
  return at;
}

OwnedBatch random_batch(std::mt19937_64& random, Address begin, size_t count, uint64_t low,
                        uint64_t high, unsigned one_in_free) {
  std::uniform_int_distribution<uint64_t> request(low, high);
  OwnedBatch batch;
  batch.begin = begin;
  for (size_t i = 0; i < count; ++i) {
    batch.sizes.push_back(std::max<uint64_t>(32, (request(random) + 8 + 15) & ~uint64_t{15}));
    const bool is_free = one_in_free != 0 && random() % one_in_free == 0;
    batch.states.push_back(is_free ? static_cast<ChunkState>(1 + random() % 5) : ChunkState::kUsed);
  }
  return batch;
}

namespace {

RuntimeModel full_runtimes() {
  RuntimeModel model;
  Runtime python;
  python.kind = RuntimeKind::kPython;
  python.version = "3.11.2";
  python.module = "/usr/bin/python3.11";
  python.place = Address(0xa5eb40);
  uint64_t next = 1;
  for (uint64_t* const field :
       {&python.interpreters, &python.objects, &python.areas, &python.area_bytes,
        &python.used_bytes, &python.free_bytes, &python.overhead_bytes, &python.free_page_bytes,
        &python.alignment_bytes, &python.other_slots, &python.other_slot_bytes,
        &python.damaged_pages, &python.unread_bytes, &python.unswept_slots,
        &python.unswept_bytes}) {
    *field = next++ * 1000;
  }
  python.collector = "sweeping";
  Runtime other;
  other.kind = RuntimeKind::kRuby;
  other.why_not = "heapsnap does not know how Ruby 9.9.9 lays out its memory";
  Runtime server;
  server.kind = RuntimeKind::kPostgres;
  server.version = "15.20";
  for (uint64_t* const field :
       {&server.contexts, &server.damaged_contexts, &server.spare_contexts, &server.spare_bytes,
        &server.other_malloc_blocks, &server.other_malloc_bytes}) {
    *field = next++ * 1000;
  }
  model.runtimes = {python, other, server};
  model.classes = {{0, "Order", 4000, 3000, 1 << 20, UINT64_MAX, 7}, {1, "", 0, 0, 0, 0, 0}};
  model.types = {{0, "DATA", "VM/thread", 5, 6, 7, 8, UINT64_MAX}, {1, "", "", 0, 0, 0, 0, 0}};
  model.pages = {{0, 16, 1, 2, 3, 0}, {0, 512, 4, 5, 6, 7}};
  model.areas.push_back({0,
                         {Address(0x7f0000100000), Address(0x7f0000200000)},
                         {0x80000, 0x40000, 0x40000},
                         {0x40000, 1, 2},
                         {0x40000, 0, 0},
                         true});
  model.areas.push_back({1, {Address(0x1000), Address(0x1000)}, {}, {}, {}, false, true});
  RuntimeContext top;
  top.runtime = 2;
  top.kind = ContextKind::kAllocSet;
  top.at = Address(0x555555601000);
  top.name = "TopMemoryContext";
  top.blocks = 5;
  top.bytes = 97680;
  top.free_bytes = 13072;
  top.free_chunks = 7;
  top.used_chunks = 900;
  top.counts_chunks = true;
  top.malloc_blocks = 6;
  top.in_heaps = {97720, 90000, 7720};
  RuntimeContext child;
  child.runtime = 2;
  child.parent = 0;
  child.level = 1;
  child.kind = ContextKind::kBump;
  child.at = Address(0x7f0000300000);
  child.name = "Caller tuples";
  child.ident = "SELECT 1";
  child.in_mappings = {1 << 20, 1 << 20, 0};
  child.problem = "its blocks have 8 bytes, but it counts 16";
  model.contexts = {top, child};
  return model;
}

}  // namespace

SnapshotMetadata full_metadata(size_t arenas, size_t segments) {
  SnapshotMetadata all;
  all.writer = "heapsnap test";
  all.notes = {"first note", "second note with \xff byte"};
  Process& process = all.process;
  process = {4711,
             "postgres",
             "/usr/bin/postgres",
             std::string("postgres\0-D", 11),
             "host",
             "boot-id",
             9876,
             1000,
             Machine::kAarch64,
             65536,
             123456,
             654321,
             -5,
             11,
             "c0ffee"};
  all.collection = Collection{"host/db/20260131T235959Z-4711.hsnap"};
  all.memory_left = MemoryLeft{1U << 20, "memory limit of /db"};
  FreezeRecord& freeze = all.freeze;
  freeze.method = FreezeMethod::kFork;
  freeze.why = "fork takes 3 ms, stop 90 ms";
  freeze.pause_ns = 1;
  freeze.reap_pause_ns = 2;
  freeze.threads = 3;
  freeze.threads_in_malloc = 4;
  freeze.steps = 5;
  freeze.syscalls_restarted = 6;
  freeze.notes = {"a", "b"};
  all.threads.push_back({4711, "main", Registers{Address(1), Address(2), Address(3)}});
  all.threads.push_back({4712, "", std::nullopt});
  for (uint64_t i = 0; i < 5; ++i) {
    Mapping mapping;
    mapping.range = {Address(0x10000 * (i + 1)), Address(0x10000 * (i + 1) + 0x8000)};
    mapping.readable = i % 2 == 0;
    mapping.writable = i % 3 == 0;
    mapping.executable = i % 2 == 1;
    mapping.shared = i == 4;
    mapping.file_offset = i << 40;
    mapping.device_major = static_cast<uint32_t>(i);
    mapping.device_minor = 0xffffffff;
    mapping.inode = UINT64_MAX - i;
    mapping.path = std::string(i * 10, 'x');
    mapping.deleted = i == 3;
    all.mappings.push_back(mapping);
    all.usage.push_back({i, i + 1, i + 2, i + 3, i + 4, uint64_t{1} << 54});
  }
  HeapModel& heap = all.heap;
  heap.foreign_allocator = "jemalloc";
  heap.foreign_answers_malloc = true;
  heap.instances.push_back({"/lib/libc.so.6",
                            "abcdef",
                            {2, 36},
                            DiscoveryStrategy::kRelocation,
                            "table L2/P35",
                            Address(0x7f0000000000),
                            Address(0x7f0000001000),
                            7,
                            8,
                            9,
                            {"the sources disagree", "twice"}});
  heap.instances.push_back({"/opt/static",
                            "",
                            {},
                            DiscoveryStrategy::kStructuralScan,
                            "debug info",
                            Address(UINT64_MAX),
                            Address(),
                            0,
                            UINT64_MAX,
                            0,
                            {}});
  for (size_t i = 0; i < arenas; ++i) {
    heap.arenas.push_back({Address(0x7f0000000000 - i * 0x4000000), static_cast<uint32_t>(i % 2),
                           i == 0, i % 2 == 1, i % 3 == 1, i * 100, i * 200, i, Address(i), i});
  }
  for (size_t i = 0; i < segments; ++i) {
    heap.segments.push_back({{Address(i * 0x1000), Address(i * 0x1000 + 0x800)},
                             static_cast<int32_t>(i % arenas),
                             static_cast<SegmentKind>(i % 3),
                             i * 7});
  }
  heap.thread_caches.push_back({4711, Address(0x5555), 0, 10, 20});
  heap.thread_caches.push_back({4712, Address(), -1, 0, 0});
  heap.corruptions.push_back({Address(0x123), 0, 0, "size 0x7 at chunk 0x123"});
  heap.corruptions.push_back({Address(), -1, -1, "no arena"});
  all.runtimes = full_runtimes();
  return all;
}

TrackerRecord full_tracker() {
  TrackerRecord tracker;
  tracker.version = 1;
  tracker.directory = Address(0x7f1000000000);
  tracker.recording = true;
  tracker.pid = 4711;
  uint64_t next = 2;
  for (uint64_t* field :
       {&tracker.generation, &tracker.start_count, &tracker.started_ns, &tracker.recorded_ns,
        &tracker.sample_bytes, &tracker.memory_limit, &tracker.memory_reserved,
        &tracker.memory_used, &tracker.dropped_slots, &tracker.dropped_stacks,
        &tracker.nested_events, &tracker.dropped_threads, &tracker.slow_unwinds,
        &tracker.full_unwinds, &tracker.limit_reached_ns, &tracker.unrecorded}) {
    *field = next++ * 1000;
  }
  tracker.max_frames = 64;
  tracker.limits = 5;
  tracker.modules.push_back({"/bin/program",
                             "0a0b",
                             0x555500000000,
                             {Address(0x555500000000), Address(0x555500010000)},
                             1,
                             0});
  tracker.modules.push_back({"", "", UINT64_MAX, {Address(1), Address(1)}, 2, 3});
  tracker.threads.push_back({4711, "main", false, 1, 2, 3, 4, 5, 6});
  tracker.threads.push_back({0, std::string("\xff\x01", 2), true, UINT64_MAX, 8, 9, 10, 11, 12});
  tracker.memory = {{Address(0x7f0000000000), Address(0x7f0000401000)},
                    {Address(0x7f0000800000), Address(0x7f0000801000)}};
  tracker.notes = {"a note", "another"};
  return tracker;
}

RecordedStacks full_call_stacks() {
  RecordedStacks all;
  all.stacks.nodes.resize(tracker::kFirstNode);
  for (uint32_t i = 0; i < 50; ++i) {
    all.stacks.nodes.push_back({i < 3 ? i : tracker::kFirstNode + i / 2,
                                static_cast<int32_t>(i % 3) - 1, Address(0x401000 + i * 77)});
  }
  const Address interpreted(tracker::kInterpreterFrame | 5ULL << tracker::kFunctionShift | 12);
  all.stacks.nodes.push_back({tracker::kFirstNode, -1, interpreted});
  for (uint32_t i = 0; i < 20; ++i) {
    all.stacks.sites.push_back({i < 2 ? 0 : tracker::kFirstNode + i * 2, i, i % 2 * 4096ULL,
                                uint64_t{i} << 40, i, i * 3, i * 4});
  }
  SourceFrames& symbols = all.symbols;
  const std::vector<SourceFrame> inlined = {
      {symbols.intern("inner"), symbols.intern("a.h"), 3, 0, true},
      {symbols.intern("outer(int)"), symbols.intern("/src/a.cpp"), 40, 9, false}};
  const SourceFrame plain{symbols.intern("outer(int)"), 0, 0, 12, false};
  const SourceFrame python{
      symbols.intern("Shop.handle"), symbols.intern("/app/shop.py"), 31, 12, false,
      FrameLanguage::kPython};
  symbols.add(-1, Address(0x401000), {&plain, 1});
  symbols.add(0, Address(0x401000 + 77), inlined);
  symbols.add(1, Address(0x401000 + 2 * 77), {&plain, 1});
  symbols.add(-1, interpreted, {&python, 1});
  symbols.sort();
  return all;
}

void add_stacks(std::mt19937_64& random, OwnedBatch& batch) {
  for (size_t i = 0; i < batch.sizes.size(); ++i) {
    batch.stacks.push_back(static_cast<uint32_t>(random() % (i % 50 == 0 ? 1U << 27 : 3)));
    batch.slacks.push_back(static_cast<uint8_t>(random() % 32));
  }
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = std::filesystem::temp_directory_path() / "heapsnap-test-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> TemporaryDirectory::names() const {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    all.push_back(entry.path().filename());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out) throw std::runtime_error("cannot write " + path);
}

void write_small_snapshot(const std::string& path) {
  std::mt19937_64 random(1);
  SnapshotWriter writer({path, false});
  OwnedBatch batch = random_batch(random, Address(0x555500000000), 200, 16, 1024, 6);
  batch.sizes[7] = uint64_t{70} << 30;
  batch.sizes[8] = 5000;
  batch.states[8] = ChunkState::kTop;
  batch.states[9] = ChunkState::kFence;
  batch.states[10] = ChunkState::kUnknown;
  writer.on_batch(batch.view());
  OwnedBatch other = random_batch(random, Address(0x7f1230000000), 90, 1, 64, 2);
  other.arena = 1;
  other.segment = 1;
  add_stacks(random, other);
  writer.on_batch(other.view());
  other.begin = other.end() + 0x100;  // a hole
  writer.on_batch(other.view());
  for (uint64_t i = 0; i < 4; ++i) {
    writer.on_mmapped({Address(0x7f5500000000 + i * 0x100000),
                       Address(0x7f5500000010 + i * 0x100000), 0x41000, 0x40ff0, 0x40fe0,
                       i == 3 ? ChunkState::kTcache : ChunkState::kMmapped,
                       static_cast<uint32_t>(i % 2)});
  }
  const std::vector<PageState> pages = {PageState::kResident, PageState::kResident,
                                        PageState::kAbsent,   PageState::kSwapped,
                                        PageState::kUnknown,  PageState::kResidentHuge};
  writer.on_pages(Address(0x555500000000), 4096, pages);
  writer.on_pages(Address(0x7f1230000000), 4096, pages);
  std::vector<std::byte> bytes(300);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i);
  writer.on_contents(Address(0x555500000000), bytes);
  writer.on_contents(Address(0x7f1230000000), bytes);
  const RecordedStacks stacks = full_call_stacks();
  writer.on_call_stacks(stacks.stacks);
  writer.on_symbols(stacks.symbols);
  SnapshotMetadata metadata = full_metadata(2, 2);
  metadata.tracker = full_tracker();
  writer.finish(metadata);
}

std::vector<std::byte> small_snapshot() {
  const TemporaryDirectory directory;
  write_small_snapshot(directory.file("small.hsnap"));
  return read_file(directory.file("small.hsnap"));
}

}  // namespace heapsnap::test
