// Files of newer and older writers: what is not known is skipped, what is missing has its default.
#include <doctest/doctest.h>

#include "base/error.h"
#include "crafted_file.h"
#include "snapshot/byte_writer.h"
#include "snapshot/table.h"
#include "snapshot_sample.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

struct NewArenaRow {
  std::string colour = "red";
  Address address{0x4000};
  uint64_t system_mem = 77;
};

struct UnknownRow {
  int64_t anything = -3;
};

constexpr auto kTableKind = static_cast<uint16_t>(format::SectionKind::kTable);

}  // namespace

namespace heapsnap {

template <>
struct TableOf<NewArenaRow> {
  static constexpr const char* kName = "arenas";
  static void columns(auto& column, auto& row) {
    column("colour", row.colour);
    column("system_mem", row.system_mem);
    column("address", row.address);
  }
};

template <>
struct TableOf<UnknownRow> {
  static constexpr const char* kName = "table_of_2039";
  static void columns(auto& column, auto& row) { column("anything", row.anything); }
};

}  // namespace heapsnap

TEST_CASE("unknown sections are skipped, whatever is in them") {
  CraftedFile file;
  file.add_metadata();
  file.add_stored(77, 5, Address(1), {raw_column(1, bytes_of({1, 2, 3}))});
  CraftedBlock().add_to(file);
  file.add_bytes(Bytes(100, std::byte{0xaa}),
                 {static_cast<format::SectionKind>(900), {}, 0, 0, {}});
  const Bytes bytes = file.finish();
  CHECK(error_of(bytes) == "");
  CHECK(read_all(SnapshotReader::from_bytes(bytes, "x")).chunks.size() == 3);
}

TEST_CASE("unknown columns of a section are skipped, also in an unknown encoding") {
  CraftedFile file;
  file.add_metadata();
  const CraftedBlock block;
  file.add_stored(1, block.items, block.begin,
                  {raw_column(98, Bytes(12, std::byte{7})),
                   {99, 42, 0xffffffff, bytes_of({1})},
                   raw_column(format::kChunkStateBits, block.state_bits),
                   raw_column(format::kChunkRuns, block.runs),
                   raw_column(format::kChunkLargeSizes, block.large_sizes),
                   raw_column(format::kChunkSizeCodes, block.size_codes),
                   raw_column(format::kChunkOtherStates, block.other_states)});
  const auto all = read_all(SnapshotReader::from_bytes(file.finish(), "x"));
  REQUIRE(all.chunks.size() == 3);
  CHECK(all.chunks[1] == OneChunk{Address(0x1020), 4096, ChunkState::kLargebin, 0, 1});
}

TEST_CASE("tables: unknown ones and unknown columns are skipped, missing ones have their default") {
  CraftedFile file;
  file.add_metadata(1, 1);
  const std::vector<UnknownRow> unknown(3);
  write_table(std::span<const UnknownRow>(unknown), file);
  const std::vector<NewArenaRow> arenas(2);  // continues the table
  write_table(std::span<const NewArenaRow>(arenas), file);
  const SnapshotReader reader = SnapshotReader::from_bytes(file.finish(), "x");
  const auto& read = reader.metadata().heap.arenas;
  REQUIRE(read.size() == 3);
  CHECK(read[2].address == Address(0x4000));
  CHECK(read[2].system_mem == 77);
  CHECK(read[2].walked == 0);
  CHECK_FALSE(read[2].is_main);
}

TEST_CASE("columns of an unknown type are skipped") {
  Bytes table;
  const auto text = [&table](std::string_view value) {
    append_varint(table, value.size());
    append_text(table, value);
  };
  text("notes");
  append_bytes(table, varints({2, 2}));  // rows, columns
  text("shape");
  append_bytes(table, varints({200, 5}));  // type, length
  text("text");
  append_bytes(table, varints({4, 4}));
  append_bytes(table, bytes_of({0xff, 0xff, 0xff, 0xff, 0xff}));
  text("a");
  text("b");
  CraftedFile file;
  file.add_metadata();
  file.add_stored(kTableKind, 2, Address(), {raw_column(format::kTableRows, table)});
  const SnapshotReader reader = SnapshotReader::from_bytes(file.finish(), "x");
  const auto& notes = reader.metadata().notes;
  REQUIRE(notes.size() == 4);
  CHECK(notes[2] == "a");
  CHECK(notes[3] == "b");
}

TEST_CASE("states that are not known are unknown") {
  CraftedFile file;
  file.add_metadata();
  CraftedBlock block;
  block.other_states = bytes_of({14});
  block.add_to(file);
  // Page states 1, 6 and 14, and a gap between them.
  file.add_stored(2, 4, Address(0x10000),
                  {raw_column(format::kPageRuns, varints({4096, 0x10000, 2 << 4 | 1, 1 << 4 | 6,
                                                          3 << 4 | 15, 1 << 4 | 14}))});
  const auto all = read_all(SnapshotReader::from_bytes(file.finish(), "x"));
  REQUIRE(all.chunks.size() == 3);
  CHECK(all.chunks[1].state == ChunkState::kUnknown);
  REQUIRE(all.pages.size() == 3);
  CHECK(all.pages[0].state == PageState::kAbsent);
  CHECK(all.pages[1].state == PageState::kUnknown);
  CHECK(all.pages[1].range == AddressRange{Address(0x12000), Address(0x13000)});
  CHECK(all.pages[2].state == PageState::kUnknown);
  CHECK(all.pages[2].range == AddressRange{Address(0x16000), Address(0x17000)});
}
