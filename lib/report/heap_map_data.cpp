#include "report/heap_map_data.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include "analysis/block_facts.h"
#include "analysis/heap_cells.h"
#include "report/json_writer.h"

namespace heapsnap {

namespace {

constexpr uint64_t kUnit = 8;  // sizes and addresses of chunks are multiples of it
constexpr size_t kChunksInSlab = 16384;
constexpr unsigned kMapWidth = 1024;

std::string deflated(std::string_view bytes) {
  uLongf size = compressBound(bytes.size());
  std::string result(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(result.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
                Z_DEFAULT_COMPRESSION) != Z_OK) {
    throw std::bad_alloc();
  }
  result.resize(size);
  return result;
}

void put_varint(std::string& out, uint64_t value) {
  while (value >= 128) {
    out += static_cast<char>(value | 128U);
    value >>= 7U;
  }
  out += static_cast<char>(value);
}

struct Slab {
  static constexpr size_t kColumns = 3;  // shape, types, stacks

  Address begin;
  Address end;
  size_t chunks = 0;
  std::array<std::string, kColumns> columns;  // compressed
};

// Types in the order of their first block, as many as there is room for; 0: unknown, or another.
class TypeNames {
 public:
  TypeNames(const ReferenceStreams* references, size_t most) : most_(most) {
    if (references == nullptr) return;
    names_ = &references->types;
    numbers_.resize(names_->size());
  }

  uint32_t number_of(TypeNumber type) {
    if (type == 0 || type >= numbers_.size()) return 0;
    if (numbers_[type] == 0 && listed_.size() < most_) {
      listed_.push_back(type);
      numbers_[type] = static_cast<uint32_t>(listed_.size());
    }
    return numbers_[type];
  }

  void write(JsonWriter& json) const {
    json.key("types");
    json.begin_array();
    json.value("");
    for (const TypeNumber type : listed_) json.value((*names_)[type].name);
    json.end_array();
  }

 private:
  size_t most_;
  const std::vector<BlockType>* names_ = nullptr;
  std::vector<uint32_t> numbers_;
  std::vector<TypeNumber> listed_;
};

// Divides the chunks into slabs.
class SlabSink final : public ChunkSink {
 public:
  SlabSink(const LargeArray<TypeNumber>& block_types, TypeNames& types)
      : block_types_(block_types), types_(types) {}

  void on_batch(const ChunkBatch& batch) override {
    if (batch.begin != open_.end) close();
    Address next = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      if (open_.chunks == kChunksInSlab) close();
      if (open_.chunks == 0) open_.begin = next;
      next += batch.sizes[i];
      add(batch.sizes[i], batch.states[i], is_live(batch.states[i]) ? next_type() : 0,
          batch.stacks.empty() ? 0 : batch.stacks[i]);
      open_.end = next;
      if (batch.sizes[i] % kUnit != 0) close();  // of damage
    }
  }

  void on_mmapped(const MmappedChunk& chunk) override {
    mmapped_.push_back({{chunk.mapping_begin, chunk.mapping_begin + chunk.total},
                        chunk.state,
                        is_live(chunk.state) ? next_type() : 0,
                        chunk.stack});
  }

  std::vector<Slab> take() {
    close();
    return std::move(slabs_);
  }

  // To be called after take().
  Slab take_mmapped() {
    std::sort(mmapped_.begin(), mmapped_.end(),
              [](const Mapped& a, const Mapped& b) { return a.range < b.range; });
    if (!mmapped_.empty()) open_.begin = open_.end = mmapped_.front().range.begin;
    for (const Mapped& one : mmapped_) {
      const Address begin = std::max(open_.end, one.range.begin);  // damaged ones overlap
      const uint64_t size = one.range.end > begin ? one.range.end - begin : 0;
      put_varint(sizes_, (begin - open_.end) / kUnit);
      open_.end = begin + size;
      add(size, one.state, one.type, one.stack);
    }
    close();
    return slabs_.empty() ? Slab{} : std::move(slabs_.back());
  }

 private:
  struct Mapped {
    AddressRange range;
    ChunkState state;
    uint32_t type;
    uint32_t stack;
  };

  // Of the next block.
  uint32_t next_type() {
    const size_t block = block_++;
    return types_.number_of(block < block_types_.size() ? block_types_[block] : 0);
  }

  void add(uint64_t size, ChunkState state, uint32_t type, uint32_t stack) {
    put_varint(sizes_, size / kUnit);
    states_ += static_cast<char>(state);
    ++open_.chunks;
    if (!is_live(state)) return;
    put_varint(type_numbers_, type);
    put_varint(stacks_, stack);
    has_types_ = has_types_ || type != 0;
    has_stacks_ = has_stacks_ || stack != 0;
  }

