#include "references/object_references.h"

#include <algorithm>
#include <utility>

namespace heapsnap {

ObjectReferences::ObjectReferences(const BlockMap& map, const RuntimeObjects& objects,
                                   ReferenceSink& next, ReceiveVariable receive)
    : map_(map),
      next_(next),
      receive_(std::move(receive)),
      of_block_(map.first_slot()),
      kinds_(map.blocks()) {
  BlockMap::Hint hint;
  for (const RuntimeObjects::Block& block : objects.blocks) {
    const auto place = map.find(block.at.value(), hint);
    if (place && place->offset == 0 && place->block < of_block_.size()) {
      of_block_[place->block] = block.of_class;
    }
  }
  std::vector<uint8_t> kind_of_class;
  for (const ObjectClass& one : map.slots().classes()) {
    have_links_ |= one.is_held_by_links || one.is_held_from_outside;
    kind_of_class.push_back(one.kind);
  }
  const std::span<uint8_t> kinds = kinds_.span();
  const BlockNumber first_slot = map.first_slot();
  for (BlockNumber block = 0; block < first_slot; ++block) {
    kinds[block] = kind_of_class[of_block_[block]];
  }
  for (uint32_t slot = 0; slot < map.slots().size(); ++slot) {
    kinds[first_slot + slot] = kind_of_class[map.slots().class_number(slot)];
  }
  find_words(objects);
  add_listed(objects);
}

void ObjectReferences::add_listed(const RuntimeObjects& objects) {
  BlockMap::Hint hint;
  for (const RuntimeObjects::Listed& one : objects.listed) {
    const auto by = map_.find(one.by.value(), hint);
    const auto at = map_.find(one.at.value(), hint);
    if (by && at) apart_.push_back({by->block, one.offset, at->block, 0});
  }
  sort_apart();
}

bool ObjectReferences::only_knows(const ObjectClass& source, uint32_t offset, BlockNumber target,
                                  bool interior) const {
  const ObjectClass& known = map_.slots().classes()[class_of(target)];
  if (known.is_held_from_outside) return true;
  if (interior || !known.is_held_by_links) return false;
  return offset >= 64 || (source.links >> offset & 1) == 0;
}

std::optional<std::pair<BlockNumber, uint64_t>> ObjectReferences::find_word(
    Address at, BlockMap::Hint& hint) const {
  constexpr uint64_t kWord = 8;
  const auto place = map_.find(at.value(), hint);
  if (!place) return std::nullopt;
  // Of a slot, the offset counts from where its object begins.
  const bool is_slot = place->block >= map_.first_slot();
  const uint64_t offset = is_slot ? at - map_.slots().begin_of(at.value()) : place->offset;
  return std::pair(place->block, offset / kWord);
}

void ObjectReferences::find_words(const RuntimeObjects& objects) {
  constexpr uint64_t kWord = 8;
  BlockMap::Hint hint;
  for (uint32_t i = 0; i < objects.variables.size(); ++i) {
    const auto word = find_word(objects.variables[i].word, hint);
    if (word) words_.push_back({word->first, static_cast<uint32_t>(word->second), i});
  }
  std::sort(words_.begin(), words_.end());
  for (const RuntimeObjects::LeftOver& one : objects.left_over) {
    const auto word = find_word(one.in, hint);
    if (!word) continue;
    left_over_.push_back(
        {word->first, word->second + one.from / kWord, word->second + one.to / kWord});
  }
  std::sort(left_over_.begin(), left_over_.end());
}

void ObjectReferences::add_apart_found(std::vector<ApartReference> apart) {
  apart_.insert(apart_.end(), apart.begin(), apart.end());
  sort_apart();
}

void ObjectReferences::sort_apart() {
  const auto place = [](const ApartReference& one) { return std::pair(one.source, one.offset); };
  std::sort(apart_.begin(), apart_.end(),
            [&](const ApartReference& a, const ApartReference& b) { return place(a) < place(b); });
  // Of two objects in one slot, which damage may bring about, one counts.
  const auto repeated = std::unique(
      apart_.begin(), apart_.end(),
      [&](const ApartReference& a, const ApartReference& b) { return place(a) == place(b); });
  apart_.erase(repeated, apart_.end());
}

void ObjectReferences::add_apart(BlockNumber source, size_t first, uint64_t end) {
  while (next_apart_ < apart_.size() && apart_[next_apart_].source < source) ++next_apart_;
  for (; next_apart_ < apart_.size() && apart_[next_apart_].source == source; ++next_apart_) {
    const ApartReference& one = apart_[next_apart_];
    if (one.offset >= end) return;
    const auto place = std::lower_bound(offsets_.begin() + static_cast<ptrdiff_t>(first),
                                        offsets_.end(), one.offset);
    if (place != offsets_.end() && *place == one.offset) continue;
    const auto at = place - offsets_.begin();
    offsets_.insert(place, one.offset);
    targets_.insert(targets_.begin() + at, one.target);
    interior_.insert(interior_.begin() + at,
                     one.inside != 0 && !begins_inside(one.target, one.inside) ? 1 : 0);
  }
}

// Skips the words of blocks before this one; whether it has some.
template <typename Each>
bool ObjectReferences::begins(const std::vector<Each>& words, size_t& next, BlockNumber block) {
  while (next < words.size() && words[next].block < block) ++next;
  return next < words.size() && words[next].block == block;
}

const ObjectReferences::Word* ObjectReferences::word_at(BlockNumber block, uint32_t offset) {
  while (next_word_ < words_.size() && words_[next_word_].block == block &&
         words_[next_word_].offset < offset) {
    ++next_word_;
  }
  const bool is_one = next_word_ < words_.size() && words_[next_word_].block == block &&
                      words_[next_word_].offset == offset;
  return is_one ? &words_[next_word_] : nullptr;
}

bool ObjectReferences::is_left_over(BlockNumber block, uint64_t offset) {
  while (next_left_over_ < left_over_.size() && left_over_[next_left_over_].block == block &&
         left_over_[next_left_over_].end <= offset) {
    ++next_left_over_;
  }
  return next_left_over_ < left_over_.size() && left_over_[next_left_over_].block == block &&
         left_over_[next_left_over_].first <= offset;
}

void ObjectReferences::on_references(const ReferenceBatch& batch) {
  counts_.clear();
  offsets_.clear();
  targets_.clear();
  interior_.clear();
  offsets_.reserve(batch.targets.size());
  targets_.reserve(batch.targets.size());
  interior_.reserve(batch.targets.size());
  const BlockNumber first_slot = map_.first_slot();
  size_t at = 0;
  for (size_t i = 0; i < batch.counts.size(); ++i) {
    const auto source = static_cast<BlockNumber>(batch.first + i);
    const size_t before = targets_.size();
    const bool is_slot = source >= first_slot;
    const ObjectClass& known = known_class(source);
    const bool has_words = begins(words_, next_word_, source);
    const bool has_left_over = begins(left_over_, next_left_over_, source);
    for (const size_t end = at + batch.counts[i]; at < end; ++at) {
      const uint32_t offset = batch.offsets[at];
      const BlockNumber target = batch.targets[at];
      if (!is_slot && known.skips(offset)) continue;
      if (has_left_over && is_left_over(source, offset)) continue;
      const bool interior = batch.interior[at] != 0 && !begins_inside(target, batch.interior[at]);
      if (has_words) {
        if (const Word* const word = word_at(source, offset)) {
          receive_(word->variable, target, interior);
          continue;
        }
      }
      if (have_links_ && only_knows(known, offset, target, interior)) continue;
      for (const ObjectClass::Buffer& buffer : known.buffers) {
        // What the target's own object says of it comes first.
        if (buffer.word != offset || known_class(target).kind != 0) continue;
        kinds_[target] = static_cast<uint8_t>(buffer.kind + 1);
      }
      offsets_.push_back(offset);
      targets_.push_back(target);
      interior_.push_back(interior ? 1 : 0);
    }
    const bool is_part = batch.goes_on && i + 1 == batch.counts.size();
    const uint64_t known_end = batch.counts[i] == 0 ? 0 : uint64_t{batch.offsets[at - 1]} + 1;
    add_apart(source, before, is_part ? known_end : UINT64_MAX);
    counts_.push_back(static_cast<uint32_t>(targets_.size() - before));
  }
  next_.on_references({batch.first, counts_, offsets_, targets_, interior_, batch.goes_on});
}

}  // namespace heapsnap
