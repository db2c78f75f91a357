// A heap with references, roots and types of any kind, out of a fuzzer's bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "references/storage_kind.h"
#include "tests/unit/analysis/handmade_references.h"

namespace heapsnap::test {

// Zeros when there are no more.
class FuzzedBytes {
 public:
  FuzzedBytes(const uint8_t* data, size_t size) : data_(data, size) {}
  uint8_t next() { return at_ < data_.size() ? data_[at_++] : uint8_t{0}; }
  bool is_empty() const { return at_ >= data_.size(); }

 private:
  std::span<const uint8_t> data_;
  size_t at_ = 0;
};

// What containers do not use, and where they keep the addresses of their nodes: as a file may say
// it, in ascending order.
inline void add_containers(FuzzedBytes& bytes, HandmadeHeap& heap) {
  ReferenceStreams& streams = heap.streams;
  for (BlockNumber block = bytes.next(); !bytes.is_empty(); block += 1U + bytes.next() % 16) {
    const uint8_t what = bytes.next();
    const uint32_t word = what % 64 == 63 ? UINT32_MAX : what % 64;
    if (what < 128) {
      streams.slack_words.push_back({block, word, bytes.next(), bytes.next() * 0x01010101U});
    } else if (what < 224 && block < heap.blocks.size()) {
      streams.containers.push_back({block, word, {}, bytes.next() * 0x01010101U});
    } else {
      break;
    }
  }
  for (const RootPlace& place : streams.places) {
    const uint8_t what = bytes.next();
    if (what % 2 == 0) continue;
    streams.containers.push_back({kNoBlock, 0, place.begin + 8 * (what / 16), what / 2 % 8U});
  }
}

// Takes bytes up to an end that they say themselves. Some heaps have references and roots to blocks
// and places that are not there.
inline std::unique_ptr<HandmadeHeap> fuzzed_heap(FuzzedBytes& bytes) {
  auto heap = std::make_unique<HandmadeHeap>();
  const bool is_any = bytes.next() % 16 == 0;
  const char* const names[] = {"", "g_cache", "g_index", "main"};
  for (unsigned i = bytes.next() % 8; i > 0; --i) {
    const uint8_t what = bytes.next();
    const uint32_t place = heap->add_place(static_cast<RootKind>(what % kRootKindCount),
                                           names[what / 8 % 4], what / 32 % 3);
    heap->streams.places[place].module = what >= 128 ? "/opt/server" : "";
  }
  const char* const classes[] = {"Session", "Event", "Session[]"};
  for (const char* name : classes) heap->add_type(name);
  const StorageKind kinds[] = {StorageKind::kTreeNode,    StorageKind::kListNode,
                               StorageKind::kHashNode,    StorageKind::kHashBuckets,
                               StorageKind::kDequeBuffer, StorageKind::kArray};
  for (const StorageKind kind : kinds) heap->add_type(to_string(kind), TypeSource::kStructure);
  constexpr unsigned kTypes = 10;  // the unknown one among them
  const unsigned blocks = bytes.next() + 1U;
  for (unsigned i = 0; i < blocks; ++i) {
    const uint8_t what = bytes.next();
    const uint64_t units = what < 240 ? what % 32 : uint64_t{1} << (what - 232);
    heap->add(24 + 16 * units, what / 32 % 8 == 7 ? bytes.next() % kTypes : what / 32 % 4,
              what % 5);
  }
  const auto block = [&] { return is_any ? bytes.next() : bytes.next() % blocks; };
  for (unsigned i = bytes.next() % 32; i > 0; --i) {
    const uint8_t what = bytes.next();
    const auto places = static_cast<uint32_t>(heap->streams.places.size());
    if (places == 0 && !is_any) break;
    heap->roots.push_back(
        {is_any ? what % 16U : what % places, bytes.next() * uint64_t{8}, block(), what >= 128});
  }
  for (unsigned i = 4U * bytes.next(); i > 0 && !bytes.is_empty(); --i) {
    const auto from = static_cast<BlockNumber>(bytes.next() % blocks);
    const uint8_t at = bytes.next();
    heap->link(from, 8 * (at % 128U), block(), at >= 128);
  }
  add_containers(bytes, *heap);
  return heap;
}

inline void require(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace heapsnap::test
