// Where the answers of HeapPasses::follow() lie: each list of a pass has an equal part of a buffer.
//
//   | forward ->      <- backward | forward ->      <- backward | ...
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heap/in_place/chunk_loops.h"
#include "heap/in_place/heap_passes.h"

namespace heapsnap {

class ListAnswers {
 public:
  explicit ListAnswers(size_t words) : words_(words) {}

  // Passes over `lists` that answer into a buffer as large as this one: this one itself, or one
  // of another process at `buffer`.
  std::vector<ListPass> passes(std::span<const ListScan> lists, uint64_t* buffer = nullptr);
  // The part of the list number `i`.
  std::span<uint64_t> part(size_t i) { return std::span(words_).subspan(i * room_, room_); }
  // What these passes left here. Says in `lists` how far each came.
  std::span<const ListedChunks> told(std::span<const ListPass> passes, std::span<ListScan> lists);

 private:
  std::vector<uint64_t> words_;
  size_t room_ = 0;  // words of a list
  std::vector<ListedChunks> told_;
};

}  // namespace heapsnap
