#include "snapshot/byte_writer.h"

namespace heapsnap {

// Not inline: g++ 12 at -O3 warns of an overflow in vector::insert where it sees the vector's size.
void append_bytes(Bytes& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

namespace {

// Bytes may be anything, also the values: a compiler that knows better makes vectors of them.
void write_plane(std::byte* __restrict out, const uint32_t* __restrict values, size_t count,
                 unsigned shift) {
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(values[i] >> shift);
}

}  // namespace

void write_planes(Bytes& out, std::span<const uint32_t> values) {
  out.clear();
  out.resize(values.size() * sizeof(uint32_t));
  uint32_t bits = union_of(values);
  for (unsigned plane = 0; bits != 0; ++plane, bits >>= 8) {
    write_plane(out.data() + plane * values.size(), values.data(), values.size(), 8 * plane);
  }
}

}  // namespace heapsnap
