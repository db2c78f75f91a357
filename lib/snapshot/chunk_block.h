// Chunk blocks: the long column of a snapshot, about one byte a chunk.
//
// A block holds chunks of one heap segment in ascending order of address:
//
//   runs          which arena and segment, and where the chunks lie: (gap before, count)*
//   size codes    one byte a chunk: its size in granules of 16 (or 8) bytes; 255: see next
//   large sizes   a varint for each chunk whose size does not fit the code
//   state bits    one bit a chunk: 0 in use, 1 something else
//   other states  four bits for each chunk whose bit is 1
//   stack ids     of a tracked process: who allocated the chunk; the lowest bytes of all ids, then
//                 the next ones: the upper planes cost nothing
//   slacks        of a tracked process: a byte a chunk
//
// Real programs have few sizes and few free chunks. For random ones zstd comes close to the
// entropy: 64 sizes cost 0.75 bytes, 15 % free chunks of four kinds 0.11 bytes a chunk. A run
// length code of the states took 0.14, packed states 0.16, and both twice the time or more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heap/chunk.h"
#include "snapshot/section.h"

namespace heapsnap {

class ChunkBlockBuilder {
 public:
  // Two zstd blocks of sizes.
  static constexpr uint32_t kChunksInBlock = 256U << 10;
  static_assert(kChunksInBlock <= format::kMaxChunksInBlock);

  // Full blocks go to `sink`.
  explicit ChunkBlockBuilder(SectionSink& sink);

  // Throws Error{kInternal} for a batch that runs past the end of the address space.
  void add(const ChunkBatch& batch);
  // Hands over what is left. Call it after the last batch.
  void flush();

 private:
  struct Run {
    uint64_t gap = 0;  // bytes from the end of the run before
    uint64_t count = 0;
  };

  void choose_granule(std::span<const uint64_t> sizes);
  void open_run(Address begin);
  // Gives the sum of the sizes.
  uint64_t append_sizes(std::span<const uint64_t> sizes);
  void pack_states();
  void append_stacks(const ChunkBatch& batch, size_t from, size_t count);
  void pack_stacks();

  SectionSink& sink_;
  Section section_;
  int32_t arena_ = 0;
  uint32_t segment_ = 0;
  Address end_;                 // of the last chunk
  unsigned granule_shift_ = 4;  // 3 once a chunk has shown that sizes are multiples of 8
  uint32_t count_ = 0;
  std::vector<Run> runs_;
  std::vector<uint8_t> codes_;      // of kChunksInBlock chunks, count_ of them set
  std::vector<ChunkState> states_;  // the same
  bool has_stacks_ = false;         // some chunk of the block came with one
  std::vector<uint32_t> stacks_;    // the same; empty until one came
  std::vector<uint8_t> slacks_;
};

// Decodes blocks. Keeps its memory from block to block: about 3 bytes a chunk of the largest one.
class ChunkBlockReader {
 public:
  // Chunks in one batch at most: few enough to stay in the cache.
  static constexpr size_t kBatchSize = 8192;

  struct Columns {
    std::span<const std::byte> runs;
    std::span<const std::byte> size_codes;
    std::span<const std::byte> large_sizes;
    std::span<const std::byte> state_bits;
    std::span<const std::byte> other_states;
    std::span<const std::byte> stack_ids = {};
    std::span<const std::byte> slacks = {};
  };

  struct Limits {
    size_t arenas = 0;
    size_t segments = 0;
  };

  // Gives the `count` chunks of a block to `sink`. `begin` is what the index says of it. Throws
  // Error{kBadInput} when the columns do not fit together, a run leaves the address space or the
  // arena or segment is not below `limits`.
  void read(const Columns& columns, uint32_t count, Address begin, const Limits& limits,
            const std::string& source, ChunkSink& sink);
  // Sum of the sizes of all chunks so far.
  uint64_t total() const { return total_; }

 private:
  void unpack_states(const Columns& columns, uint32_t count, const std::string& source);
  void unpack_stacks(const Columns& columns, uint32_t count, const std::string& source);

  uint64_t total_ = 0;
  std::vector<ChunkState> states_;
  std::vector<uint64_t> sizes_;
  std::vector<uint32_t> stacks_;  // empty when the block has none
};

}  // namespace heapsnap