  void close() {
    if (open_.chunks != 0) {
      open_.columns[0] = deflated(sizes_ + states_);
      if (has_types_) open_.columns[1] = deflated(type_numbers_);
      if (has_stacks_) open_.columns[2] = deflated(stacks_);
      slabs_.push_back(std::move(open_));
    }
    open_ = {};
    has_types_ = has_stacks_ = false;
    for (std::string* const column : {&sizes_, &states_, &type_numbers_, &stacks_}) column->clear();
  }

  const LargeArray<TypeNumber>& block_types_;
  TypeNames& types_;
  size_t block_ = 0;
  Slab open_;
  std::string sizes_, states_, type_numbers_, stacks_;
  bool has_types_ = false;
  bool has_stacks_ = false;
  std::vector<Slab> slabs_;
  std::vector<Mapped> mmapped_;
};

unsigned char parts_of(uint64_t bytes, uint64_t whole) {
  if (bytes == 0) return 0;
  const uint64_t parts = bytes >= whole ? 255 : bytes * 255 / whole;
  return static_cast<unsigned char>(std::max<uint64_t>(1, parts));
}

std::string pixels_of(const HeapCells& map) {
  std::string planes;
  planes.reserve(4 * map.pixels.size());
  using Pixel = HeapCells::Pixel;
  for (const auto member : {&Pixel::used, &Pixel::free, &Pixel::absent, &Pixel::swapped}) {
    for (const Pixel& pixel : map.pixels) {
      planes += static_cast<char>(parts_of(pixel.*member, map.bytes_per_pixel));
    }
  }
  return deflated(planes);
}

void write_map(JsonWriter& json, const HeapCells& map) {
  json.member("pixel_bytes", map.bytes_per_pixel);
  json.member("pixels", map.pixels.size());
  json.key("regions");
  json.begin_array();
  for (const HeapCells::Region& region : map.regions) {
    json.begin_object();
    json.member("begin", region.range.begin);
    json.member("end", region.range.end);
    json.member("first_pixel", region.first_pixel);
    json.end_object();
  }
  json.end_array();
}

// Columns that fit, the shapes of all slabs first: appended to `chunks`. What does not fit is
// emptied.
void place_columns(std::vector<Slab>& slabs, size_t room, std::string& chunks,
                   std::vector<std::array<size_t, Slab::kColumns>>& places) {
  places.resize(slabs.size());
  for (size_t column = 0; column < Slab::kColumns; ++column) {
    for (size_t i = 0; i < slabs.size(); ++i) {
      std::string& bytes = slabs[i].columns[column];
      places[i][column] = chunks.size();
      if (bytes.size() > room - std::min(room, chunks.size())) bytes.clear();
      chunks += bytes;
    }
  }
}

void write_slab(JsonWriter& json, const Slab& slab,
                const std::array<size_t, Slab::kColumns>& places) {
  json.begin_object();
  json.member("begin", slab.begin);
  json.member("end", slab.end);
  json.member("chunks", slab.chunks);
  json.key("at");
  json.begin_array();
  for (const size_t place : places) json.value(place);
  json.end_array();
  json.key("length");
  json.begin_array();
  for (const std::string& column : slab.columns) json.value(column.size());
  json.end_array();
  json.end_object();
}

}  // namespace

HeapMapData make_heap_map_data(const SnapshotStreams& streams, const ReferenceStreams* references,
                               const HeapMapRoom& room) {
  HeapMapData data;
  const HeapCells map =
      sum_heap_cells(streams, kMapWidth, static_cast<unsigned>(room.pixels / kMapWidth));
  data.pixels = pixels_of(map);
  LargeArray<TypeNumber> block_types;
  const auto& metadata = *streams.metadata;
  if (references != nullptr && metadata.references) {
    block_types = read_types(*references, static_cast<BlockNumber>(metadata.references->blocks));
  }
  TypeNames types(references, room.types);
  SlabSink sink(block_types, types);
  streams.read_chunks(sink);
  std::vector<Slab> slabs = sink.take();
  slabs.push_back(sink.take_mmapped());
  std::vector<std::array<size_t, Slab::kColumns>> places;
  place_columns(slabs, room.chunk_bytes, data.chunks, places);

  Writer out(data.json);
  JsonWriter json(out);
  json.begin_object();
  json.member("kind", "heap-map");
  json.member("version", 1);
  write_map(json, map);
  types.write(json);
  json.key("slabs");
  json.begin_array();
  for (size_t i = 0; i + 1 < slabs.size(); ++i) write_slab(json, slabs[i], places[i]);
  json.end_array();
  json.key("mmapped");
  write_slab(json, slabs.back(), places.back());
  json.end_object();
  out.flush();
  return data;
}

}  // namespace heapsnap
