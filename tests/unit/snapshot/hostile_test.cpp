// Files made to harm: checksums are right, what they say is not.
#include <doctest/doctest.h>
#include <unistd.h>
#include <zstd.h>

#include <functional>

#include "base/error.h"
#include "crafted_file.h"
#include "snapshot/byte_writer.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata_tables.h"
#include "snapshot/snapshot_writer.h"
#include "snapshot_sample.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr uint64_t kMost = UINT64_MAX;

std::string error_of_block(const std::function<void(CraftedBlock&)>& spoil) {
  CraftedFile file;
  file.add_metadata();
  CraftedBlock block;
  spoil(block);
  block.add_to(file);
  return error_of(file.finish());
}

std::string error_of_section(uint16_t kind, uint32_t items, Address begin,
                             const std::vector<StoredColumn>& columns) {
  CraftedFile file;
  file.add_metadata();
  file.add_stored(kind, items, begin, columns);
  return error_of(file.finish());
}

std::string error_of_metadata(const std::function<void(SnapshotMetadata&)>& spoil) {
  CraftedFile file;
  SnapshotMetadata metadata = full_metadata(2, 2);
  spoil(metadata);
  write_metadata(metadata, file);
  return error_of(file.finish());
}

std::string error_of_table(const Bytes& table) {
  return error_of_section(4, 1, Address(), {raw_column(format::kTableRows, table)});
}

Bytes compressed(const Bytes& raw) {
  Bytes out(ZSTD_compressBound(raw.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), 1));
  return out;
}

bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the blocks and sections that the cases below spoil are fine as they are") {
  CHECK(error_of_block([](CraftedBlock&) {}) == "");
  CHECK(error_of_metadata([](SnapshotMetadata&) {}) == "");
  CHECK(error_of_section(2, 1, Address(0x1000),
                         {raw_column(1, varints({4096, 0x1000, 1 << 4 | 2}))}) == "");
  CHECK(error_of_section(3, 1, Address(5),
                         {raw_column(1, varints({5, 2})), raw_column(2, bytes_of({1, 2}))}) == "");
}

TEST_CASE("chunk blocks whose columns do not fit together") {
  using Block = CraftedBlock;
  CHECK(error_of_block([](Block& b) { b.items = 0; }) != "");
  CHECK(error_of_block([](Block& b) { b.items = 4; }) != "");
  CHECK(error_of_block([](Block& b) { b.items = 0xffffffff; }) != "");
  CHECK(error_of_block([](Block& b) { b.size_codes.clear(); }) != "");
  CHECK(error_of_block([](Block& b) { b.size_codes.resize(2); }) != "");
  CHECK(error_of_block([](Block& b) { b.large_sizes.clear(); }) != "");
  CHECK(error_of_block([](Block& b) { b.large_sizes = varints({1, 2}); }) != "");
  CHECK(error_of_block([](Block& b) { b.large_sizes = bytes_of({0x80}); }) != "");
  CHECK(error_of_block([](Block& b) { b.state_bits.clear(); }) != "");
  CHECK(error_of_block([](Block& b) { b.state_bits.resize(2); }) != "");
  CHECK(error_of_block([](Block& b) { b.state_bits = bytes_of({7}); }) != "");
  CHECK(error_of_block([](Block& b) { b.other_states.clear(); }) != "");
  CHECK(error_of_block([](Block& b) { b.other_states.resize(2); }) != "");
  CHECK(error_of_block([](Block& b) { b.runs.clear(); }) != "");
  CHECK(error_of_block([](Block& b) { b.runs = varints({0, 1, 4}); }) != "");
  CHECK(error_of_block([](Block& b) { b.runs = varints({0, 1, 4, 0x1000, 2}); }) != "");
  CHECK(error_of_block([](Block& b) { b.runs = varints({0, 1, 4, 0x1000, 4}); }) != "");
  CHECK(error_of_block([](Block& b) { b.runs = varints({0, 1, 4, 0x1000, kMost}); }) != "");
  CHECK(error_of_block([](Block& b) { b.runs = varints({0, 1, 4, 0x1000, 3, 0}); }) != "");
  CHECK(error_of_block([](Block& b) { b.runs = varints({0, 1, 4, 0x1000, 3, 0, 0}); }) != "");
  CHECK(error_of_block([](Block& b) { b.runs = varints({0, 1, 63, 0x1000, 3}); }) != "");
  CHECK(error_of_block([](Block& b) { b.begin = Address(0x2000); }) != "");
}

