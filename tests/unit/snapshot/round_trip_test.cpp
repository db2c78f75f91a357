#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "snapshot_sample.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// What a reader has to give for these batches: in ascending order of address.
std::vector<OneChunk> expected_chunks(const std::vector<OwnedBatch>& batches) {
  ChunkCollector all;
  for (const auto& batch : batches) all.on_batch(batch.view());
  std::stable_sort(all.chunks.begin(), all.chunks.end(),
                   [](const auto& a, const auto& b) { return a.address < b.address; });
  return all.chunks;
}

std::vector<OneChunk> round_trip(const std::vector<OwnedBatch>& batches, size_t arenas,
                                 size_t segments, bool deferred = false) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  SnapshotWriter writer({path, false});
  writer.set_deferred(deferred);
  for (const auto& batch : batches) writer.on_batch(batch.view());
  writer.finish(full_metadata(arenas, segments));
  const SnapshotReader reader = SnapshotReader::open(path);
  auto all = read_all(reader);
  CHECK(reader.chunk_count() == all.chunks.size());
  CHECK(reader.file_size() == read_file(path).size());
  return all.chunks;
}

}  // namespace

TEST_CASE("metadata come back field by field") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  const SnapshotMetadata wrote = full_metadata(3, 7);
  SnapshotWriter(SnapshotOutput{path, false}).finish(wrote);
  const SnapshotReader reader = SnapshotReader::open(path);
  const SnapshotMetadata& read = reader.metadata();

  CHECK(read.writer == wrote.writer);
  CHECK(read.notes == wrote.notes);
  const Process &p = read.process, &q = wrote.process;
  CHECK(p.pid == q.pid);
  CHECK(p.comm == q.comm);
  CHECK(p.exe == q.exe);
  CHECK(p.command_line == q.command_line);
  CHECK(p.hostname == q.hostname);
  CHECK(p.boot_id == q.boot_id);
  CHECK(p.start_time_ticks == q.start_time_ticks);
  CHECK(p.uid == q.uid);
  CHECK(p.machine == q.machine);
  CHECK(p.page_size == q.page_size);
  CHECK(p.rss == q.rss);
  CHECK(p.swap == q.swap);
  CHECK(p.taken_at_ns == q.taken_at_ns);
  CHECK(p.fatal_signal == q.fatal_signal);
  CHECK(p.build_id == q.build_id);
  CHECK(read.collection == wrote.collection);
  CHECK(read.memory_left == wrote.memory_left);
  CHECK(read.runtimes == wrote.runtimes);
  const FreezeRecord &f = read.freeze, &g = wrote.freeze;
  CHECK(f.method == g.method);
  CHECK(f.why == g.why);
  CHECK(f.pause_ns == g.pause_ns);
  CHECK(f.reap_pause_ns == g.reap_pause_ns);
  CHECK(f.threads == g.threads);
  CHECK(f.threads_in_malloc == g.threads_in_malloc);
  CHECK(f.steps == g.steps);
  CHECK(f.syscalls_restarted == g.syscalls_restarted);
  CHECK(f.notes == g.notes);
  REQUIRE(read.threads.size() == 2);
  CHECK(read.threads[0].tid == 4711);
  CHECK(read.threads[0].name == "main");
  REQUIRE(read.threads[0].registers.has_value());
  CHECK(read.threads[0].registers->instruction_pointer == Address(1));
  CHECK(read.threads[0].registers->stack_pointer == Address(2));
  CHECK(read.threads[0].registers->thread_pointer == Address(3));
  CHECK_FALSE(read.threads[1].registers.has_value());
  CHECK(read.mappings == wrote.mappings);
  CHECK(read.usage == wrote.usage);
  CHECK(read.heap.foreign_allocator == wrote.heap.foreign_allocator);
  CHECK(read.heap.foreign_answers_malloc == wrote.heap.foreign_answers_malloc);
  CHECK(read.heap.instances == wrote.heap.instances);
  CHECK(read.heap.arenas == wrote.heap.arenas);
  CHECK(read.heap.segments == wrote.heap.segments);
  CHECK(read.heap.thread_caches == wrote.heap.thread_caches);
  CHECK(read.heap.corruptions == wrote.heap.corruptions);
}

TEST_CASE("a snapshot of nothing") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  SnapshotWriter(SnapshotOutput{path, false}).finish({});
  const SnapshotReader reader = SnapshotReader::open(path);
  const Everything all = read_all(reader);
  CHECK(reader.chunk_count() == 0);
  CHECK(all.chunks.empty());
  CHECK(all.mmapped.empty());
  CHECK(all.pages.empty());
  CHECK(all.contents.empty());
  CHECK(reader.metadata().mappings.empty());
}

