#include "snapshot/byte_writer.h"

namespace heapsnap {

// Not inline: g++ 12 at -O3 warns of an overflow in vector::insert where it sees the vector's size.
void append_bytes(Bytes& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace heapsnap