TEST_CASE("a block of more chunks than one may have") {
  CHECK(error_of_block([](CraftedBlock& b) {
          b.items = format::kMaxChunksInBlock + 1;
          b.runs = varints({0, 1, 4, 0x1000, b.items});
          b.size_codes.assign(b.items, std::byte{2});
          b.large_sizes.clear();
          b.state_bits.assign(b.items / 8 + 1, std::byte{});
          b.other_states.clear();
        }) != "");
}

TEST_CASE("chunks of arenas and segments that are not there") {
  CHECK(error_of_block([](CraftedBlock& b) { b.runs = varints({1, 1, 4, 0x1000, 3}); }) != "");
  CHECK(error_of_block([](CraftedBlock& b) { b.runs = varints({4, 1, 4, 0x1000, 3}); }) != "");
  CHECK(error_of_block([](CraftedBlock& b) { b.runs = varints({0, 2, 4, 0x1000, 3}); }) != "");
  CHECK(error_of_block([](CraftedBlock& b) { b.runs = varints({0, kMost, 4, 0x1000, 3}); }) != "");
}

TEST_CASE("chunks that leave the address space, and sums that overflow") {
  CHECK(mentions(error_of_block([](CraftedBlock& b) { b.large_sizes = varints({kMost}); }),
                 "overflow"));
  CHECK(mentions(error_of_block([](CraftedBlock& b) { b.large_sizes = varints({kMost - 0x1000}); }),
                 "beyond the address space"));
  CHECK(error_of_block([](CraftedBlock& b) {
          b.begin = Address(kMost - 100);
          b.runs = varints({0, 1, 4, kMost - 100, 3});
        }) != "");
  CHECK(error_of_block([](CraftedBlock& b) {
          b.runs = varints({0, 1, 4, 0x1000, 1, kMost, 2});
        }) != "");
  // Each alone fits, together they do not.
  CraftedFile file;
  file.add_metadata();
  CraftedBlock block;
  block.large_sizes = varints({uint64_t{1} << 56});
  block.add_to(file);
  CHECK(error_of(file.finish()) == "");
  block.add_to(file);
  CHECK(mentions(error_of(file.finish()), "larger than the address space"));
}

TEST_CASE("columns that lie about their length") {
  const Bytes zeros(100);
  const auto with_codes = [](const StoredColumn& codes) {
    const CraftedBlock b;
    return error_of_section(1, 3, b.begin,
                            {raw_column(1, b.runs), codes, raw_column(3, b.large_sizes),
                             raw_column(4, b.state_bits), raw_column(5, b.other_states)});
  };
  const Bytes codes = bytes_of({2, 255, 3});
  const Bytes packed = compressed(codes);
  CHECK(with_codes({2, 1, 3, packed}) == "");
  CHECK(with_codes({2, 0, 4, codes}) != "");
  CHECK(with_codes({2, 1, 4, packed}) != "");
  CHECK(with_codes({2, 1, 2, packed}) != "");
  CHECK(with_codes({2, 1, 3, codes}) != "");
  CHECK(with_codes({2, 1, 3, Bytes(packed.begin(), packed.end() - 1)}) != "");
  CHECK(with_codes({2, 7, 3, codes}) != "");
  CHECK(with_codes({2, 1, 0xffffffff, packed}) != "");
  // A frame that grows beyond what a column may be.
  const Bytes bomb(format::kMaxColumnSize + 1);
  CHECK(mentions(with_codes({2, 1, format::kMaxColumnSize + 1, compressed(bomb)}), "too long"));
}

