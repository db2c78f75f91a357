#include "runtime/ruby/ruby_words.h"

#include <algorithm>
#include <cstring>

#include "heap/struct_bytes.h"
#include "references/slot_map.h"
#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

namespace {

constexpr uint64_t kFlags = ObjectClass::word_bit(0);
constexpr uint64_t kAllButClass = ~ObjectClass::word_bit(RubyValue::kClass);
constexpr uint64_t kFirst = 2;                            // word: behind flags and class
constexpr uint64_t kWordsOfEnv = 4;                       // before how many there are
constexpr uint64_t kElsewhere = RubyValue::user_flag(1);  // of strings
constexpr uint64_t kInSlot = RubyValue::user_flag(1);     // of arrays and objects
constexpr uint64_t kTableInSlot = RubyValue::user_flag(3);
constexpr uint64_t kBignumInSlot = RubyValue::user_flag(2);

constexpr uint64_t word(unsigned number) {
  return uint64_t{1} << number;
}

// length, where, room; or where and what it shares
uint64_t words_of_string(uint64_t flags, const RubyLayout& layout) {
  if ((flags & kElsewhere) == 0) return kAllButClass;
  const bool is_shared = (flags & layout.flag_shared) != 0;
  return kFlags | word(2) | (is_shared ? word(3) : word(4)) | ObjectClass::words_from(5);
}

// length, room, where; or what it shares instead of the room
uint64_t words_of_array(uint64_t flags, const RubyLayout& layout) {
  if ((flags & kInSlot) != 0) {
    return kFlags | ObjectClass::words_from(kFirst + ruby_items_in_slot(flags, layout));
  }
  const bool is_shared = (flags & layout.flag_shared) != 0;
  return kFlags | word(2) | (is_shared ? word(4) : word(3)) | ObjectClass::words_from(5);
}

// Up to 3.1: a count, where, names. Since then: where.
uint64_t words_of_object(uint64_t flags, const RubyLayout& layout, const RubyShapes& shapes) {
  if ((flags & kInSlot) != 0) {
    const uint32_t count =
        layout.has_shapes() ? shapes.variables(RubyValue::shape_of(flags)) : RubyShapes::kTable;
    return count == RubyShapes::kTable ? kFlags : kFlags | ObjectClass::words_from(kFirst + count);
  }
  if (layout.object_count != RubyLayout::kNone) return kFlags | word(2) | word(4);
  return kFlags | ObjectClass::words_from(kFirst + 1);
}

// Up to 3.2: where, default, hints. Since then: default, and behind it the table, or hints and
// pairs.
uint64_t words_of_hash(uint64_t flags, const RubyLayout& layout) {
  constexpr uint64_t kPairs = 4;
  constexpr uint64_t kBehindTable = 10;
  if (layout.has_transient_heap()) return kFlags | word(4);
  if ((flags & kTableInSlot) != 0) {
    // Powers, how many there are, the first one, the one behind the last one.
    return kFlags | word(3) | word(5) | word(7) | word(8) | ObjectClass::words_from(kBehindTable);
  }
  return kFlags | word(3) | ObjectClass::words_from(kPairs + 2 * ruby_pairs_of_hash(flags));
}

// members; or length, where
uint64_t words_of_struct(uint64_t flags, const RubyLayout& layout) {
  constexpr unsigned kLength = 12 + 1;  // RSTRUCT_EMBED_LEN_SHIFT
  const uint64_t length = (flags & layout.struct_length_mask) >> kLength;
  if (length != 0) return kFlags | ObjectClass::words_from(kFirst + length);
  return kFlags | word(2) | ObjectClass::words_from(4);
}

}  // namespace

uint64_t ruby_items_in_slot(uint64_t flags, const RubyLayout& layout) {
  constexpr unsigned kLength = 12 + 3;  // RARRAY_EMBED_LEN_SHIFT
  return flags >> kLength & (layout.has_wide_slots() ? 0x7f : 0x3);
}

uint64_t ruby_pairs_of_hash(uint64_t flags) {
  constexpr unsigned kBound = 12 + 8;  // RHASH_AR_TABLE_BOUND_SHIFT
  return std::min<uint64_t>(flags >> kBound & 0xf, kRubyMostPairs);
}

uint64_t ruby_words_to_skip(std::span<const std::byte> slot, const RubyLayout& layout,
                            const RubyShapes& shapes) {
  uint64_t flags = 0;
  if (slot.size() >= sizeof flags) std::memcpy(&flags, slot.data(), sizeof flags);
  switch (RubyValue::type_of(flags)) {
    case RubyType::kFloat: return kAllButClass;
    case RubyType::kString: return words_of_string(flags, layout);
    case RubyType::kBignum: return (flags & kBignumInSlot) != 0 ? kAllButClass : kFlags;
    case RubyType::kArray: return words_of_array(flags, layout);
    case RubyType::kObject: return words_of_object(flags, layout, shapes);
    case RubyType::kHash: return words_of_hash(flags, layout);
    case RubyType::kStruct: return words_of_struct(flags, layout);
    case RubyType::kImemo:
      // Code, ep, where the variables are, and how many words.
      if (RubyValue::imemo_kind(flags) != RubyValue::kImemoEnv) return kFlags;
      return kFlags | ObjectClass::words_from(kWordsOfEnv);
    default: return kFlags;
  }
}

RubyBuffer ruby_buffer(std::span<const std::byte> slot, const RubyLayout& layout,
                       const RubyShapes& shapes) {
  // Those of a heap of Ruby's own are no blocks of malloc's.
  constexpr uint64_t kYoung = RubyValue::user_flag(13);
  constexpr uint64_t kYoungStruct = RubyValue::user_flag(3);
  const StructBytes words(slot, 8);
  const uint64_t flags = words.word_at(0);
  const uint64_t is_young = layout.has_transient_heap() ? kYoung : 0;
  switch (RubyValue::type_of(flags)) {
    case RubyType::kArray:
      if ((flags & (kInSlot | layout.flag_shared | is_young)) != 0) return {};
      return {Address(words.word_at(32)), words.word_at(16), 4};
    case RubyType::kObject: {
      if ((flags & (kInSlot | is_young)) != 0) return {};
      if (!layout.has_shapes()) {
        return {Address(words.word_at(24)), words.int_at(layout.object_count), 3};
      }
      const uint32_t count = shapes.variables(RubyValue::shape_of(flags));
      if (count == RubyShapes::kTable) return {};
      return {Address(words.word_at(16)), count, 2};
    }
    case RubyType::kStruct: {
      const bool is_there = (flags & layout.struct_length_mask) == 0 &&
                            (!layout.has_transient_heap() || (flags & kYoungStruct) == 0);
      if (!is_there) return {};
      return {Address(words.word_at(24)), words.word_at(16), 3};
    }
    default: return {};
  }
}

}  // namespace heapsnap
