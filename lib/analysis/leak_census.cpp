#include "analysis/leak_census.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "analysis/block_facts.h"
#include "analysis/garbage.h"
#include "analysis/node_links.h"
#include "analysis/reachability.h"
#include "analysis/snapshot_blocks.h"
#include "analysis/some_references.h"
#include "elf/program_words.h"
#include "references/storage_kind.h"

namespace heapsnap {

namespace {

// Adds the garbage of runtimes to what is reachable.
Tally take_garbage(const SnapshotStreams& streams, const ReferenceStreams& references,
                   const ReferenceGraph& graph, BlockSet& reachable) {
  const BlockSet garbage = garbage_of(streams, references, graph, reachable);
  Tally sum;
  each_snapshot_block(streams, [&](const SnapshotBlock& block) {
    if (block.number >= graph.blocks() || !garbage.contains(block.number)) return;
    sum.add(block.usable);
    reachable.insert(block.number);
  });
  return sum;
}

std::vector<LeakedBlock> list_blocks(const SnapshotStreams& streams,
                                     const ReferenceStreams& references,
                                     const BlockSet& reachable) {
  std::vector<LeakedBlock> blocks;
  blocks.reserve(reachable.missing());
  each_snapshot_block(streams, [&](const SnapshotBlock& block) {
    if (reachable.contains(block.number)) return;
    blocks.push_back({block.address, block.usable, block.stack, 0, LeakKind::kDirect, 0});
  });
  each_types(references, [&](BlockNumber first, std::span<const TypeNumber> types) {
    for (size_t i = 0; i < types.size() && first + i < reachable.blocks(); ++i) {
      const auto number = static_cast<BlockNumber>(first + i);
      if (!reachable.contains(number)) blocks[reachable.rank_missing(number)].type = types[i];
    }
  });
  return blocks;
}

// Of the references of leaked blocks, those by which the nodes of a container lead to the container
// itself (node_links.h). By them each object that has a std::map would be a cycle.
class LinksToHead {
 public:
  LinksToHead(const std::vector<BlockType>& types, const std::vector<LeakedBlock>& blocks,
              const BlockSet& reachable)
      : blocks_(blocks), reachable_(reachable) {
    for (const BlockType& type : types) links_.push_back(node_links(type));
  }

  bool are_any() const {
    return std::ranges::any_of(blocks_, [this](const LeakedBlock& block) {
      return block.type < links_.size() && links_[block.type].lead_to_head;
    });
  }
  bool contains(const ReferenceBatch& batch, uint64_t source, size_t i) const {
    const NodeLinks links = links_of(source);
    if (!links.lead_to_head || !links.contain(batch.offsets[i])) return false;
    const NodeLinks next = links_of(batch.targets[i]);
    const bool is_to_node = links.are_all ? next.words != 0 && !next.lead_to_head
                                          : next.words == links.words && next.lead_to_head;
    return batch.interior[i] != 0 || !is_to_node;
  }

 private:
  NodeLinks links_of(uint64_t block) const {
    if (block >= reachable_.blocks() || reachable_.contains(static_cast<BlockNumber>(block))) {
      return {};
    }
    const auto number = static_cast<BlockNumber>(block);
    const TypeNumber type = blocks_[reachable_.rank_missing(number)].type;
    return type < links_.size() ? links_[type] : NodeLinks{};
  }