TEST_CASE("sections whose directory does not fill them") {
  CraftedFile file;
  file.add_metadata();
  Bytes section = stored_section(1, 1, {raw_column(1, bytes_of({1, 2, 3}))});
  const auto error_with = [&](size_t offset, unsigned value) {
    Bytes spoilt = section;
    spoilt[offset] = static_cast<std::byte>(value);
    CraftedFile copy = file;
    copy.add_bytes(spoilt, {format::SectionKind::kChunks, {}, 0, 1, {}});
    return error_of(copy.finish());
  };
  CHECK(error_with(6, 200) != "");  // columns
  CHECK(error_with(8, 255) != "");  // length
  CHECK(error_with(8, 0) != "");
  CHECK(error_with(24, 2) != "");  // stored length of the column
}

TEST_CASE("an index that names what is not there") {
  const Bytes section = stored_section(2, 1, {raw_column(1, varints({4096, 0x1000, 1 << 4 | 2}))});
  const auto error_with = [&](const IndexEntry& entry) {
    CraftedFile file;
    file.add_metadata();
    file.add_bytes(section, entry);
    return error_of(file.finish());
  };
  using format::SectionKind;
  CHECK(error_with({SectionKind::kPages, {}, 0, 1, Address(0x1000)}) == "");
  CHECK(error_with({SectionKind::kPages, {}, 0, 2, Address(0x1000)}) != "");
  CHECK(error_with({SectionKind::kPages, {}, 0, 1, Address(0x2000)}) != "");
  CHECK(error_with({SectionKind::kContents, {}, 0, 1, Address(0x1000)}) != "");
  CHECK(error_with({SectionKind::kPages, {}, section.size() - 1, 1, Address(0x1000)}) != "");
  CHECK(error_with({SectionKind::kPages, {}, section.size() + 1, 1, Address(0x1000)}) != "");
  CHECK(error_with({SectionKind::kPages, {}, kMost, 1, Address(0x1000)}) != "");
}

TEST_CASE("page runs that make no sense") {
  const auto error_with = [](uint32_t items, Address begin, const Bytes& column) {
    return error_of_section(2, items, begin, {raw_column(1, column)});
  };
  CHECK(error_with(1, Address(0x1000), varints({0, 0x1000, 1 << 4 | 2})) != "");
  CHECK(error_with(1, Address(0x1000), varints({4097, 0x1000, 1 << 4 | 2})) != "");
  CHECK(error_with(1, Address(0x1001), varints({4096, 0x1001, 1 << 4 | 2})) != "");
  CHECK(error_with(1, Address(0x1000), varints({4096, 0x1000, 2})) != "");
  CHECK(error_with(1, Address(0x1000), varints({4096, 0x1000, kMost})) != "");
  CHECK(error_with(2, Address(0x1000), varints({4096, 0x1000, 1 << 4 | 2})) != "");
  CHECK(error_with(0, Address(0x1000), varints({4096, 0x1000, 1 << 4 | 2})) != "");
  CraftedFile file;
  file.add_metadata();
  for (int i = 0; i < 2; ++i) {  // the same pages twice
    file.add_stored(2, 1, Address(0x1000), {raw_column(1, varints({4096, 0x1000, 1 << 4 | 2}))});
  }
  CHECK(error_of(file.finish()) != "");
}

TEST_CASE("contents that make no sense") {
  const auto error_with = [](uint32_t items, Address begin, const Bytes& ranges) {
    return error_of_section(3, items, begin,
                            {raw_column(1, ranges), raw_column(2, bytes_of({1, 2}))});
  };
  CHECK(error_with(1, Address(5), varints({5, 1})) != "");
  CHECK(error_with(1, Address(5), varints({5, 3})) != "");
  CHECK(error_with(1, Address(5), varints({5, kMost})) != "");
  CHECK(error_with(1, Address(5), varints({6, 2})) != "");
  CHECK(error_with(2, Address(5), varints({5, 2, 0, 0})) != "");
  CHECK(error_with(2, Address(5), varints({5, 1, kMost, 1})) != "");
  CHECK(error_with(1, Address(kMost), varints({kMost, 2})) != "");
}