TEST_CASE("random batches come back chunk for chunk") {
  std::mt19937_64 random(42);
  for (const size_t count : {size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{4096},
                             size_t{262143}, size_t{262144}, size_t{262145}, size_t{700001}}) {
    for (const unsigned one_in_free : {0U, 1U, 7U}) {
      CAPTURE(count);
      CAPTURE(one_in_free);
      const std::vector<OwnedBatch> batches = {
          random_batch(random, Address(0x555500000000), count, 0, 6000, one_in_free)};
      CHECK(round_trip(batches, 1, 1) == expected_chunks(batches));
    }
  }
}

TEST_CASE("many arenas, holes, and batches of every length") {
  std::mt19937_64 random(43);
  std::vector<OwnedBatch> batches;
  std::vector<Address> next(20);
  for (size_t i = 0; i < next.size(); ++i) next[i] = Address((20 - i) << 36);
  for (int i = 0; i < 2000; ++i) {
    const uint32_t segment = i % 100 < 50 ? static_cast<uint32_t>(random() % 20) : 3;
    OwnedBatch batch = random_batch(random, next[segment], random() % 300, 16, 512, 5);
    batch.segment = segment;
    batch.arena = static_cast<int32_t>(segment % 6);
    next[segment] = batch.end() + (random() % 3 == 0 ? 0x1000 : 0);
    batches.push_back(std::move(batch));
  }
  const auto expected = expected_chunks(batches);
  CHECK(round_trip(batches, 6, 20) == expected);
  CHECK(round_trip(batches, 6, 20, true) == expected);
}

TEST_CASE("sizes of every kind") {
  OwnedBatch batch;
  batch.begin = Address(0x1000);
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{8}, uint64_t{15}, uint64_t{16},
        uint64_t{24}, uint64_t{254 * 16}, uint64_t{255 * 16}, uint64_t{256 * 16}, uint64_t{254 * 8},
        uint64_t{255 * 8}, uint64_t{65} << 30, uint64_t{1} << 46, (uint64_t{1} << 55) + 3,
        uint64_t{1} << 56}) {
    batch.sizes.push_back(size);
    batch.states.push_back(static_cast<ChunkState>(batch.sizes.size() % kChunkStateCount));
  }
  CHECK(round_trip({batch}, 1, 1) == expected_chunks({batch}));

  SUBCASE("multiples of eight, as on i386 before glibc 2.26") {
    std::mt19937_64 random(44);
    OwnedBatch small = random_batch(random, Address(0x8000000), 10000, 16, 100, 4);
    OwnedBatch eights = small;
    eights.begin = small.end();
    for (size_t i = 0; i < eights.sizes.size(); i += 2) eights.sizes[i] += 8;
    CHECK(round_trip({small, eights}, 1, 1) == expected_chunks({small, eights}));
  }
}

TEST_CASE("chunks that leave the address space are a bug of the walker") {
  const TemporaryDirectory directory;
  SnapshotWriter writer({directory.file("a.hsnap"), false});
  OwnedBatch batch;
  batch.begin = Address(UINT64_MAX - 100);
  batch.sizes = {32, 64, 32};
  batch.states.assign(3, ChunkState::kUsed);
  CHECK_THROWS_AS(writer.on_batch(batch.view()), Error);
}

TEST_CASE("a damaged target's overlapping segments are read, not refused") {
  std::mt19937_64 random(45);
  OwnedBatch first = random_batch(random, Address(0x10000), 1000, 16, 64, 3);
  OwnedBatch second = random_batch(random, Address(0x10040), 1000, 16, 64, 3);
  second.segment = 1;
  ChunkCollector expected;
  expected.on_batch(first.view());
  expected.on_batch(second.view());
  CHECK(round_trip({second, first}, 1, 2) == expected.chunks);
}

TEST_CASE("mmapped chunks, more than one section of them") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  std::vector<MmappedChunk> wrote;
  SnapshotWriter writer({path, false});
  std::mt19937_64 random(46);
  for (uint64_t i = 0; i < 150000; ++i) {
    MmappedChunk chunk;
    chunk.mapping_begin = Address(random() >> 16);
    chunk.chunk = chunk.mapping_begin + random() % 4096;
    chunk.total = random() >> 24;
    chunk.size = chunk.total - 16;
    chunk.usable = chunk.total - 32;
    chunk.state = i % 5 == 0 ? ChunkState::kTcache : ChunkState::kMmapped;
    chunk.instance = static_cast<uint32_t>(i % 2);
    wrote.push_back(chunk);
    writer.on_mmapped(chunk);
  }
  writer.finish(full_metadata(1, 1));
  const SnapshotReader reader = SnapshotReader::open(path);
  CHECK(read_all(reader).mmapped == wrote);
  CHECK(read_all(reader).mmapped == wrote);  // twice
  CHECK(reader.chunk_count() == 0);
}

