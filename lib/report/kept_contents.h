// The memory that a snapshot kept, to be looked up by address while its chunks are read.
//
// A snapshot pushes its contents at the reader, and its chunks, too: to join the two, one of them
// has to wait for the other. A thread of its own reads the contents, a block ahead at most, so
// memory stays flat.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "analysis/snapshot_streams.h"
#include "base/address.h"

namespace heapsnap {

class KeptContents {
 public:
  // `streams` must outlive this and be readable from two threads at once, as a SnapshotReader is.
  explicit KeptContents(const SnapshotStreams& streams);
  ~KeptContents();  // ends the thread

  // Copies the kept ones of the bytes from `from` on into `out` and marks them in `kept`, which is
  // as long. Goes forward only: bytes before those of an earlier call count as not kept. Throws
  // what reading the snapshot throws.
  void read(Address from, std::span<std::byte> out, std::span<bool> kept);
  // Whether the snapshot kept anything at all.
  bool is_empty();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heapsnap
