#include "references/block_typing.h"

#include <algorithm>

#include "references/block_slack.h"

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

// Each unit of a program in C has its own.
bool is_same_type(const TypeGraph& graph, DebugTypeNumber a, DebugTypeNumber b) {
  return a == b ||
         (graph.types[a].size == graph.types[b].size && graph.types[a].name == graph.types[b].name);
}

}  // namespace

TypedBlock fitted_type(const TypeGraph& graph, const Pointee& pointee, uint64_t usable,
                       Machine machine, DebugTypeNumber from) {
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
  // Its vtable would have told.
  if (type.has_vptr) return {};
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
  // A rest that was too small for a chunk of its own.
  constexpr uint64_t kRest = 16;
  if (usable >= kRest && is_filled_exactly(usable - kRest, type.size, machine)) return object;
  if (may_be_array && filled > type.size && is_filled_by(usable, filled)) {
    return {pointee.type, BlockShape::kArray};
  }
  return {};
}

BlockTyping::BlockTyping(const TypeGraph& graph, const BlockEdges& edges, Machine machine)
    : graph_(graph),
      edges_(edges),
      machine_(machine),
      word_(word_size(machine)),
      marks_(edges.blocks()),
      claims_(edges.blocks()),
      weak_claims_(edges.blocks()) {}

BlockTyping::Packed BlockTyping::packed(const TypedBlock& typed, Level level) {
  return typed.type << 3 | static_cast<uint32_t>(typed.shape) << 1 | static_cast<uint32_t>(level);
}

TypedBlock BlockTyping::unpacked(Packed claim) {
  return {claim >> 3, static_cast<BlockShape>(claim >> 1 & 3)};
}

void BlockTyping::add_known(const KnownBlock& known) {
  if (known.block >= marks_.size()) return;
  marks_[known.block] = kKnown;
  if (known.type != 0 && known.type < graph_.types.size()) known_.push_back(known);
}

void BlockTyping::run(std::span<const Claim> of_variables, std::span<const Claim> of_frames) {
  // What a block that was contradicted had led to may have been wrong.
  constexpr int kMostRounds = 4;
  for (int round = 0; round < kMostRounds; ++round) {
    is_contradicted_ = false;
    std::fill(claims_.begin(), claims_.end(), 0);
    std::fill(weak_claims_.begin(), weak_claims_.end(), 0);
    level_ = Level::kVariables;
    for (const KnownBlock& known : known_) {
      const auto shape = known.is_array ? BlockShape::kArray : BlockShape::kObject;
      follow(known.block, {known.type, shape}, known.objects_at);
    }
    run_level(of_variables, Level::kVariables);
    run_level(of_frames, Level::kFrames);
    if (!is_contradicted_) break;
  }
  for (BlockNumber block = 0; block < claims_.size(); ++block) {
    if (claims_[block] == 0 && marks_[block] == 0) claims_[block] = weak_claims_[block];
  }
}

TypedBlock BlockTyping::type_of(BlockNumber block) const {
  return block < claims_.size() ? unpacked(claims_[block]) : TypedBlock{};
}

void BlockTyping::run_level(std::span<const Claim> claims, Level level) {
  level_ = level;
  for (const Claim& one : claims) claim(one.block, one.pointee, 0);
  follow_waiting();
}

void BlockTyping::follow_waiting() {
  while (!waiting_.empty()) {
    const BlockNumber block = waiting_.back();
    waiting_.pop_back();
    if (claims_[block] != 0) follow(block, unpacked(claims_[block]), 0);
  }
}

void BlockTyping::follow(BlockNumber block, const TypedBlock& typed, uint64_t objects_at) {
  if (typed.shape == BlockShape::kText) return;
  const DebugType& type = graph_.types[typed.type];
  if (type.pointers.empty() || type.size == 0) return;
  for (const BlockEdge& edge : edges_.of(block)) {
    uint64_t offset = uint64_t{edge.offset} * word_;
    if (offset < objects_at) continue;
    offset -= objects_at;
    if (typed.shape != BlockShape::kObject) offset %= type.size;
    if (offset >= type.size) continue;
    const Pointee to = type.pointee_at(offset);
    if (to.type != 0) claim(edge.target, to, typed.type);
  }
}

void BlockTyping::refuse(BlockNumber block) {
  claims_[block] = 0;
  marks_[block] = kContradicted;
  is_contradicted_ = true;
}

void BlockTyping::claim(BlockNumber block, const Pointee& pointee, DebugTypeNumber from) {
  if (block >= claims_.size() || marks_[block] != 0) return;
  const TypedBlock wanted = fitted_type(graph_, pointee, edges_.usable(block), machine_, from);
  if (wanted.type == 0) return;
  const Packed claim = packed(wanted, level_);
  if (graph_.types[wanted.type].is_scalar && pointee.role == PointerRole::kObject) {
    if (weak_claims_[block] == 0) weak_claims_[block] = claim;
    return;
  }
  const Packed before = claims_[block];
  if (before == claim || (before != 0 && (before & 1) < static_cast<uint32_t>(level_))) return;
  if (before != 0) {
    const TypedBlock other = unpacked(before);
    if (is_same_type(graph_, other.type, wanted.type)) {
      // As one or as several: a pointer to the first of them says less.
      if (other.shape != BlockShape::kObject || wanted.shape == BlockShape::kObject) return;
    } else if (graph_.begins_with(other.type, wanted.type)) {
      return;
    } else if (other.shape != BlockShape::kObject || !graph_.begins_with(wanted.type, other.type)) {
      return refuse(block);
    }
  }
  claims_[block] = claim;
  waiting_.push_back(block);
}

}  // namespace heapsnap
