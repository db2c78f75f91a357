#include "tracking/table_reader.h"

namespace heapsnap {

namespace {

constexpr uint32_t kLargestEntry = 4096;
constexpr uint32_t kLargestShift = 24;
constexpr size_t kPiece = 256 << 10;

// Whether [at, at + size) lies below the end of the address space.
bool fits_address_space(uint64_t at, uint64_t size) {
  return at != 0 && size <= ~at;
}

}  // namespace

TableReader::TableReader(MemoryReader& memory, const tracker::ChunkedTable& table,
                         size_t smallest_entry)
    : memory_(memory), table_(table) {
  if (table.count == 0) return;
  damaged_ = table.entry_size < smallest_entry || table.entry_size > kLargestEntry ||
             table.chunk_shift > kLargestShift || table.chunk_capacity == 0 ||
             !fits_address_space(table.chunks, uint64_t{table.chunk_capacity} * sizeof(uint64_t));
  if (damaged_) return;
  // Below 2^56: the shift cannot overflow.
  count_ = std::min(table.count, uint64_t{table.chunk_capacity} << table.chunk_shift);
}

std::optional<Address> TableReader::chunk(uint64_t index) {
  if (index < first_chunk_ || index - first_chunk_ >= known_chunks_) {
    const uint64_t wanted = std::min<uint64_t>(chunks_.size(), table_.chunk_capacity - index);
    const auto out = std::as_writable_bytes(std::span(chunks_).first(wanted));
    const size_t got = memory_.read(Address(table_.chunks) + index * sizeof(uint64_t), out);
    first_chunk_ = index;
    known_chunks_ = got / sizeof(uint64_t);
    if (known_chunks_ == 0) return std::nullopt;
  }
  const uint64_t address = chunks_[index - first_chunk_];
  if (!fits_address_space(address, uint64_t{table_.entry_size} << table_.chunk_shift)) {
    return std::nullopt;
  }
  return Address(address);
}

uint64_t TableReader::read_piece(uint64_t first, uint64_t end, std::vector<std::byte>& bytes) {
  const uint64_t in_chunk = uint64_t{1} << table_.chunk_shift;
  const uint64_t place = first & (in_chunk - 1);
  const std::optional<Address> begin = chunk(first >> table_.chunk_shift);
  if (!begin) return 0;
  const uint64_t entries =
      std::min({in_chunk - place, end - first, uint64_t{kPiece / table_.entry_size}});
  bytes.resize(entries * table_.entry_size);
  return memory_.read(*begin + place * table_.entry_size, bytes) / table_.entry_size;
}

}  // namespace heapsnap