TEST_CASE("tables whose counts do not fit their bytes") {
  const auto head = [](const char* name, std::initializer_list<uint64_t> counts) {
    Bytes table;
    append_varint(table, std::string_view(name).size());
    append_text(table, name);
    append_bytes(table, varints(counts));
    return table;
  };
  CHECK(error_of_table({}) != "");
  CHECK(error_of_table(head("notes", {kMost, 0})) != "");
  CHECK(error_of_table(head("notes", {1, kMost})) != "");
  CHECK(error_of_table(head("notes", {0, 0})) == "");
  Bytes column = varints({4});
  append_text(column, "text");
  for (const auto& [rows, length] :
       {std::pair{kMost, uint64_t{1}}, {2, 1}, {1, 2}, {1, kMost}, {1, 0}}) {
    Bytes table = head("notes", {rows, 1});
    append_bytes(table, column);
    append_bytes(table, varints({4, length}));
    append_bytes(table, bytes_of({0}));
    CHECK(error_of_table(table) != "");
  }
  CHECK(error_of_table(varints({kMost})) != "");
}

TEST_CASE("more metadata rows than any process has") {
  Bytes table = varints({5});
  append_text(table, "notes");
  append_bytes(table, varints({format::kMaxMetadataRows + 1, 1, 4}));
  append_text(table, "text");
  append_bytes(table, varints({4, format::kMaxMetadataRows + 1}));
  table.resize(table.size() + format::kMaxMetadataRows + 1);
  CHECK(mentions(error_of_section(4, 1, Address(),
                                  {{format::kTableRows, 1, static_cast<uint32_t>(table.size()),
                                    compressed(table)}}),
                 "more metadata"));
}

TEST_CASE("metadata that do not fit together") {
  using M = SnapshotMetadata;
  CHECK(error_of_metadata([](M& m) { m.process.page_size = 0; }) != "");
  CHECK(error_of_metadata([](M& m) { m.process.page_size = 4097; }) != "");
  CHECK(error_of_metadata([](M& m) { m.process.machine = Machine{9}; }) != "");
  CHECK(error_of_metadata([](M& m) { m.freeze.method = FreezeMethod{9}; }) != "");
  CHECK(error_of_metadata([](M& m) { m.heap.segments[0].kind = SegmentKind{9}; }) != "");
  CHECK(error_of_metadata([](M& m) { std::swap(m.mappings[0], m.mappings[1]); }) != "");
  CHECK(error_of_metadata([](M& m) { m.mappings[0].range.end = m.mappings[0].range.begin; }) != "");
  CHECK(error_of_metadata([](M& m) { m.usage.pop_back(); }) != "");
  CHECK(error_of_metadata([](M& m) { m.heap.arenas[1].instance = 2; }) != "");
  CHECK(error_of_metadata([](M& m) { m.heap.segments[1].arena = 2; }) != "");
  CHECK(error_of_metadata([](M& m) { m.heap.segments[1].arena = -1; }) != "");
  CHECK(error_of_metadata([](M& m) {
          std::swap(m.heap.segments[1].range.begin, m.heap.segments[1].range.end);
        }) != "");
  CHECK(error_of_metadata([](M& m) { m.heap.thread_caches[0].arena = 2; }) != "");
  CHECK(error_of_metadata([](M& m) { m.heap.thread_caches[0].arena = -2; }) != "");
  CHECK(error_of_metadata([](M& m) { m.heap.corruptions[0].segment = 2; }) != "");
  CHECK(error_of_metadata([](M& m) { m.heap.corruptions[0].arena = 2; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.classes[0].runtime = 3; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.types[0].runtime = 3; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.pages[1].runtime = 3; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.areas[0].runtime = 3; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.areas[0].range.end = Address(1); }) != "");
  CHECK(error_of_metadata([](M& m) { ++m.runtimes.areas[0].used.bytes; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.areas.push_back(m.runtimes.areas[0]); }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.runtimes.resize(257); }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.areas[0].free_in_area.bytes = kMost; }) != "");
  CHECK(error_of_metadata([](M& m) { ++m.runtimes.areas[0].used.resident; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.areas[0].used.swapped = kMost; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.contexts[0].runtime = 3; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.contexts[1].parent = 1; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.contexts[1].parent = -2; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.contexts[1].runtime = 0; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.contexts[1].level = 2; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.contexts[1].free_bytes = kMost; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.contexts[1].in_heaps.resident = kMost; }) != "");
  CHECK(error_of_metadata([](M& m) { m.runtimes.contexts[1].in_mappings.swapped = 1; }) != "");
  CHECK(error_of(CraftedFile().finish()) != "");  // no process
}

