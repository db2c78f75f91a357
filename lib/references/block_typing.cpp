#include "references/block_typing.h"

#include <algorithm>
#include <utility>

#include "references/block_slack.h"
#include "references/slack_words.h"

namespace heapsnap {

namespace {

// malloc_usable_size(3) of a block that `bytes` were asked for, as far as it is no rest.
uint64_t usable_for(uint64_t bytes, Machine machine) {
  const uint64_t word = word_size(machine);
  constexpr uint64_t kGranule = 16;
  const uint64_t chunk = (bytes + word + kGranule - 1) / kGranule * kGranule;
  return std::max(chunk, 4 * word) - word;
}

bool is_filled_exactly(uint64_t usable, uint64_t bytes, Machine machine) {
  return usable_for(bytes, machine) == usable ||
         (bytes >= kSmallestMappedBlock && is_filled_by(usable, bytes));
}

// Also with a rest behind it that was too small for a chunk of its own.
bool is_filled_by_object(uint64_t usable, const DebugType& type, Machine machine) {
  constexpr uint64_t kRest = 16;
  return is_filled_exactly(usable, type.size, machine) || type.is_open_ended ||
         (usable >= kRest && is_filled_exactly(usable - kRest, type.size, machine));
}

// Each unit of a program in C has its own.
bool is_same_type(const TypeGraph& graph, DebugTypeNumber a, DebugTypeNumber b) {
  return a == b ||
         (graph.types[a].size == graph.types[b].size && graph.types[a].name == graph.types[b].name);
}

}  // namespace

TypedBlock fitted_type(const TypeGraph& graph, const Pointee& pointee, uint64_t usable,
                       Machine machine, DebugTypeNumber from, DebugTypeNumber beginning) {
  if (pointee.type == 0 || pointee.type >= graph.types.size()) return {};
  const DebugType& type = graph.types[pointee.type];
  if (type.size == 0 || type.size > usable || usable >= UINT32_MAX) return {};
  if (pointee.role == PointerRole::kText) return {pointee.type, BlockShape::kText};
  const uint64_t filled = usable / type.size * type.size;
  if (pointee.role != PointerRole::kObject) {
    const bool is_buckets = pointee.role == PointerRole::kBuckets;
    if (!is_filled_by(usable, filled)) return {};
    return {pointee.type, is_buckets ? BlockShape::kBuckets : BlockShape::kArray};
  }
  // Its vtable would have told, unless that is the one of its first member.
  if (type.has_vptr && (beginning == 0 || !graph.begins_with(pointee.type, beginning))) return {};
  const TypedBlock object{pointee.type, BlockShape::kObject};
  if (is_filled_exactly(usable, type.size, machine) || type.is_open_ended) return object;
  // What others begin with may be the beginning of anything, and nodes do not lie in arrays.
  const bool may_be_array = !type.is_beginning && pointee.type != from;
  if (may_be_array && filled > type.size) {
    for (uint64_t bytes = filled; bytes > type.size && usable - bytes < 2 * sizeof(uint64_t);
         bytes -= type.size) {
      if (is_filled_exactly(usable, bytes, machine)) return {pointee.type, BlockShape::kArray};
    }
  }
  if (is_filled_by_object(usable, type, machine)) return object;
  if (may_be_array && filled > type.size && is_filled_by(usable, filled)) {
    return {pointee.type, BlockShape::kArray};
  }
  return {};
}

BlockTyping::BlockTyping(const TypeGraph& graph, const BlockEdges& edges, Machine machine,
                         std::span<const SlackWords> slack)
    : graph_(graph),
      edges_(edges),
      slack_(slack),
      machine_(machine),
      word_(word_size(machine)),
      marks_(edges.blocks()),
      claims_(edges.blocks()),
      weak_claims_(edges.blocks()),
      votes_(edges.blocks()),
      of_containers_(edges.blocks()) {
  for (DebugTypeNumber type = 0; type < graph.types.size(); ++type) {
    unsigned steps = 0;
    for (const PointerMember& pointer : graph.types[type].pointers) {
      steps |= 1U << step_of(type, pointer.to);
    }
    steps_of_.push_back(static_cast<uint8_t>(steps));
  }
}

BlockTyping::Packed BlockTyping::packed(const TypedBlock& typed, Level level) {
  return typed.type << 5 | static_cast<uint32_t>(typed.shape) << 3 | level;
}

TypedBlock BlockTyping::unpacked(Packed claim) {
  return {claim >> 5, static_cast<BlockShape>(claim >> 3 & 3)};
}

BlockTyping::Level BlockTyping::further(Level level, unsigned step) {
  const Level base = level & kFrames;
  return base | std::min(kLevels - 1, level - base + step);
}

unsigned BlockTyping::step_of(DebugTypeNumber holder, const Pointee& to) {
  if (to.in_union) return kUnions;
  return to.type == holder && to.role == PointerRole::kObject ? kLinks : kMembers;
}

BlockTyping::Votes BlockTyping::vote_at(Level level, bool is_sure) {
  if (!is_sure || level >= kFrames) return {0, 0, 1, 0};
  return level == kVariables ? Votes{1, 0, 0, 1} : Votes{0, 1, 0, 1};
}

void BlockTyping::add_known(const KnownBlock& known) {
  if (known.block >= marks_.size()) return;
  const bool is_described = known.type != 0 && known.type < graph_.types.size();
  if (is_described && !known.is_array) {
    const DebugType& type = graph_.types[known.type];
    const uint64_t usable = edges_.usable(known.block);
    if (type.size != 0 && type.size < usable && !is_filled_by_object(usable, type, machine_)) {
      beginnings_.emplace(known.block, known.type);
      return;
    }
  }
  marks_[known.block] = kKnown;
  if (is_described) known_.push_back(known);
}

void BlockTyping::begin_round() {
  for (const auto& [block, type] : beginnings_) {
    if (marks_[block] != 0) continue;
    set_claim(block, {type, BlockShape::kObject}, kVariables);
    votes_[block] = vote_at(kVariables, true);
  }
}

void BlockTyping::run(std::span<const Claim> of_variables, std::span<const Claim> of_frames) {
  // What a block that was contradicted had led to may have been wrong; what one leads to that was
  // decided may contradict others.
  constexpr int kMostRounds = 6;
  for (int round = 0; round < kMostRounds; ++round) {
    is_contradicted_ = false;
    if (round != 0) {
      std::fill(claims_.begin(), claims_.end(), 0);
      std::fill(weak_claims_.begin(), weak_claims_.end(), 0);
      std::fill(of_containers_.begin(), of_containers_.end(), 0);
    }
    begin_round();
    run_level(of_variables, kVariables);
    run_level(of_frames, kFrames);
    follow_spare_words();
    if (!is_contradicted_) break;
    decide();
  }
  if (!has_weak_claims_) return;
  for (BlockNumber block = 0; block < claims_.size(); ++block) {
    const Packed weak = weak_claims_[block];
    if (weak == 0 || claims_[block] != 0 || marks_[block] != 0) continue;
    claims_[block] = weak;
    votes_[block] = {};
  }
}

TypedBlock BlockTyping::type_of(BlockNumber block) const {
  return block < claims_.size() ? unpacked(claims_[block]) : TypedBlock{};
}

bool BlockTyping::is_sure(BlockNumber block) const {
  return block < claims_.size() && claims_[block] != 0 && votes_[block].has_sure_one != 0;
}

// | characters | size | capacity, or text | text, or not used |
std::vector<UnusedWord> BlockTyping::find_unused_words() const {
  constexpr uint32_t kWordBytes = 8;
  constexpr uint32_t kTail = 3;  // words behind the address of the characters
  std::vector<UnusedWord> unused;
  if (word_ != kWordBytes) return unused;
  std::vector<uint8_t> have_texts;  // of each type
  for (const DebugType& type : graph_.types) {
    have_texts.push_back(std::ranges::any_of(type.pointers, [](const PointerMember& member) {
      return member.to.role == PointerRole::kText && !member.to.in_union;
    }));
  }
  BlockEdges::Hint hint;
  const auto look_at = [&](BlockNumber block, const TypedBlock& typed, uint64_t objects_at) {
    const bool has_objects =
        typed.shape == BlockShape::kObject || typed.shape == BlockShape::kArray;
    const DebugType& type = graph_.types[typed.type];
    if (have_texts[typed.type] == 0 || !has_objects || type.size == 0) return;
    edges_.each(block, hint, [&](uint32_t word, BlockNumber /*target*/) {
      const uint64_t end = uint64_t{word} * kWordBytes;
      if (word < kTail || end < objects_at + kTail * kWordBytes) return true;
      const uint64_t at = end - objects_at - kTail * kWordBytes;
      if (typed.shape == BlockShape::kObject && at >= type.size) return false;
      const Pointee to = type.pointee_at(at % type.size);
      if (to.role == PointerRole::kText && !to.in_union) unused.push_back({block, word});
      return true;
    });
  };
  for (const KnownBlock& known : known_) {
    const BlockShape shape = known.is_array ? BlockShape::kArray : BlockShape::kObject;
    look_at(known.block, {known.type, shape}, known.objects_at);
  }
  for (BlockNumber block = 0; block < claims_.size(); ++block) {
    if (claims_[block] == 0) continue;
    // An object may have more behind it, which looks like another one.
    const TypedBlock typed = unpacked(claims_[block]);
    const bool is_array = typed.shape == BlockShape::kArray;
    if (!is_array || of_containers_[block] != 0) look_at(block, typed, 0);
  }
  std::ranges::sort(unused);
  unused.erase(std::unique(unused.begin(), unused.end()), unused.end());
  return unused;
}

bool BlockTyping::has_claims(BlockNumber first, size_t count) const {
  Packed any = 0;
  const size_t end = std::min(claims_.size(), first + count);
  for (size_t block = first; block < end; ++block) any |= claims_[block];
  return any != 0;
}

TypedBlock BlockTyping::whole_of(BlockNumber block) const {
  const auto beginning = beginnings_.find(block);
  if (beginning == beginnings_.end()) return {};
  const TypedBlock typed = type_of(block);
  const bool is_more = typed.type != 0 && typed.type != beginning->second &&
                       graph_.begins_with(typed.type, beginning->second);
  return is_more ? typed : TypedBlock{};
}

void BlockTyping::run_level(std::span<const Claim> claims, Level level) {
  for (const Claim& one : claims) claim(one.block, one.pointee, 0, level, vote_at(level, true));
  follow_waiting(level);
}

void BlockTyping::follow_waiting(Level base) {
  for (Level level = 0; level < kLevels; ++level) {
    if (base == kVariables && level < kSteps) follow_known(level);
    auto& steps = waiting_.at(level);
    const auto next = [&steps] {
      return std::ranges::find_if(steps, [](const auto& blocks) { return !blocks.empty(); });
    };
    for (auto blocks = next(); blocks != steps.end(); blocks = next()) {
      const BlockNumber block = blocks->back();
      blocks->pop_back();
      follow_claim(block, base + level, {1U << (blocks - steps.begin())});
    }
  }
}

void BlockTyping::follow_known(unsigned step) {
  for (const KnownBlock& known : known_) {
    const auto shape = known.is_array ? BlockShape::kArray : BlockShape::kObject;
    follow(known.block, {known.type, shape}, kVariables + step, known.objects_at, {1U << step});
  }
}

void BlockTyping::follow_claim(BlockNumber block, Level level, const Which& which) {
  if (claims_[block] != 0) follow(block, unpacked(claims_[block]), level, 0, which);
}

// At last, when it is known which arrays are containers'. Words of others, rings perhaps, may be in
// use; they say as little as those of frames.
void BlockTyping::follow_spare_words() {
  while (!with_spare_words_.empty()) {
    std::vector<BlockNumber> blocks = std::exchange(with_spare_words_, {});
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    std::erase_if(blocks, [this](BlockNumber block) {
      return claims_[block] == 0 || of_containers_[block] != 0;
    });
    for (const BlockNumber block : blocks) follow_claim(block, kFrames, {.words = Words::kSpare});
    follow_waiting(kFrames);
  }
}

void BlockTyping::follow(BlockNumber block, const TypedBlock& typed, Level level,
                         uint64_t objects_at, const Which& which) {
  if (typed.shape == BlockShape::kText) return;
  const DebugType& type = graph_.types[typed.type];
  if ((steps_of_[typed.type] & which.steps) == 0 || type.size == 0) return;
  const bool is_full = typed.shape != BlockShape::kArray || marks_[block] == kKnown;
  const bool is_sure = is_full || of_containers_[block] != 0;
  const SlackWords* const slack = is_full ? nullptr : slack_of(slack_, block);
  const bool is_for_spare = which.words == Words::kSpare;
  bool has_others = false;
  edges_.each(block, edges_hint_, [&](uint32_t word, BlockNumber target) {
    if (slack != nullptr && slack->is_unused(word)) return true;
    if ((slack != nullptr && slack->is_spare(word)) != is_for_spare) {
      has_others = true;
      return true;
    }
    uint64_t offset = uint64_t{word} * word_;
    if (offset < objects_at) return true;
    offset -= objects_at;
    if (typed.shape != BlockShape::kObject) offset %= type.size;
    if (offset >= type.size) return false;
    const Pointee to = type.pointee_at(offset);
    const unsigned step = step_of(typed.type, to);
    if (to.type == 0 || (which.steps >> step & 1) == 0) return true;
    Votes vote = vote_at(level, is_sure && step != kUnions);
    if (!is_full && vote.has_sure_one != 0) vote = {0, 0, 1, 1};
    claim(target, to, typed.type, level, vote);
    return true;
  });
  if (has_others && !is_for_spare) with_spare_words_.push_back(block);
}

bool BlockTyping::has_addresses(BlockNumber block) const {
  BlockEdges::Hint hint;
  bool has_any = false;
  edges_.each(block, hint, [&has_any](uint32_t /*word*/, BlockNumber /*target*/) {
    has_any = true;
    return false;
  });
  return has_any;
}

void BlockTyping::set_claim(BlockNumber block, const TypedBlock& typed, Level level) {
  claims_[block] = packed(typed, level);
  const unsigned steps = typed.shape == BlockShape::kText ? 0 : steps_of_[typed.type];
  for (unsigned step = 0; step < kSteps; ++step) {
    if ((steps >> step & 1) == 0) continue;
    const Level next = further(level, step);
    waiting_.at(next % kFrames).at(step).push_back(block);
  }
}

void BlockTyping::claim(BlockNumber block, const Pointee& pointee, DebugTypeNumber holder,
                        Level level, const Votes& vote) {
  if (block >= claims_.size() || marks_[block] == kKnown || marks_[block] == kContradicted) return;
  const auto beginning = beginnings_.find(block);
  const TypedBlock wanted = fitted_type(graph_, pointee, edges_.usable(block), machine_, holder,
                                        beginning == beginnings_.end() ? 0 : beginning->second);
  if (wanted.type == 0) return;
  // What has addresses in it is no text, as far as that is left over itself.
  if (wanted.shape == BlockShape::kText && vote.has_sure_one == 0 && has_addresses(block)) return;
  if (graph_.types[wanted.type].is_scalar && pointee.role == PointerRole::kObject) {
    if (weak_claims_[block] == 0) weak_claims_[block] = packed(wanted, level);
    has_weak_claims_ = true;
    return;
  }
  if (marks_[block] == kDisputed) return add_vote(disputed_[block], wanted, vote);
  const Packed before = claims_[block];
  const bool is_decided = marks_[block] == kDecided;
  News news = News::kMore;
  if (is_decided) {
    news = compare(decided_[block].typed, wanted);
  } else if (before != 0) {
    news = compare(unpacked(before), wanted);
  }
  const bool is_contradiction = news == News::kContradiction;
  if (!is_contradiction && pointee.role == PointerRole::kElements) of_containers_[block] = 1;
  if (is_decided) {
    // Nothing follows from it before somebody says so in this round, too.
    if (before != 0 || is_contradiction) return;
    set_claim(block, decided_[block].typed, level);
    votes_[block] = decided_[block].votes;
    return;
  }
  if (before != 0) {
    if ((before & kFrames) < (level & kFrames)) return;
    if (is_contradiction) return dispute(block, wanted, vote);
    Candidate known{unpacked(before), votes_[block]};
    agree(known, wanted, news, vote);
    votes_[block] = known.votes;
    if (news == News::kNone) return;
  } else {
    votes_[block] = vote;
  }
  set_claim(block, wanted, level);
}

BlockTyping::News BlockTyping::compare(const TypedBlock& before, const TypedBlock& wanted) const {
  if (is_same_type(graph_, before.type, wanted.type)) {
    // As one or as several: a pointer to the first of them says less.
    const bool is_more = before.shape == BlockShape::kObject && wanted.shape != BlockShape::kObject;
    return is_more ? News::kMore : News::kNone;
  }
  if (graph_.begins_with(before.type, wanted.type)) return News::kNone;
  const bool is_whole =
      before.shape == BlockShape::kObject && graph_.begins_with(wanted.type, before.type);
  return is_whole ? News::kMore : News::kContradiction;
}

void BlockTyping::add(Votes& votes, const Votes& more) {
  constexpr int kMost = UINT8_MAX;
  votes.of_roots = static_cast<uint8_t>(std::min(kMost, votes.of_roots + more.of_roots));
  votes.of_members = static_cast<uint8_t>(std::min(kMost, votes.of_members + more.of_members));
  votes.of_others = static_cast<uint8_t>(std::min(kMost, votes.of_others + more.of_others));
  votes.has_sure_one |= more.has_sure_one;
}

uint32_t BlockTyping::weight_of(const Votes& votes) {
  constexpr uint32_t kMember = 4;
  constexpr uint32_t kRoot = 2 * kMember;
  return kRoot * votes.of_roots + kMember * votes.of_members + votes.of_others;
}

BlockTyping::Votes BlockTyping::of_beginning(const Votes& votes) {
  return {votes.of_roots, votes.of_members, votes.of_others, 0};
}

void BlockTyping::agree(Candidate& known, const TypedBlock& wanted, News news,
                        const Votes& vote) const {
  const bool is_same = is_same_type(graph_, known.typed.type, wanted.type);
  if (news == News::kMore) {
    if (!is_same) known.votes = of_beginning(known.votes);
    known.typed = wanted;
    add(known.votes, vote);
  } else {
    add(known.votes, is_same ? vote : of_beginning(vote));
  }
}

void BlockTyping::add_vote(std::vector<Candidate>& candidates, const TypedBlock& wanted,
                           const Votes& votes) const {
  constexpr size_t kMostCandidates = 16;
  for (Candidate& candidate : candidates) {
    const News news = compare(candidate.typed, wanted);
    if (news != News::kContradiction) return agree(candidate, wanted, news, votes);
  }
  if (candidates.size() < kMostCandidates) candidates.push_back({wanted, votes});
}

void BlockTyping::dispute(BlockNumber block, const TypedBlock& wanted, const Votes& vote) {
  constexpr size_t kMostDisputes = 1 << 18;
  is_contradicted_ = true;
  if (disputed_.size() >= kMostDisputes || decided_.size() >= kMostDisputes) {
    marks_[block] = kContradicted;
    has_too_many_disputes_ = true;
  } else {
    marks_[block] = kDisputed;
    disputed_[block] = {{unpacked(claims_[block]), votes_[block]}, {wanted, vote}};
  }
  claims_[block] = 0;
}

void BlockTyping::decide() {
  constexpr uint32_t kClearly = 4;
  for (auto& [block, candidates] : disputed_) {
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return weight_of(a.votes) > weight_of(b.votes);
    });
    const uint32_t second = weight_of(candidates[1].votes);
    const bool is_clear = weight_of(candidates[0].votes) >= kClearly * second;
    marks_[block] = is_clear ? kDecided : kContradicted;
    if (is_clear) decided_[block] = candidates[0];
  }
  disputed_.clear();
}

}  // namespace heapsnap
