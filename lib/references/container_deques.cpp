// The maps and buffers of std::deque.
#include <algorithm>
#include <array>

#include "references/container_storage.h"

namespace heapsnap {

// Two iterators follow the map: | element | buffer | its end | word of the map |, of the first
// element and of the end.
void ContainerStorage::look_at_deque(const WordInMemory& word, BlockNumber block,
                                     uint64_t map_size) {
  constexpr uint64_t kSmallestBuffer = 256;  // a half of 512 bytes, that elements do not fill
  constexpr uint64_t kLargestBuffer = uint64_t{1} << 30;
  std::array<uint64_t, 10> words{};
  for (int i = 0; i < 10; ++i) {
    if (!word.beside(i, words.at(static_cast<size_t>(i)))) return;
  }
  const auto [map, size, first, first_buffer, first_end, first_word, end, last_buffer, last_end,
              last_word] = words;
  const uint64_t bytes = first_end - first_buffer;
  if (first_buffer > first || first >= first_end || last_buffer > end || end >= last_end ||
      last_end - last_buffer != bytes || bytes <= kSmallestBuffer || bytes > kLargestBuffer ||
      first_word < map || first_word > last_word || last_word - map >= map_size * kWordBytes ||
      (first_word - map) % kWordBytes != 0 || (last_word - map) % kWordBytes != 0 ||
      deques_.size() >= kMostContainers || !is_filled(map, size * kWordBytes)) {
    return;
  }
  const auto word_at = [](uint64_t offset) {
    return static_cast<uint32_t>(std::min<uint64_t>(offset / kWordBytes, UINT32_MAX));
  };
  deques_.push_back({block, first_word, (last_word - first_word) / kWordBytes + 1, first_buffer,
                     last_buffer, bytes, word_at(first_word - map), word_at(first - first_buffer),
                     words_for(end - last_buffer)});
}

void ContainerStorage::follow_deques() {
  // In the order of addresses: their maps are read once.
  std::stable_sort(deques_.begin(), deques_.end(),
                   [](const Deque& a, const Deque& b) { return a.first < b.first; });
  std::vector<Deque> known;
  for (Deque& deque : deques_) {
    buffers_.clear();
    if (limit_.is_reached()) break;
    if (!follow_deque(deque)) continue;
    mark(deque.map, StorageKind::kDequeMap);
    for (const BlockNumber buffer : buffers_) {
      mark(buffer, StorageKind::kDequeBuffer);
      mark_capacity(buffer, deque.buffer_bytes);
    }
    deque.first_block = buffers_.front();
    deque.last_block = buffers_.back();
    known.push_back(deque);
  }
  find_used_words(known);
}

// A deque that was moved from a function's frame may have left its words there, as they were: where
// two do not agree, nothing is known.
void ContainerStorage::find_used_words(std::vector<Deque>& known) {
  std::stable_sort(known.begin(), known.end(),
                   [](const Deque& a, const Deque& b) { return a.map < b.map; });
  for (auto deque = known.begin(); deque != known.end();) {
    const auto next = std::find_if(deque, known.end(),
                                   [&](const Deque& other) { return other.map != deque->map; });
    if (std::all_of(deque, next, [&](const Deque& other) { return other.agrees_with(*deque); })) {
      const auto capacity = static_cast<uint32_t>(deque->buffer_bytes / kWordBytes);
      const auto most_used = std::max_element(
          deque, next, [](const Deque& a, const Deque& b) { return a.used_to < b.used_to; });
      of_deques_.push_back({deque->map, deque->used_of_map + static_cast<uint32_t>(deque->count),
                            deque->used_of_map});
      const uint32_t spare = capacity - std::min(capacity, most_used->used_to);
      const bool is_one = deque->first_block == deque->last_block;
      of_deques_.push_back({deque->first_block, capacity, deque->used_from, is_one ? spare : 0});
      if (!is_one) of_deques_.push_back({deque->last_block, capacity, 0, spare});
    }
    deque = next;
  }
}

bool ContainerStorage::follow_deque(const Deque& deque) {
  uint64_t buffer = 0;
  for (uint64_t i = 0; i < deque.count; ++i) {
    if (limit_.take(1) == 0) return false;
    const auto word = cache_.word(Address(deque.first) + i * kWordBytes, kWordBytes);
    if (!word) return false;
    buffer = *word;
    const auto place = map_.find(buffer, hint_);
    if (!place || place->offset != 0 || !is_filled(buffer, deque.buffer_bytes)) return false;
    if (i == 0 && buffer != deque.first_buffer) return false;
    buffers_.push_back(place->block);
  }
  return buffer == deque.last_buffer;
}

}  // namespace heapsnap
