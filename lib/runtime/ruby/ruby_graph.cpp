#include "runtime/ruby/ruby_graph.h"

#include <bit>
#include <cstring>

namespace heapsnap {

namespace {

constexpr uint64_t kCachedValue = 8;  // iseq_inline_constant_cache_entry

// Without a reference but that to its class.
bool is_plain(std::span<const std::byte> slot) {
  constexpr uint64_t kStringElsewhere = RubyValue::user_flag(1);
  constexpr uint64_t kBignumEmbedded = RubyValue::user_flag(2);
  uint64_t flags = 0;
  std::memcpy(&flags, slot.data(), sizeof flags);
  switch (RubyValue::type_of(flags)) {
    case RubyType::kFloat: return true;
    case RubyType::kString: return (flags & kStringElsewhere) == 0;
    case RubyType::kBignum: return (flags & kBignumEmbedded) != 0;
    default: return false;
  }
}

}  // namespace

void RubyGraph::add_page(const RubyPage& page, uint64_t page_bytes) {
  const AddressRange range{page.body, page.body + std::bit_ceil(page_bytes)};
  objects_.slots.add_page(range, page.body + page.start, page.slot_bytes, page.slots);
}

void RubyGraph::add_object(uint32_t index, Address at, const RubyOwner& owner,
                           std::span<const std::byte> slot) {
  constexpr size_t kMostModules = 1 << 18;
  const RubyType builtin = types_.all()[owner.type].builtin;
  const bool is_module = builtin == RubyType::kClass || builtin == RubyType::kModule;
  if (is_module && modules_.size() < kMostModules) modules_.push_back(at.value());
  const bool plain = is_plain(slot);
  std::vector<uint32_t>& known = owner.of_class != nullptr ? of_classes_ : of_types_;
  const size_t place =
      2 * size_t{owner.of_class != nullptr ? owner.of_class->number : owner.type} + (plain ? 1 : 0);
  if (place >= known.size()) known.resize(place + 1);
  if (known[place] == 0) known[place] = make_class(owner, plain);
  objects_.slots.add_slot(index, known[place]);
}

uint32_t RubyGraph::make_class(const RubyOwner& owner, bool is_plain) {
  ObjectClass made;
  made.name = owner.of_class != nullptr ? owner.of_class->name : types_.internal_name(owner.type);
  const bool is_cache = types_.all()[owner.type].part == "constcache";
  made.skip = is_plain ? ~ObjectClass::word_bit(RubyValue::kClass) : ObjectClass::word_bit(0);
  if (is_cache) made.skip |= ObjectClass::word_bit(kCachedValue);
  return objects_.slots.add_class(std::move(made));
}

void RubyGraph::add_variables(RubyConstants& constants) {
  for (const uint64_t module : modules_) constants.add_variables(module, objects_);
}

}  // namespace heapsnap
