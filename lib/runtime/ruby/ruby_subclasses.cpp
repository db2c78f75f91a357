#include "runtime/ruby/ruby_subclasses.h"

#include <utility>

#include "base/address.h"
#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

void RubySubclasses::add_of(uint64_t module) {
  constexpr uint64_t kWord = 8;
  constexpr uint64_t kNext = 8;  // rb_subclass_entry: class, next; from 3.1 on also previous
  Address place(module);
  if (layout_.class_extension != RubyLayout::kNone) {
    const auto extension = cache_.word(place + layout_.class_extension, kWord);
    if (!extension || !RubyValue::is_object(*extension)) return;
    place = Address(*extension);
  }
  uint64_t entry = cache_.word(place + layout_.class_subclasses, kWord).value_or(0);
  for (; RubyValue::is_object(entry) && entries_ < kMostEntries; ++entries_) {
    if (entry_ == SlotMap::kBuffers) {
      ObjectClass made;
      made.name = "Subclass link";
      made.skip = ~ObjectClass::word_bit(kNext);
      made.is_exact = true;
      entry_ = objects_.slots.add_class(std::move(made));
    }
    objects_.blocks.push_back({Address(entry), entry_});
    entry = cache_.word(Address(entry) + kNext, kWord).value_or(0);
  }
}

}  // namespace heapsnap
