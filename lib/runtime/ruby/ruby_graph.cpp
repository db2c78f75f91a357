#include "runtime/ruby/ruby_graph.h"

#include <bit>
#include <cstring>

namespace heapsnap {

namespace {

constexpr uint64_t kCachedValue = 8;  // iseq_inline_constant_cache_entry

constexpr uint64_t kFlags = ObjectClass::word_bit(0);
constexpr uint64_t kAllButClass = ~ObjectClass::word_bit(RubyValue::kClass);

// The words of a slot that are no references, by what its flags say.
uint64_t words_to_skip(std::span<const std::byte> slot, const RubyLayout& layout) {
  constexpr uint64_t kNotEmbedded = RubyValue::user_flag(1);  // of strings
  constexpr uint64_t kEmbedded = RubyValue::user_flag(1);     // of arrays and objects
  constexpr uint64_t kBignumEmbedded = RubyValue::user_flag(2);
  constexpr uint64_t kStringBytes = 24;
  constexpr uint64_t kArrayItems = 32;
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
      return is_shared && (flags & kEmbedded) == 0 ? kFlags | ObjectClass::word_bit(kArrayItems)
                                                   : kFlags;
    case RubyType::kObject:
      return layout.object_count != RubyLayout::kNone && (flags & kEmbedded) == 0
                 ? kFlags | ObjectClass::word_bit(kObjectNames)
                 : kFlags;
    default: return kFlags;
  }
}

}  // namespace

void RubyGraph::add_page(const RubyPage& page, uint64_t page_bytes) {
  const AddressRange range{page.body, page.body + std::bit_ceil(page_bytes)};
  objects_.slots.add_page(range, page.body + page.start, page.slot_bytes, page.slots);
}

void RubyGraph::add_object(uint32_t index, Address at, const RubyOwner& owner,
                           std::span<const std::byte> slot, bool is_dead) {
  constexpr size_t kMostModules = 1 << 18;
  const RubyType builtin = types_.all()[owner.type].builtin;
  const bool is_module = builtin == RubyType::kClass || builtin == RubyType::kModule;
  if (is_module && modules_.size() < kMostModules) modules_.push_back(at.value());
  const Kind kind{words_to_skip(slot, layout_),
                  owner.of_class != nullptr ? owner.of_class->number + 1 : 0, owner.type, is_dead};
  if (last_class_ == SlotMap::kBuffers || kind != last_) {
    uint32_t& known = classes_[kind];
    if (known == SlotMap::kBuffers) known = make_class(owner, kind);
    last_ = kind;
    last_class_ = known;
  }
  objects_.slots.add_slot(index, last_class_);
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
