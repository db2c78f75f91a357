#include "references/runtime_objects.h"

namespace heapsnap {

void RuntimeObjects::add_buffer(Address at, uint64_t skip) {
  constexpr uint64_t kWord = 8;
  if (!at.is_aligned(kWord) || at.value() / kWord >> (64 - kSkipBits) != 0) return;
  const auto [known, is_new] =
      number_of_skip_.try_emplace(skip, static_cast<uint32_t>(skips_.size()));
  if (is_new) {
    if (skips_.size() >> kSkipBits != 0) {
      number_of_skip_.erase(known);
      return;
    }
    skips_.push_back(skip);
  }
  buffers_.push_back(at.value() / kWord << kSkipBits | known->second);
}

uint32_t RuntimeObjects::class_that_skips(uint64_t skip, uint32_t object_at) {
  uint32_t& known = class_of_skip_[{skip, object_at}];
  if (known == SlotMap::kBuffers) {
    ObjectClass made;
    made.skip = skip;
    made.object_at = object_at;
    known = slots.add_class(std::move(made));
  }
  return known;
}

void RuntimeObjects::seal() {
  constexpr uint64_t kWord = 8;
  slots.seal();
  for (const uint64_t buffer : buffers_.span()) {
    const uint64_t at = (buffer >> kSkipBits) * kWord;
    const uint64_t skip = skips_[buffer & ((uint64_t{1} << kSkipBits) - 1)];
    if (!slots.contains(at)) {
      blocks.push_back({Address(at), class_that_skips(skip, 0)});
      continue;
    }
    const auto slot = slots.find(at);
    if (!slot || slots.class_number(slot->number) != SlotMap::kBuffers) continue;
    const uint64_t before = (at - slots.begin_of(at).value()) / kWord;
    const uint64_t behind = before >= 64 ? 0 : skip << before;
    slots.set_class(slot->number, class_that_skips(~ObjectClass::words_from(before) | behind,
                                                   static_cast<uint32_t>(before * kWord)));
  }
  buffers_.release();
}

}  // namespace heapsnap
