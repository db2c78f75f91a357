#include "runtime/ruby/ruby_graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "heap/struct_bytes.h"
#include "references/block_type.h"

namespace heapsnap {

namespace {

constexpr uint64_t kCachedValue = 8;  // iseq_inline_constant_cache_entry

constexpr uint64_t kStringBytes = 24;
constexpr uint64_t kFlags = ObjectClass::word_bit(0);
constexpr uint64_t kAllButClass = ~ObjectClass::word_bit(RubyValue::kClass);

constexpr uint64_t kHashTable = RubyValue::user_flag(3);
constexpr uint64_t kFirstPair = 4;  // word of a slot in which the pairs are (since 3.3)

// Of a hash with up to eight pairs of key and value: how many there are, or were.
uint64_t pairs_of_hash(uint64_t flags) {
  constexpr unsigned kBound = 12 + 8;  // RHASH_AR_TABLE_BOUND_SHIFT
  return std::min<uint64_t>(flags >> kBound & 0xf, RubyGraph::kMostPairs);
}

constexpr uint64_t kItemsInSlot = RubyValue::user_flag(1);  // of arrays and objects
constexpr uint64_t kArrayItems = 32;

// The words of a slot that are no references, by what its flags say.
uint64_t words_to_skip(std::span<const std::byte> slot, const RubyLayout& layout) {
  constexpr uint64_t kNotEmbedded = RubyValue::user_flag(1);  // of strings
  constexpr uint64_t kBignumEmbedded = RubyValue::user_flag(2);
  constexpr uint64_t kObjectNames = 32;  // the table of its class, up to 3.1
  uint64_t flags = 0;
  std::memcpy(&flags, slot.data(), sizeof flags);
  const bool is_shared = (flags & layout.flag_shared) != 0;
  switch (RubyValue::type_of(flags)) {
    case RubyType::kFloat: return kAllButClass;
    case RubyType::kString:
      if ((flags & kNotEmbedded) == 0) return kAllButClass;
      return is_shared ? kFlags | ObjectClass::word_bit(kStringBytes) : kFlags;
    case RubyType::kBignum: return (flags & kBignumEmbedded) != 0 ? kAllButClass : kFlags;
    case RubyType::kArray:
      return is_shared && (flags & kItemsInSlot) == 0 ? kFlags | ObjectClass::word_bit(kArrayItems)
                                                      : kFlags;
    case RubyType::kObject:
      return layout.object_count != RubyLayout::kNone && (flags & kItemsInSlot) == 0
                 ? kFlags | ObjectClass::word_bit(kObjectNames)
                 : kFlags;
    case RubyType::kHash:
      if (layout.hash_table != RubyLayout::kNone || (flags & kHashTable) != 0) return kFlags;
      return kFlags | ObjectClass::words_from(kFirstPair + 2 * pairs_of_hash(flags));
    default: return kFlags;
  }
}

}  // namespace

void RubyGraph::add_page(const RubyPage& page, uint64_t page_bytes) {
  objects_.slots.add_page({page.body, page.body + page_bytes}, page.body + page.start,
                          page.slot_bytes, page.slots);
}

void RubyGraph::add_object(uint32_t index, Address at, const RubyOwner& owner,
                           std::span<const std::byte> slot, bool is_dead) {
  constexpr size_t kMostModules = 1 << 18;
  const RubyType builtin = types_.all()[owner.type].builtin;
  const bool is_module = builtin == RubyType::kClass || builtin == RubyType::kModule;
  if (is_module && modules_.size() < kMostModules) modules_.push_back(at.value());
  const Kind kind{words_to_skip(slot, layout_),
                  owner.of_class != nullptr ? owner.of_class->number + 1 : 0, owner.type, is_dead};
  Recent& recent = recent_[KindHash()(kind) % recent_.size()];
  if (recent.number == SlotMap::kBuffers || recent.kind != kind) {
    uint32_t& known = classes_[kind];
    if (known == SlotMap::kBuffers) known = make_class(owner, kind);
    recent = {kind, known};
  }
  objects_.slots.add_slot(index, recent.number);
  if (builtin == RubyType::kString) add_string_bytes(slot);
  if (builtin == RubyType::kHash) add_hash_pairs(slot);
  if (builtin == RubyType::kArray) add_array_end(slot);
}

void RubyGraph::add_block(uint64_t at, uint32_t& of_class, const char* name, uint64_t skip,
                          bool is_exact) {
  constexpr size_t kMostBlocks = 1 << 24;
  if (objects_.blocks.size() >= kMostBlocks) return;
  if (of_class == SlotMap::kBuffers) {
    ObjectClass made;
    made.name = name;
    made.skip = skip;
    made.is_exact = is_exact;
    of_class = objects_.slots.add_class(std::move(made));
  }
  objects_.blocks.push_back({Address(at), of_class});
}

void RubyGraph::add_array_end(std::span<const std::byte> slot) {
  constexpr uint64_t kMostItems = uint64_t{1} << 40;
  constexpr size_t kMostLarge = 1 << 22;
  constexpr uint64_t kSmall =
      64;  // of which RuntimeObjects::add_buffer() can say it in less memory
  const bool has_transient_heap = layout_.hash_table != RubyLayout::kNone;
  const uint64_t is_root = RubyValue::user_flag(has_transient_heap ? 5 : 12);
  const uint64_t is_transient = has_transient_heap ? RubyValue::user_flag(13) : 0;
  const StructBytes words(slot, 8);
  if ((words.word_at(0) & (kItemsInSlot | layout_.flag_shared | is_root | is_transient)) != 0) {
    return;
  }
  const uint64_t items = words.word_at(16);
  const uint64_t room = words.word_at(24);
  const Address first(words.word_at(kArrayItems));
  if (first.is_null() || items >= room || room > kMostItems) return;
  if (room <= kSmall) {
    objects_.add_buffer(first, ObjectClass::words_from(items));
  } else if (objects_.left_over.size() < kMostLarge) {
    objects_.left_over.push_back({first, items * 8});
  }
}

void RubyGraph::add_hash_pairs(std::span<const std::byte> slot) {
  if (layout_.hash_table == RubyLayout::kNone) return;
  const StructBytes words(slot, 8);
  const uint64_t flags = words.word_at(0);
  if ((flags & kHashTable) != 0) return;
  const uint64_t pairs = pairs_of_hash(flags);
  add_block(words.word_at(layout_.hash_table), hash_pairs_[pairs], "Hash pairs",
            ObjectClass::words_from(2 * pairs));
}

void RubyGraph::add_table(Address table, std::span<const std::byte> header) {
  constexpr uint64_t kBins = 24;
  constexpr uint64_t kEntries = 48;
  const StructBytes words(header, 8);
  add_block(table.value(), table_, "Hash table", 0, true);
  if (const uint64_t bins = words.word_at(kBins); bins != 0) {
    add_block(bins, table_bins_, "Hash bins", ObjectClass::kNoReferences);
  }
  if (const uint64_t entries = words.word_at(kEntries); entries != 0) {
    add_block(entries, table_entries_, "Hash entries", 0, true);
  }
}

void RubyGraph::add_string_bytes(std::span<const std::byte> slot) {
  constexpr uint64_t kElsewhere = RubyValue::user_flag(1);
  const StructBytes words(slot, 8);
  const uint64_t flags = words.word_at(0);
  if ((flags & (kElsewhere | layout_.flag_shared)) != kElsewhere) return;
  add_block(words.word_at(kStringBytes), string_bytes_, "String bytes", ObjectClass::kNoReferences);
}

uint32_t RubyGraph::make_class(const RubyOwner& owner, const Kind& kind) {
  const RubyTypes::Type& type = types_.all()[owner.type];
  ObjectClass made;
  made.name = owner.of_class != nullptr ? owner.of_class->name : types_.internal_name(owner.type);
  if (kind.is_dead) {
    made.name += " (unswept)";
  } else {
    made.builtin = RubyValue::type_name(type.builtin);
    made.part = type.part;
    made.is_exact = true;
  }
  made.skip = kind.skip;
  if (type.part == "constcache") made.skip |= ObjectClass::word_bit(kCachedValue);
  return objects_.slots.add_class(std::move(made));
}

void RubyGraph::add_variables(RubyConstants& constants, RubyVariables& variables) {
  for (const uint64_t module : modules_) {
    constants.add_variables(module, objects_);
    variables.add_of_class(module, objects_);
  }
  variables.add_globals(objects_);
}

}  // namespace heapsnap
