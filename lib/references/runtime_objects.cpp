#include "references/runtime_objects.h"

namespace heapsnap {

void RuntimeObjects::add_buffer_of(const Shape& shape, Address at) {
  constexpr uint64_t kWord = 8;
  if (!at.is_aligned(kWord) || at.value() / kWord >> (64 - kShapeBits) != 0) return;
  const auto [known, is_new] =
      number_of_shape_.try_emplace(shape, static_cast<uint32_t>(shapes_.size()));
  if (is_new) {
    if (shapes_.size() >> kShapeBits != 0) {
      number_of_shape_.erase(known);
      return;
    }
    shapes_.push_back(shape);
  }
  buffers_.push_back(at.value() / kWord << kShapeBits | known->second);
}

uint32_t RuntimeObjects::class_of(const Shape& shape, uint32_t object_at) {
  uint32_t& known = class_of_shape_[{shape, object_at}];
  if (known == SlotMap::kBuffers) {
    ObjectClass made;
    made.skip = shape.skip;
    made.kind = shape.kind;
    made.object_at = object_at;
    known = slots.add_class(std::move(made));
  }
  return known;
}

void RuntimeObjects::seal() {
  constexpr uint64_t kWord = 8;
  slots.seal();
  for (const uint64_t buffer : buffers_.span()) {
    const uint64_t at = (buffer >> kShapeBits) * kWord;
    const Shape& shape = shapes_[buffer & ((uint64_t{1} << kShapeBits) - 1)];
    if (!slots.contains(at)) {
      blocks.push_back({Address(at), class_of(shape, 0)});
      continue;
    }
    const auto slot = slots.find(at);
    if (!slot || slots.class_number(slot->number) != SlotMap::kBuffers) continue;
    const uint64_t before = (at - slots.begin_of(at).value()) / kWord;
    const uint64_t behind = before >= 64 ? 0 : shape.skip << before;
    slots.set_class(slot->number, class_of({~ObjectClass::words_from(before) | behind, shape.kind},
                                           static_cast<uint32_t>(before * kWord)));
  }
  buffers_.release();
}

}  // namespace heapsnap
