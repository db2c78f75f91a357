// Bytes of a target, wherever they come from: a live process, a frozen child, a core, a raw image.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>

#include "base/address.h"

namespace heapsnap {

class MemoryReader {
 public:
  virtual ~MemoryReader() = default;

  // Copies bytes from `from` on into `out` and gives how many came before the first unreadable
  // one. A short count is normal (holes, guard pages, a target that ran on); 0 means that the first
  // byte cannot be read. Throws Error only when the target itself is gone.
  virtual size_t read(Address from, std::span<std::byte> out) = 0;

  // The same for many small pieces at once: `piece` bytes from each of `places`, one after the
  // other into `out` (places.size() * piece bytes). Gives how many pieces came before the first
  // that cannot be read whole. A reader that pays for each call (process_vm_readv) does better by
  // overriding it.
  virtual size_t read_pieces(std::span<const Address> places, size_t piece,
                             std::span<std::byte> out) {
    size_t done = 0;
    while (done < places.size() && read_exact(places[done], out.subspan(done * piece, piece))) {
      ++done;
    }
    return done;
  }

  // The first part of `range` of which anything may be readable; empty where nothing is. A core
  // lists terabytes that it does not hold: what searches memory goes from part to part. Readers
  // that cannot tell give all of `range`.
  virtual AddressRange next_readable(AddressRange range) { return range; }

  bool read_exact(Address from, std::span<std::byte> out) { return read(from, out) == out.size(); }

  template <typename T>
  std::optional<T> read_value(Address from) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    if (!read_exact(from, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
    return value;
  }
};

}  // namespace heapsnap
