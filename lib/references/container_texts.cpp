// The characters of std::string and its kin.
#include <algorithm>
#include <optional>
#include <utility>

#include "references/container_storage.h"

namespace heapsnap {

namespace {

constexpr uint64_t kLargeText = 4096;   // characters
constexpr uint64_t kTextInString = 16;  // bytes that a std::string has room for itself
constexpr unsigned kTextWidths = 3;     // of a character: 1, 2 and 4 bytes
// Of ASCII, and rarely in texts.
constexpr bool is_control(uint64_t character) {
  const bool is_space = character >= '\t' && character <= '\r';
  return (character < ' ' && !is_space && character != '\x1b') || character == '\x7f';
}

}  // namespace

void ContainerStorage::look_at_text(const WordInMemory& word, BlockNumber block, uint64_t size,
                                    uint64_t capacity) {
  constexpr uint64_t kLongest = (1 << 29) - 1;
  constexpr uint64_t kWordsOfText = 3;
  uint64_t address = 0;
  word.beside(0, address);
  if (is_on_stack_ || size >= kLongest) return;
  // A coroutine's stack (stack_t has flags there) or an arena that was reset looks empty, too.
  if (size == 0 && capacity >= kLargeText) return;
  uint32_t widths = 0;
  for (uint32_t i = 0; i < kTextWidths; ++i) {
    const bool is_long = capacity << i >= kTextInString;
    if (is_long && is_filled(address, (capacity + 1) << i)) widths |= 1U << i;
  }
  if (widths == 0) return;
  uint64_t words = 0;  // of the block of malloc that it lies in
  if (word.source != kNoBlock) {
    words = map_.usable(word.at - word.offset_in_block, hint_) / kWordBytes;
    // Behind a block's end lies the next one's size.
    if (words != 0 && word.offset_in_block / kWordBytes + kWordsOfText > words) return;
  }
  texts_[block] = {static_cast<uint32_t>(size) + 1, widths};
  has_texts_ = true;
  if (words != 0) keep_tail(word, block, words);
}

void ContainerStorage::keep_tail(const WordInMemory& word, BlockNumber text, uint64_t words) {
  uint64_t left_over = 0;
  const uint64_t at = word.offset_in_block / kWordBytes + kTailInString;
  if (at >= words || words > kMostWordsWithText || tails_.size() >= kMostContainers ||
      word.offset_in_block % kWordBytes != 0 || !word.beside(kTailInString, left_over) ||
      !map_.is_among_chunks(left_over, hint_)) {
    return;
  }
  const auto place = map_.find(left_over, hint_);
  tails_.push_back({{word.source, static_cast<uint32_t>(at)},
                    static_cast<uint32_t>(words),
                    text,
                    place.has_value(),
                    place && place->block == word.source});
}

// Behind what are texts indeed.
std::vector<TextTail> ContainerStorage::take_tails() {
  std::erase_if(tails_, [this](const TextTail& tail) {
    const StorageKind known = kind(tail.text);
    return known < StorageKind::kText || known > StorageKind::kText32;
  });
  return std::exchange(tails_, {});
}

// In the order of addresses, so that each page is read once.
void ContainerStorage::check_texts() {
  if (!has_texts_) return;
  for (const AddressRange& memory : map_.memory()) {
    map_.each_part(memory, [this](const BlockMap::Part& whole) {
      const Text text = texts_[whole.block];
      if (text.widths == 0) return;
      // The widest that it can be: of wide characters more is looked at.
      for (unsigned i = kTextWidths; i-- > 0;) {
        if ((text.widths >> i & 1) == 0) continue;
        const uint32_t width = 1U << i;
        if (!is_text(whole.block_begin, text.size - 1, whole.bytes.size(), width)) continue;
        mark(whole.block, text_of(width));
        return;
      }
    });
  }
}

// Ends with a 0. The first characters are looked at, too: numbers may be followed by a 0, and so
// may objects in a buffer of which the program notes how much it uses, which lead to others. V8
// notes of the memory of an ArrayBuffer what a std::string does, and fresh memory follows it. What
// seems to have next to no text, or one of zeros, may be an object that begins with a 0:
//
//   | object | flags | size |
bool ContainerStorage::is_text(Address begin, uint64_t size, uint64_t usable, uint32_t width) {
  constexpr uint64_t kMostLookedAt = 32;
  constexpr uint64_t kMostBytesLookedAt = 64;
  constexpr uint64_t kLastCharacter = 0x10ffff;
  const auto character = [&](uint64_t number) -> std::optional<uint64_t> {
    uint64_t value = 0;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1)).first(width);
    if (cache_.read(begin + number * width, bytes) != width) return std::nullopt;
    return value;
  };
  if (character(size) != uint64_t{0}) return false;
  if (width == 1) {
    const uint64_t looked_at = std::min(size, kMostBytesLookedAt);
    bool is_zero = size != 0;
    for (uint64_t i = 0; i < looked_at; ++i) {
      const auto value = character(i);
      if (!value || (size >= kLargeText && is_control(*value))) return false;
      is_zero &= *value == 0;
    }
    if (is_zero) return false;
    const bool says_little = size < kWordBytes;
    return !has_addresses(
        {begin, begin + (says_little ? std::min(usable, kMostBytesLookedAt) : looked_at)});
  }
  for (uint64_t i = 0; i < std::min(kMostLookedAt, size); ++i) {
    const auto value = character(i);
    if (!value || *value == 0 || *value > kLastCharacter) return false;
  }
  return size != 0;
}

bool ContainerStorage::has_addresses(const AddressRange& range) {
  for (Address at = range.begin; at + kWordBytes <= range.end; at = at + kWordBytes) {
    const auto word = cache_.word(at, kWordBytes);
    if (word && map_.find(*word, hint_)) return true;
  }
  return false;
}

}  // namespace heapsnap
