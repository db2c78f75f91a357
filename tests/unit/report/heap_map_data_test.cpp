#include "report/heap_map_data.h"

#include <doctest/doctest.h>
#include <simdjson.h>
#include <zlib.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/analysis/handmade_snapshot.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

std::string inflated(std::string_view bytes) {
  std::string result(1 << 22, '\0');
  uLongf size = result.size();
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(result.data()), &size,
                     reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) == Z_OK);
  result.resize(size);
  return result;
}

std::vector<uint64_t> varints(std::string_view bytes, size_t count) {
  std::vector<uint64_t> values;
  uint64_t value = 0;
  unsigned shift = 0;
  for (const char c : bytes) {
    value |= uint64_t{static_cast<uint8_t>(c) & 127U} << shift;
    shift += 7;
    if ((static_cast<uint8_t>(c) & 128U) != 0) continue;
    values.push_back(value);
    if (values.size() == count) break;
    value = shift = 0;
  }
  return values;
}

std::string column(const HeapMapData& data, simdjson::dom::element slab, size_t number) {
  const auto at = static_cast<size_t>(uint64_t(slab["at"].at(number)));
  const auto length = static_cast<size_t>(uint64_t(slab["length"].at(number)));
  return length == 0 ? std::string() : inflated(std::string_view(data.chunks).substr(at, length));
}

HandmadeSnapshot small_heap() {
  HandmadeSnapshot heap;
  heap.add_mapping(0x10000, 0x12000, "[heap]", MappingUsage{});
  heap.add_arena(true);
  heap.add_segment(0, SegmentKind::kBrk, 0x10000,
                   {{0x20, kUsed}, {0x1000, ChunkState::kLargebin}, {0xfe0, ChunkState::kTop}});
  MmappedChunk mapped;
  mapped.mapping_begin = mapped.chunk = Address(0x40000);
  mapped.total = mapped.size = 0x3000;
  heap.mmapped = {mapped};
  return heap;
}

}  // namespace

TEST_CASE("the map of a page: sums, and the chunks in slabs") {
  const HandmadeSnapshot heap = small_heap();
  const HeapMapData data = make_heap_map_data(heap.streams(), nullptr);
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.parse(data.json);
  CHECK(uint64_t(json["pixel_bytes"]) == 16);
  REQUIRE(json["regions"].get_array().size() == 2);
  CHECK(std::string_view(json["regions"].at(1)["begin"]) == "0x40000");

  const auto pixels = static_cast<size_t>(uint64_t(json["pixels"]));
  const std::string planes = inflated(data.pixels);
  REQUIRE(planes.size() == 4 * pixels);
  CHECK(static_cast<uint8_t>(planes[0]) == 255);           // used
  CHECK(static_cast<uint8_t>(planes[2]) == 0);             // not used ...
  CHECK(static_cast<uint8_t>(planes[pixels + 2]) == 255);  // ... but free

  REQUIRE(json["slabs"].get_array().size() == 1);
  const simdjson::dom::element slab = json["slabs"].at(0);
  CHECK(std::string_view(slab["begin"]) == "0x10000");
  CHECK(std::string_view(slab["end"]) == "0x12000");
  const std::string shape = column(data, slab, 0);
  CHECK(varints(shape, 3) == std::vector<uint64_t>{0x20 / 8, 0x1000 / 8, 0xfe0 / 8});
  CHECK(shape.substr(shape.size() - 3) == std::string("\x00\x05\x06", 3));
  CHECK(column(data, slab, 1).empty());  // no types
  CHECK(column(data, slab, 2).empty());  // no stacks

  const simdjson::dom::element mmapped = json["mmapped"];
  CHECK(uint64_t(mmapped["chunks"]) == 1);
  CHECK(varints(column(data, mmapped, 0), 2) == std::vector<uint64_t>{0, 0x3000 / 8});
}

TEST_CASE("what does not fit into the page is left out, and the sums stay") {
  const HandmadeSnapshot heap = small_heap();
  const HeapMapData data = make_heap_map_data(heap.streams(), nullptr, {.chunk_bytes = 4});
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.parse(data.json);
  CHECK(data.chunks.empty());
  CHECK(uint64_t(json["slabs"].at(0)["length"].at(0)) == 0);
  CHECK(uint64_t(json["slabs"].at(0)["chunks"]) == 3);
  CHECK(!data.pixels.empty());
}

TEST_CASE("a heap without chunks has an empty map") {
  const HandmadeSnapshot heap;
  const HeapMapData data = make_heap_map_data(heap.streams(), nullptr);
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.parse(data.json);
  CHECK(json["regions"].get_array().size() == 0);
  CHECK(uint64_t(json["mmapped"]["chunks"]) == 0);
}

TEST_CASE("mappings that overlap, of a damaged snapshot, keep their order") {
  HandmadeSnapshot heap = small_heap();
  MmappedChunk inner = heap.mmapped[0];
  inner.mapping_begin = inner.chunk = Address(0x41000);
  inner.total = inner.size = 0x1000;
  heap.mmapped.insert(heap.mmapped.begin(), inner);
  const HeapMapData data = make_heap_map_data(heap.streams(), nullptr);
  simdjson::dom::parser parser;
  const simdjson::dom::element mmapped = parser.parse(data.json)["mmapped"];
  CHECK(varints(column(data, mmapped, 0), 4) == std::vector<uint64_t>{0, 0x3000 / 8, 0, 0});
  CHECK(std::string_view(mmapped["end"]) == "0x43000");
}