TEST_CASE("page states come back as the longest runs") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  SnapshotWriter writer({path, false});
  std::mt19937_64 random(47);
  std::vector<std::pair<Address, PageState>> wrote;
  Address at(0x10000);
  for (int i = 0; i < 3000; ++i) {
    std::vector<PageState> states;
    for (size_t k = random() % 2000; k > 0; --k) {
      states.push_back(static_cast<PageState>(random() % 8 < 5 ? 1 : random() % 6));
    }
    writer.on_pages(at, 4096, states);
    for (const PageState state : states) {
      wrote.emplace_back(at, state);
      at += 4096;
    }
    if (random() % 10 == 0) at += 4096 * (random() % 1000);
  }
  writer.finish(full_metadata(1, 1));
  std::vector<std::pair<Address, PageState>> read;
  SnapshotReader::PageRun last;
  bool longest = true;
  SnapshotReader::open(path).read_pages([&](const SnapshotReader::PageRun& run) {
    if (last.range.end == run.range.begin && last.state == run.state) longest = false;
    last = run;
    for (Address page = run.range.begin; page < run.range.end; page += 4096) {
      read.emplace_back(page, run.state);
    }
  });
  CHECK(longest);
  CHECK(read == wrote);
}

TEST_CASE("page states of two page sizes") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  SnapshotWriter writer({path, false});
  const std::vector<PageState> two(2, PageState::kResident);
  writer.on_pages(Address(0x1000), 4096, two);
  writer.on_pages(Address(0x10000), 65536, two);
  CHECK_THROWS_AS(writer.on_pages(Address(0x10000), 4096, two), Error);
  CHECK_THROWS_AS(writer.on_pages(Address(0x100001), 4096, two), Error);
  CHECK_THROWS_AS(writer.on_pages(Address(0x100000), 100, two), Error);
  writer.finish({});
  const auto pages = read_all(SnapshotReader::open(path)).pages;
  REQUIRE(pages.size() == 2);
  CHECK(pages[0].range == AddressRange{Address(0x1000), Address(0x3000)});
  CHECK(pages[1].range == AddressRange{Address(0x10000), Address(0x30000)});
}

TEST_CASE("contents come back byte for byte") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  SnapshotWriter writer({path, false});
  std::mt19937_64 random(48);
  std::vector<std::pair<Address, std::byte>> wrote;
  Address at(0x7f0000000000);
  for (const size_t length : {size_t{1}, size_t{0}, size_t{100}, size_t{5000000}, size_t{4096},
                              size_t{1048576}, size_t{3}, size_t{2097152}}) {
    std::vector<std::byte> bytes(length);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    writer.on_contents(at, bytes);
    for (size_t i = 0; i < length; ++i) wrote.emplace_back(at + i, bytes[i]);
    at += length + (length % 3 == 0 ? 0 : 64);
  }
  const std::byte late[1] = {};
  CHECK_THROWS_AS(writer.on_contents(Address(0x7f0000000000), late), Error);
  writer.finish({});
  const SnapshotReader reader = SnapshotReader::open(path);
  CHECK(read_all(reader).contents == wrote);
  CHECK(reader.has_contents());
  // Parts of it, of one section and of several.
  for (const auto& [first, count] : {std::pair<size_t, size_t>{0, 1},
                                     {50, 100},
                                     {1'000'000, 2'500'000},
                                     {wrote.size() - 3, 3}}) {
    std::vector<std::pair<Address, std::byte>> part;
    reader.read_contents({wrote[first].first, wrote[first + count - 1].first + 1},
                         [&](Address from, std::span<const std::byte> bytes) {
                           for (size_t i = 0; i < bytes.size(); ++i) {
                             part.emplace_back(from + i, bytes[i]);
                           }
                         });
    CHECK(std::equal(part.begin(), part.end(), wrote.begin() + static_cast<ptrdiff_t>(first),
                     wrote.begin() + static_cast<ptrdiff_t>(first + count)));
  }
}

TEST_CASE("very long texts are cut, not refused") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  SnapshotMetadata metadata;
  metadata.process.command_line.assign(3U << 20, 'x');
  SnapshotWriter(SnapshotOutput{path, false}).finish(metadata);
  const SnapshotReader reader = SnapshotReader::open(path);
  const std::string& read = reader.metadata().process.command_line;
  CHECK(read.size() == (1U << 20));
  CHECK(read.ends_with("xxx..."));
}

TEST_CASE("chunks of an arena that the metadata lack are refused at the end") {
  const TemporaryDirectory directory;
  std::mt19937_64 random(49);
  SnapshotWriter writer({directory.file("a.hsnap"), false});
  OwnedBatch batch = random_batch(random, Address(0x1000), 10, 16, 64, 0);
  batch.arena = 2;
  writer.on_batch(batch.view());
  CHECK_THROWS_AS(writer.finish(full_metadata(2, 1)), Error);
}
