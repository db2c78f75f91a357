// Passes over a heap whose memory is mapped here: that of a core, or of an image.
#pragma once

#include <functional>
#include <vector>

#include "base/address.h"
#include "heap/in_place/chunk_loops.h"
#include "heap/in_place/heap_passes.h"
#include "heap/in_place/list_answers.h"

namespace heapsnap {

class LocalPasses final : public HeapPasses {
 public:
  // Gives the bytes from an address on that lie together; none where it cannot be read.
  using BytesAt = std::function<std::span<const std::byte>(Address)>;

  // What `bytes_at` gives outlives this.
  explicit LocalPasses(BytesAt bytes_at);

  std::span<const uint32_t> scan(ChunkScan& scan) override;
  std::span<const ListedChunks> follow(std::span<ListScan> lists,
                                       std::span<const AddressRange> heaps) override;

 private:
  PlacedMemory place(Address from) const;
  void place_heaps(std::span<const AddressRange> heaps);

  BytesAt bytes_at_;
  std::vector<uint32_t> chunks_;
  ListAnswers links_;
  std::vector<AddressRange> placed_heaps_;  // those that memories_ is about
  std::vector<PlacedMemory> memories_;
};

}  // namespace heapsnap