  const std::vector<LeakedBlock>& blocks_;
  const BlockSet& reachable_;
  std::vector<NodeLinks> links_;
};

// Takes suppressed blocks out, with what they lead to, as LeakSanitizer does.
void suppress(const IsSuppressed& is_suppressed, ReferenceGraph& leaked, LeakCensus& census) {
  std::vector<BlockNumber> starts;
  for (BlockNumber i = 0; i < census.blocks.size(); ++i) {
    if (is_suppressed(census.blocks[i].stack, census.blocks[i].type)) starts.push_back(i);
  }
  if (starts.empty()) return;
  const BlockSet suppressed = reachable_blocks(leaked, starts);
  leaked = leaked_graph(leaked, suppressed);
  size_t kept = 0;
  for (BlockNumber i = 0; i < census.blocks.size(); ++i) {
    if (suppressed.contains(i)) {
      census.suppressed.add(census.blocks[i].bytes);
    } else {
      census.blocks[kept++] = census.blocks[i];
    }
  }
  census.blocks.resize(kept);
}

void add_up(LeakCensus& census) {
  for (const LeakedBlock& block : census.blocks) {
    census.all.add(block.bytes);
    census.kinds[static_cast<size_t>(block.kind)].add(block.bytes);
    if (block.source == LeakClasses::kSeveral) census.held_by_several.add(block.bytes);
  }
}

// Which block of a cycle names it: of cycles that are made alike the same one, in whatever order
// their blocks lie, and in each snapshot. Containers of the standard library refer to the object
// that they are in, and so are in its cycle: what they are in says more.
class CycleNames {
 public:
  explicit CycleNames(const std::vector<BlockType>& types) : rank_(types.size()) {
    std::vector<TypeNumber> by_name(types.size());
    std::iota(by_name.begin(), by_name.end(), 0);
    std::sort(by_name.begin(), by_name.end(), [&types](TypeNumber a, TypeNumber b) {
      return std::tie(types[a].name, types[a].module) < std::tie(types[b].name, types[b].module);
    });
    for (uint32_t i = 0; i < by_name.size(); ++i) {
      rank_[by_name[i]] = {meaning_of(types[by_name[i]]), i};
    }
  }

  bool is_program_type(TypeNumber type) const {
    return rank_[type].meaning == Meaning::kProgramType;
  }

  bool says_more(const LeakedBlock& one, const LeakedBlock& other) const {
    const Rank& rank = rank_[one.type];
    const Rank& of_other = rank_[other.type];
    return std::tuple(rank.meaning, one.bytes, rank.name) >
           std::tuple(of_other.meaning, other.bytes, of_other.name);
  }

 private:
  enum class Meaning : uint8_t { kLibrary, kUnknown, kHoldsProgramType, kProgramType };
  struct Rank {
    Meaning meaning;
    uint32_t name;  // its place among all names
  };

  static Meaning meaning_of(const BlockType& type) {
    if (type.name.empty()) return Meaning::kUnknown;
    const bool is_class =
        type.source == TypeSource::kVtable || type.source == TypeSource::kDebugInfo;
    const std::string_view name = type.name;
    if (!is_class || !has_program_word(name)) return Meaning::kLibrary;
    // What std::make_shared() makes is the object, with its counts.
    const bool is_made_shared = name.starts_with("std::_Sp_counted_ptr_inplace<") ||
                                name.starts_with("std::__1::__shared_ptr_emplace<");
    const bool is_object = is_made_shared || has_program_word(name.substr(0, name.find('<')));
    return is_object && !holds_elements(type) ? Meaning::kProgramType : Meaning::kHoldsProgramType;
  }

