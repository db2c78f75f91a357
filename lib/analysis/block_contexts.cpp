#include "analysis/block_contexts.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/stale_words.h"
#include "base/error.h"
#include "references/local_name.h"

namespace heapsnap {

namespace {

// Those of one name are one, whatever thread they belong to; registers are all alike.
uint32_t first_alike(
    const RootPlace& place, uint32_t number,
    std::map<std::tuple<RootKind, std::string, std::string, uint64_t>, uint32_t>& by_name) {
  const bool is_register = place.kind == RootKind::kRegister;
  const std::string name(place.kind == RootKind::kLocal ? local_without_line(place.name)
                                                        : std::string_view(place.name));
  const bool is_apart = place.name.empty() && place.kind != RootKind::kStack;
  return by_name
      .try_emplace({place.kind, is_register ? "" : place.module, is_register ? "" : name,
                    is_apart ? position_of(place) : 0},
                   number)
      .first->second;
}

bool passes(RootKind kind) {
  return kind == RootKind::kStack || kind == RootKind::kRegister || kind == RootKind::kLocal;
}

}  // namespace

BlockContexts::BlockContexts(const ReferenceStreams& references, const BlockSizes& sizes,
                             const LargeArray<TypeNumber>& types, unsigned word)
    : places_(references.places),
      sizes_(sizes),
      types_(types),
      word_(word),
      type_count_(static_cast<uint32_t>(references.types.size())),
      are_arrays_(types_of_arrays(references.types)),
      words_(static_cast<uint32_t>(kLargestStructure / word) + 1),
      first_root_(1 + (type_count_ + words_) * words_),
      blocks_(size_t{type_count_} + words_),
      held_(size_t{first_root_} + places_.size()),
      chosen_(types.size()) {
  for (BlockNumber block = 0; block < types_.size(); ++block) ++blocks_[kind_of(block)];
  name_roots();
  const auto is_wanted = [this](const Root& root) {
    if (root.place >= places_.size()) {
      throw Error(ErrorKind::kBadInput, "the roots", "one is in a place that is not there");
    }
    return root.target < types_.size() && types_[root.target] == 0;
  };
  references.read_roots([&](const Root& root) {
    if (is_wanted(root)) ++held_[spot_of_root(root.place)];
  });
  each_held(references, [this](BlockNumber, uint32_t spot, bool) {
    if (held_[spot] != UINT32_MAX) ++held_[spot];
  });
  references.read_roots([&](const Root& root) {
    if (is_wanted(root)) {
      choose(root.target, 2 * spot_of_root(root.place) + (root.interior ? 1 : 0));
    }
  });
  each_held(references, [this](BlockNumber target, uint32_t spot, bool is_interior) {
    choose(target, 2 * spot + (is_interior ? 1 : 0));
  });
}

void BlockContexts::name_roots() {
  std::map<std::tuple<RootKind, std::string, std::string, uint64_t>, uint32_t> by_name;
  root_of_place_.reserve(places_.size());
  for (uint32_t i = 0; i < places_.size(); ++i) {
    root_of_place_.push_back(first_alike(places_[i], i, by_name));
  }
}

// Calls visit(target, spot, is_interior) for each reference from another block to one of unknown
// type.
template <typename Visit>
void BlockContexts::each_held(const ReferenceStreams& references, Visit visit) const {
  class Sink final : public ReferenceSink {
   public:
    Sink(const BlockContexts& contexts, Visit& visit) : contexts_(contexts), visit_(visit) {}
    void on_references(const ReferenceBatch& batch) override {
      constexpr size_t kAhead = 32;
      const LargeArray<TypeNumber>& types = contexts_.types_;
      size_t next = 0;
      for (size_t i = 0; i < batch.counts.size(); ++i) {
        const uint64_t source = batch.first + uint64_t{i};
        const size_t end = next + batch.counts[i];
        if (source >= types.size() || end > batch.targets.size()) return;
        for (; next < end; ++next) {
          if (next + kAhead < batch.targets.size()) {
            __builtin_prefetch(types.data() + batch.targets[next + kAhead]);
          }
          const BlockNumber target = batch.targets[next];
          if (target >= types.size() || target == source || types[target] != 0) continue;
          visit_(target, contexts_.spot_of(static_cast<BlockNumber>(source), batch.offsets[next]),
                 batch.interior[next] != 0);
        }
      }
    }

   private:
    const BlockContexts& contexts_;
    Visit& visit_;
  };
  Sink sink(*this, visit);
  references.read_references(sink);
}

uint32_t BlockContexts::kind_of(BlockNumber block) const {
  if (types_[block] != 0) return types_[block];
  const uint64_t size = sizes_[block];
  return size > kLargestStructure ? 0 : type_count_ + static_cast<uint32_t>(size / word_);
}

uint32_t BlockContexts::spot_of(BlockNumber source, uint32_t offset) const {
  const uint32_t kind = kind_of(source);
  const uint32_t last = words_ - 1;
  const bool is_array = kind == 0 || (kind < type_count_ && are_arrays_[kind] != 0);
  return 1 + kind * words_ + (is_array ? last : std::min(offset, last));
}

bool BlockContexts::is_rare(uint32_t spot) const {
  if (spot >= first_root_ || (spot - 1) % words_ == words_ - 1) return false;
  return is_rarely_held(held_[spot], blocks_[(spot - 1) / words_]);
}

// The higher, the more it says.
uint64_t BlockContexts::rank_of(uint32_t choice) const {
  const uint32_t spot = choice / 2;
  if (spot == 0) return 0;
  uint64_t sort = 1;
  if (spot >= first_root_) {
    sort = passes(places_[spot - first_root_].kind) ? 0 : 2;
  } else if (const uint32_t kind = (spot - 1) / words_; kind != 0 && kind < type_count_) {
    sort = 3;
  }
  const uint64_t is_usual = is_rare(spot) ? 0 : 1;
  const uint64_t is_begin = choice % 2 == 0 ? 1 : 0;
  return uint64_t{1} << 48 | is_usual << 47 | is_begin << 46 | sort << 44 | held_[spot];
}

void BlockContexts::choose(BlockNumber block, uint32_t choice) {
  uint32_t& chosen = chosen_[block];
  if (chosen == choice) return;
  const uint64_t rank = rank_of(choice);
  const uint64_t before = rank_of(chosen);
  // Of equal ones the lower, whatever order they come in.
  if (rank > before || (rank == before && choice < chosen)) chosen = choice;
}

BlockContext BlockContexts::context(uint32_t number) const {
  using Holder = BlockContext::Holder;
  if (number == 0) return {};
  if (number >= first_root_) {
    return {Holder::kRoot, number - first_root_, BlockContext::kSomewhere};
  }
  const uint32_t kind = (number - 1) / words_;
  if (kind == 0) return {Holder::kArray, 0, BlockContext::kSomewhere};
  const uint32_t at = (number - 1) % words_;
  const uint32_t held_at = at == words_ - 1 ? BlockContext::kSomewhere : at * word_;
  if (kind < type_count_) return {Holder::kType, kind, held_at};
  return {Holder::kSize, (kind - type_count_) * word_, held_at};
}

}  // namespace heapsnap