TEST_CASE("sizes that no address space has, alone and together") {
  using M = SnapshotMetadata;
  const auto error_with_mapping = [](uint64_t begin, uint64_t end) {
    return error_of_metadata([&](M& m) {
      m.mappings.emplace_back().range = {Address(begin), Address(end)};
      m.usage.emplace_back();
    });
  };
  constexpr uint64_t kSpace = uint64_t{1} << 57;
  constexpr uint64_t kVsyscall = 0xffffffffff600000;
  CHECK(error_with_mapping(kVsyscall, kVsyscall + 0x1000) == "");
  CHECK(error_with_mapping(kSpace, kSpace + kSpace / 2) == "");
  // The sample has five others, of 32 KiB each.
  CHECK(error_with_mapping(kSpace, kSpace * 2 - 5 * 0x8000) == "");
  CHECK(
      mentions(error_with_mapping(kSpace, kSpace * 2 - 5 * 0x8000 + 1), "larger than an address"));
  CHECK(mentions(error_with_mapping(kSpace, kVsyscall), "larger than an address"));

  for (const auto field : {&MappingUsage::rss, &MappingUsage::pss, &MappingUsage::anonymous,
                           &MappingUsage::swap, &MappingUsage::anon_huge, &MappingUsage::hugetlb}) {
    const auto error_with = [field](uint64_t first, uint64_t second) {
      return error_of_metadata([&](M& m) {
        for (MappingUsage& usage : m.usage) usage.*field = 0;
        m.usage[0].*field = first;
        m.usage[3].*field = second;
      });
    };
    CHECK(error_with(kSpace, 0) == "");
    CHECK(mentions(error_with(kSpace, 1), "more memory than an address space"));
    CHECK(mentions(error_with(0, kMost), "more memory than an address space"));
  }
  CHECK(error_of_metadata([](M& m) { m.process.rss = kSpace; }) == "");
  CHECK(mentions(error_of_metadata([](M& m) { m.process.rss = kSpace + 1; }), "more memory than"));
  CHECK(mentions(error_of_metadata([](M& m) { m.process.swap = kMost; }), "more memory than"));
}

TEST_CASE("build-ids that are none, which would get to a terminal as they are") {
  using M = SnapshotMetadata;
  for (const char* text : {"\x1b[2J", "\r", "ab/../", "AB"}) {
    CAPTURE(text);
    const auto is_refused = [&](auto change) {
      return mentions(error_of_metadata(change), "a build-id is not");
    };
    CHECK(is_refused([&](M& m) { m.process.build_id = text; }));
    CHECK(is_refused([&](M& m) { m.heap.instances[0].build_id = text; }));
    CHECK(is_refused([&](M& m) {
      m.tracker = full_tracker();
      m.tracker->modules[0].build_id = text;
    }));
  }
  CHECK(error_of_metadata([](M& m) { m.process.build_id = "0123456789abcdef"; }) == "");
  CHECK(error_of_metadata([](M& m) { m.process.build_id = ""; }) == "");
}

TEST_CASE("mmapped chunks of no malloc, larger than all memory, and that leave it") {
  const auto error_with = [](const MmappedChunk& chunk) {
    CraftedFile file;
    file.add_metadata();
    TableBuilder table(TableOf<MmappedChunk>::kName);
    table.add(chunk);
    table.add(chunk);
    Section section;
    table.take(format::SectionKind::kMmappedChunks, section);
    file.add(section);
    return error_of(file.finish());
  };
  MmappedChunk chunk;
  chunk.total = 4096;
  CHECK(error_with(chunk) == "");
  chunk.instance = 2;
  CHECK(error_with(chunk) != "");
  chunk.instance = 0;
  chunk.usable = uint64_t{1} << 56;
  CHECK(error_with(chunk) == "");
  ++chunk.usable;
  CHECK(error_with(chunk) != "");
  chunk.usable = 0;
  chunk.mapping_begin = Address(UINT64_MAX - chunk.total);
  CHECK(error_with(chunk) == "");
  chunk.mapping_begin = chunk.mapping_begin + 1;
  CHECK(error_with(chunk) != "");
}