  std::vector<Rank> rank_;  // by type
};

void name_cycles(const CycleNames& names, LeakCensus& census) {
  for (BlockNumber i = 0; i < census.blocks.size(); ++i) {
    const LeakedBlock& block = census.blocks[i];
    if (block.kind != LeakKind::kCycle) continue;
    BlockNumber& named = census.sources[block.source].block;
    if (names.says_more(block, census.blocks[named])) named = i;
  }
}

void tell_partners(const CycleNames& names, LeakCensus& census) {
  std::unordered_map<uint32_t, LeakGroup*> group_of;  // by its largest cycle
  for (LeakGroup& group : census.groups) {
    if (group.kind == LeakKind::kCycle) group_of.emplace(group.largest, &group);
  }
  if (group_of.empty()) return;
  for (const LeakedBlock& block : census.blocks) {
    if (block.kind != LeakKind::kCycle || !names.is_program_type(block.type)) continue;
    const auto group = group_of.find(block.source);
    if (group == group_of.end()) continue;
    std::vector<TypeNumber>& partners = group->second->partners;
    const TypeNumber named = census.blocks[census.sources[block.source].block].type;
    const bool is_known = block.type == named ||
                          std::find(partners.begin(), partners.end(), block.type) != partners.end();
    if (!is_known && partners.size() < LeakGroup::kMostPartners) partners.push_back(block.type);
  }
}

void group_sources(LeakCensus& census) {
  std::map<std::tuple<LeakKind, uint32_t, TypeNumber, uint64_t>, size_t> groups;
  for (uint32_t i = 0; i < census.sources.size(); ++i) {
    const LeakOrigin& source = census.sources[i];
    const LeakedBlock& block = census.blocks[source.block];
    const TypeNumber type = block.stack == 0 ? block.type : 0;
    const uint64_t size = block.stack == 0 && type == 0 ? block.bytes : 0;
    const auto [entry, is_new] =
        groups.try_emplace({source.kind, block.stack, type, size}, census.groups.size());
    if (is_new) {
      census.groups.push_back({.kind = source.kind,
                               .stack = block.stack,
                               .type = block.type,
                               .least_size = block.bytes,
                               .most_size = block.bytes,
                               .largest = i,
                               .partners = {}});
    }
    LeakGroup& group = census.groups[entry->second];
    if (group.type != block.type) group.type = 0;
    group.least_size = std::min(group.least_size, block.bytes);
    group.most_size = std::max(group.most_size, block.bytes);
    ++group.count;
    group.retained_bytes += source.retained_bytes;
    group.retained_blocks += source.retained_blocks;
    if (source.retained_bytes > census.sources[group.largest].retained_bytes) group.largest = i;
  }
  std::stable_sort(
      census.groups.begin(), census.groups.end(),
      [](const LeakGroup& a, const LeakGroup& b) { return a.retained_bytes > b.retained_bytes; });
}

}  // namespace

std::vector<BlockNumber> held_from_outside(const SnapshotStreams& streams,
                                           const ReferenceStreams& references, BlockNumber blocks,
                                           Tally& in_use) {
  std::vector<BlockNumber> starts;
  references.read_roots([&](const Root& root) { starts.push_back(root.target); });
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  BlockNumber count = 0;
  each_snapshot_block(streams, [&](const SnapshotBlock& block) {
    ++count;
    if (!block.is_mallocs_own) {
      in_use.add(block.usable);
    } else if (block.number < blocks) {
      starts.push_back(block.number);
    }
  });
  require_block_count(blocks, count);
  return starts;
}

LeakCensus take_leak_census(const SnapshotStreams& streams, const ReferenceStreams& references,
                            const IsSuppressed& is_suppressed) {
  LeakCensus census;
  ReferenceGraph leaked;
  {
    ReferenceGraph graph = read_graph(references);
    BlockSet reachable = reachable_blocks(
        graph, held_from_outside(streams, references, graph.blocks(), census.in_use));
    if (has_collector(streams)) {
      census.garbage = take_garbage(streams, references, graph, reachable);
      reachable.count();
    }
    census.blocks = list_blocks(streams, references, reachable);
    const LinksToHead to_head(references.types, census.blocks, reachable);
    if (to_head.are_any()) {
      graph.release();
      graph =
          graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
            return !to_head.contains(batch, source, i);
          });
    }
    leaked = leaked_graph(graph, reachable);
  }
  if (is_suppressed) suppress(is_suppressed, leaked, census);
  std::vector<uint64_t> bytes;
  bytes.reserve(census.blocks.size());
  for (const LeakedBlock& block : census.blocks) bytes.push_back(block.bytes);
  LeakClasses classes = classify_leaks(leaked, bytes);
  for (size_t i = 0; i < census.blocks.size(); ++i) {
    census.blocks[i].kind = classes.kinds[i];
    census.blocks[i].source = classes.origins[i];
  }
  census.sources = std::move(classes.sources);
  const CycleNames names(references.types);
  name_cycles(names, census);
  add_up(census);
  group_sources(census);
  tell_partners(names, census);
  return census;
}

}  // namespace heapsnap
