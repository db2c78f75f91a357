#include "runtime/ruby/ruby_inline_constants.h"

#include <utility>

#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

void RubyInlineConstants::add_of(Address body) {
  if (layout_.code_constants == RubyLayout::kNone || !RubyValue::is_object(body.value())) return;
  const auto entries = cache_.word(body + layout_.code_constants, 8);
  if (!entries || !RubyValue::is_object(*entries)) return;
  if (entries_ == SlotMap::kBuffers) {
    ObjectClass made;
    made.name = "inline caches";
    // What is not of a constant has its value in the middle: /regexp/o.
    made.rows = {0, 3, 2};
    made.is_exact = true;
    entries_ = objects_.slots.add_class(std::move(made));
  }
  objects_.blocks.push_back({Address(*entries), entries_});
}

}  // namespace heapsnap
