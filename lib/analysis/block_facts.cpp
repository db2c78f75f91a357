#include "analysis/block_facts.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "references/storage_kind.h"

namespace heapsnap {

namespace {

// Of each type, the first one that it differs from in nothing but what is known of its words.
std::vector<TypeNumber> same_types(const std::vector<BlockType>& types) {
  const auto key = [](const BlockType& type) {
    return std::tuple<std::string_view, std::string_view, TypeSource, std::string_view,
                      std::string_view, bool>(type.name, type.module, type.source, type.builtin,
                                              type.part, type.is_exact);
  };
  std::map<decltype(key(BlockType())), TypeNumber> known;
  std::vector<TypeNumber> result;
  result.reserve(types.size());
  for (TypeNumber type = 0; type < types.size(); ++type) {
    result.push_back(known.try_emplace(key(types[type]), type).first->second);
  }
  return result;
}

}  // namespace

BlockColumns read_block_columns(const SnapshotStreams& streams, std::optional<BlockNumber> blocks,
                                bool with_stacks) {
  BlockColumns columns;
  each_snapshot_block(streams, [&](const SnapshotBlock& block) {
    columns.sizes.add(block.usable);
    if (with_stacks) columns.stacks.push_back(block.stack);
    if (block.is_mallocs_own) columns.mallocs_own.push_back(block.number);
  });
  if (blocks) require_block_count(*blocks, columns.sizes.size());
  return columns;
}

void require_block_count(BlockNumber of_references, uint64_t of_snapshot) {
  if (of_snapshot == of_references) return;
  throw Error(ErrorKind::kBadInput, "the references between blocks",
              "they are of " + std::to_string(of_references) + " blocks, and the snapshot has " +
                  std::to_string(of_snapshot));
}

BlockNumber count_blocks(const SnapshotStreams& streams) {
  uint64_t blocks = 0;
  each_snapshot_block(streams, [&](const SnapshotBlock& /*block*/) { ++blocks; });
  if (const auto& references = streams.metadata->references) {
    require_block_count(references->blocks, blocks);
  }
  return static_cast<BlockNumber>(blocks);
}

BlockSet blocks_with_references(const ReferenceGraph& graph) {
  BlockSet result(graph.blocks());
  for (BlockNumber block = 0; block < graph.blocks(); ++block) {
    if (!graph.targets(block).empty()) result.insert(block);
  }
  return result;
}

BlockSet blocks_of_types(const ReferenceStreams& references, BlockNumber blocks,
                         const std::function<bool(const BlockType&)>& belongs) {
  BlockSet found(blocks);
  std::vector<bool> belonging;
  for (const BlockType& type : references.types) belonging.push_back(belongs(type));
  if (std::ranges::find(belonging, true) == belonging.end()) return found;
  references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
    for (size_t i = 0; i < types.size() && first + i < blocks; ++i) {
      if (types[i] < belonging.size() && belonging[types[i]]) {
        found.insert(static_cast<BlockNumber>(first + i));
      }
    }
  });
  return found;
}

std::vector<uint8_t> types_of_arrays(const std::vector<BlockType>& types) {
  std::vector<uint8_t> are_arrays;
  for (const BlockType& type : types) are_arrays.push_back(holds_elements(type) ? 1 : 0);
  return are_arrays;
}

void each_types(const ReferenceStreams& references, const VisitTypes& visit) {
  const std::vector<TypeNumber> same = same_types(references.types);
  std::vector<TypeNumber> of_blocks;
  references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
    of_blocks.clear();
    for (const TypeNumber type : types) of_blocks.push_back(type < same.size() ? same[type] : 0);
    visit(first, of_blocks);
  });
}

LargeArray<TypeNumber> read_types(const ReferenceStreams& references, BlockNumber blocks) {
  LargeArray<TypeNumber> result(blocks);
  each_types(references, [&](BlockNumber first, std::span<const TypeNumber> types) {
    for (size_t i = 0; i < types.size() && first + i < blocks; ++i) result[first + i] = types[i];
  });
  return result;
}

}  // namespace heapsnap