TEST_CASE("a snapshot that is truncated while it is read is said to be") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  {
    CraftedFile file;
    file.add_metadata();
    CraftedBlock block;
    // More than a page, so that truncation takes it away.
    block.items = 32 << 10;
    block.runs = varints({0, 1, 4, 0x1000, block.items});
    block.size_codes.assign(block.items, std::byte{2});
    block.large_sizes.clear();
    block.state_bits.assign(block.items / 8, std::byte{});
    block.other_states.clear();
    file.store_raw();
    block.add_to(file);
    write_file(path, file.finish());
  }
  const SnapshotReader reader = SnapshotReader::open(path);
  ChunkCollector chunks;
  reader.read_chunks(chunks);
  CHECK(chunks.chunks.size() == 32 << 10);
  REQUIRE(::truncate(path.c_str(), 4096) == 0);
  try {
    reader.read_chunks(chunks);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kBadInput);
    CHECK(mentions(error.why(), "truncated"));
  }
}

TEST_CASE("small files that would unpack to much are refused") {
  SUBCASE("runs of pages") {
    CraftedFile file;
    file.add_metadata();
    constexpr uint32_t kRuns = 12U << 20;
    Address at(0x1000);
    for (int i = 0; i < 2; ++i) {
      Section section;
      section.kind = format::SectionKind::kPages;
      section.items = kRuns;
      section.begin = at;
      Bytes runs = varints({4096, at.value()});
      for (uint32_t k = 0; k < kRuns; ++k) {
        runs.push_back(static_cast<std::byte>(1 << 4 | (k % 2 + 1)));
      }
      section.columns.push_back({format::kPageRuns, std::move(runs)});
      file.add(section);
      at += uint64_t{kRuns} * 4096;
      const Bytes bytes = file.finish();
      const auto reader = SnapshotReader::from_bytes(bytes, "crafted");
      uint64_t count = 0;
      const auto read = [&] { reader.read_pages([&](const PageRun&) { ++count; }); };
      if (i == 0) {
        read();
        CHECK(count == kRuns);
      } else {
        CHECK_THROWS_WITH_AS(read(), doctest::Contains("decompresses to more"), Error);
      }
    }
  }
  SUBCASE("chunks") {
    CraftedFile claims;
    claims.add_metadata();
    for (int i = 0; i < 17; ++i) {
      claims.add_stored(1, UINT32_MAX, Address(0x1000), {});
    }
    CHECK(mentions(error_of(claims.finish()), "more chunks than"));
  }
  SUBCASE("a call stack of 5000 frames") {
    CraftedFile file;
    file.add_metadata();
    CallStacks stacks;
    stacks.nodes.resize(tracker::kFirstNode);
    for (uint32_t i = 0; i < 5000; ++i) {
      const auto last = static_cast<uint32_t>(stacks.nodes.size() - 1);
      stacks.nodes.push_back({i == 0 ? 1 : last, -1, Address(0x1000)});
    }
    write_call_stacks(stacks, file);
    CHECK(mentions(error_of(file.finish()), "too deep"));
  }
}

TEST_CASE("the writer keeps to what the reader accepts") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  constexpr uint64_t kPages = 40U << 20;
  {
    SnapshotWriter writer(SnapshotOutput{path, false});
    std::vector<PageState> states(64U << 10);
    for (size_t i = 0; i < states.size(); ++i) {
      states[i] = i % 2 == 0 ? PageState::kResident : PageState::kAbsent;
    }
    for (uint64_t page = 0; page < kPages; page += states.size()) {
      writer.on_pages(Address(page * 4096), 4096, states);
    }
    writer.finish(full_metadata(1, 1));
  }
  uint64_t runs = 0;
  SnapshotReader::open(path).read_pages([&](const PageRun&) { ++runs; });
  CHECK(runs == kPages);
}
