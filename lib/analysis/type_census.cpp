#include "analysis/type_census.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analysis/block_facts.h"
#include "analysis/dominators.h"
#include "analysis/garbage.h"
#include "analysis/owning_roots.h"
#include "analysis/reachability.h"
#include "analysis/snapshot_blocks.h"

namespace heapsnap {

namespace {

constexpr uint32_t kNoChild = UINT32_MAX;
constexpr uint32_t kNoRow = UINT32_MAX;

// Whether objects of that type are instances of a class of the program's. What each language has
// itself is as often on the way as what a program has made.
bool is_instance(const BlockType& type) {
  static constexpr std::string_view kOfPython[] = {"dict",
                                                   "list",
                                                   "tuple",
                                                   "set",
                                                   "frozenset",
                                                   "cell",
                                                   "method",
                                                   "function",
                                                   "generator",
                                                   "coroutine",
                                                   "frame",
                                                   "traceback",
                                                   "property",
                                                   "weakref",
                                                   "code",
                                                   "module",
                                                   "async_generator",
                                                   "mappingproxy",
                                                   "builtin_function_or_method",
                                                   "getset_descriptor",
                                                   "method-wrapper"};
  if (is_class_object(type)) return false;
  if (!type.builtin.empty()) return type.builtin == "OBJECT" || type.builtin == "STRUCT";
  return std::find(std::begin(kOfPython), std::end(kOfPython), type.name) == std::end(kOfPython);
}

// What a cycle of objects is told by: an instance of a class of the program's, or else an object of
// a language runtime, rather than a buffer of one.
std::vector<BlockSet> tellers_of_cycles(const RuntimeModel& runtimes,
                                        const ReferenceStreams& references, BlockNumber blocks) {
  const std::unordered_set<std::string_view> classes = tracked_classes(runtimes);
  if (classes.empty()) return {};
  const auto is_object = [&](const BlockType& type) {
    return type.source == TypeSource::kRuntime && classes.contains(type.name);
  };
  std::vector<BlockSet> tellers;
  tellers.push_back(blocks_of_types(references, blocks, [&](const BlockType& type) {
    return is_object(type) && is_instance(type);
  }));
  tellers.push_back(blocks_of_types(references, blocks, is_object));
  return tellers;
}

// The dominators of all blocks: those that no root leads to are below a place of their own.
DominatorTree dominators_of_all(const SnapshotStreams& streams, const ReferenceStreams& references,
                                const BlockSizes& sizes, unsigned word, ReferenceGraph graph) {
  const std::vector<Thread>& threads = streams.metadata->threads;
  std::vector<Root> roots = checked_roots(references, graph.blocks());
  const std::vector<BlockNumber> rest =
      sources_of_rest(graph, reachable_blocks(graph, targets_of(roots)),
                      tellers_of_cycles(streams.metadata->runtimes, references, graph.blocks()));
  graph.release();
  OwnedGraph owned = owned_graph(std::move(roots), references, threads, sizes, word, rest);
  OwningRoots& owning = owned.owning;
  const auto lost = static_cast<uint32_t>(owning.places.size());
  for (const BlockNumber source : rest) owning.roots.push_back({lost, source});
  std::sort(owning.roots.begin(), owning.roots.end());
  const BlockNumber top = append_places(owned.graph, owning.roots, size_t{lost} + 1);
  return dominator_tree(std::move(owned.graph), top);
}

// The same type may have several numbers in a file: then the first one; 0 for those without a name.
std::vector<TypeNumber> first_numbers(const std::vector<BlockType>& types) {
  std::map<std::pair<std::string_view, std::string_view>, TypeNumber> by_name;
  std::vector<TypeNumber> result;
  result.reserve(types.size());
  for (TypeNumber type = 0; type < types.size(); ++type) {
    const BlockType& named = types[type];
    result.push_back(type == 0 || named.name.empty()
                         ? 0
                         : by_name.try_emplace({named.name, named.module}, type).first->second);
  }
  return result;
}

// Gives each block its row.
class RowNumbers {
 public:
  RowNumbers(const ReferenceStreams& references, const BlockSizes& sizes, unsigned word,
             BlockSet holding)
      : sizes_(sizes),
        types_(read_types(references, static_cast<BlockNumber>(sizes.size()))),
        holding_(std::move(holding)) {
    const std::vector<TypeNumber> first = first_numbers(references.types);
    for (TypeNumber& type : types_) type = type < first.size() ? first[type] : 0;
    const BlockContexts contexts(references, sizes, types_, word);
    row_of_type_.assign(references.types.size(), kNoRow);
    numbers_ = LargeArray<uint32_t>(sizes.size());
    for (BlockNumber block = 0; block < sizes.size(); ++block) {
      numbers_[block] =
          types_[block] != 0 ? row_of_type(types_[block]) : row_of_context(contexts, block);
    }
    types_.release();
  }

  uint32_t operator[](BlockNumber block) const { return numbers_[block]; }
  std::vector<TypeRow> take_rows() { return std::move(rows_); }

 private:
  // Past this many contexts, the rest is told apart no more.
  static constexpr size_t kMostContexts = 1 << 20;

  uint32_t row_of_type(TypeNumber type) {
    uint32_t& row = row_of_type_[type];
    if (row == kNoRow) {
      row = static_cast<uint32_t>(rows_.size());
      rows_.push_back({.type = type});
    }
    return row;
  }

  uint32_t row_of_context(const BlockContexts& contexts, BlockNumber block) {
    const uint32_t number = contexts.number(block);
    const BlockContext context = contexts.context(number);
    // What a structure of a known type holds at one place is of one type, whatever its size. Else
    // small structures are of one size, arrays of about the same; texts and buffers of any size.
    const uint64_t bytes = sizes_[block];
    // The last node of a list is like the others.
    const bool is_like_holder =
        context.kind == BlockContext::Holder::kSize && context.holder == bytes;
    const bool is_one_type =
        context.kind == BlockContext::Holder::kType && context.held_at != BlockContext::kSomewhere;
    uint64_t size = 0;
    if (is_like_holder || (!is_one_type && holding_.contains(block))) {
      const auto magnitude = static_cast<uint64_t>(std::bit_width(bytes));
      size = bytes <= kLargestStructure ? bytes : kLargestStructure + magnitude;
    }
    const uint64_t key = uint64_t{number} << 32 | size;
    if (last_row_ != kNoRow && last_key_ == key) return last_row_;
    last_key_ = key;
    if (by_context_.size() == kMostContexts && !by_context_.contains(key)) {
      if (others_ == kNoRow) {
        others_ = static_cast<uint32_t>(rows_.size());
        rows_.push_back({.context = {BlockContext::Holder::kVarious}});
      }
      return last_row_ = others_;
    }
    const auto [entry, is_new] = by_context_.try_emplace(key, static_cast<uint32_t>(rows_.size()));
    if (is_new) rows_.push_back({.context = context});
    return last_row_ = entry->second;
  }

  const BlockSizes& sizes_;
  LargeArray<TypeNumber> types_;
  BlockSet holding_;  // blocks with references
  LargeArray<uint32_t> numbers_;
  std::vector<TypeRow> rows_;
  std::vector<uint32_t> row_of_type_;
  std::unordered_map<uint64_t, uint32_t> by_context_;
  uint64_t last_key_ = 0;
  uint32_t last_row_ = kNoRow;
  uint32_t others_ = kNoRow;
};

// Walks a tree of dominators, and adds up for each row what lies below its outermost blocks.
//
//   going down into a block of a row that no block above is of:   remember the sum so far
//   coming back up from it:                                       what the sum has grown by is its
class RetainedByRow {
 public:
  RetainedByRow(const DominatorTree& tree, std::vector<TypeRow>& rows)
      : tree_(tree),
        rows_(rows),
        open_(rows.size()),
        children_(tree.size()),
        siblings_(tree.size()) {
    for (uint32_t at = 0; at < tree.size(); ++at) children_[at] = kNoChild;
    for (uint32_t at = tree.size(); at-- > 1;) {
      uint32_t& first = children_[tree.dominators[at]];
      siblings_[at] = first;
      first = at;
    }
    if (tree.size() != 0) siblings_[0] = kNoChild;
  }

  // `row_of`: of a block, or kNoRow; `size_of`: its bytes.
  template <typename RowOf, typename SizeOf>
  void add_up(RowOf row_of, SizeOf size_of) {
    if (tree_.size() == 0) return;
    uint32_t at = 0;
    bool is_down = true;
    while (true) {
      const uint32_t row = row_of(tree_.blocks[at]);
      if (is_down) {
        if (row != kNoRow) enter(row, size_of(tree_.blocks[at]));
        if (children_[at] != kNoChild) {
          at = children_[at];
          continue;
        }
      }
      if (row != kNoRow) leave(row);
      if (at == 0) return;
      is_down = siblings_[at] != kNoChild;
      at = is_down ? siblings_[at] : tree_.dominators[at];
    }
  }

 private:
  struct Open {
    uint64_t depth = 0;
    Tally before;
  };

  void enter(uint32_t row, uint64_t size) {
    if (open_[row].depth++ == 0) open_[row].before = sum_;
    sum_.add(size);
  }
  void leave(uint32_t row) {
    Open& open = open_[row];
    if (--open.depth != 0) return;
    rows_[row].retained.count += sum_.count - open.before.count;
    rows_[row].retained.bytes += sum_.bytes - open.before.bytes;
  }

  const DominatorTree& tree_;
  std::vector<TypeRow>& rows_;
  std::vector<Open> open_;
  LargeArray<uint32_t> children_;  // of each position the first one
  LargeArray<uint32_t> siblings_;  // and the next one
  Tally sum_;
};

void add_block(TypeRow& row, uint64_t size) {
  row.least_size = row.own.count == 0 ? size : std::min(row.least_size, size);
  row.most_size = std::max(row.most_size, size);
  row.own.add(size);
}

// Blocks of unknown type with references are told apart from those without. Where both are of the
// same sizes at the same place, they are one kind more likely than two: objects whose members may
// point to nothing, or buffers in some of which old words are left. Adds such rows to the first of
// them, and returns for each row which one it is part of.
std::vector<uint32_t> join_alike(std::vector<TypeRow>& rows) {
  std::vector<uint32_t> part_of(rows.size());
  std::vector<uint32_t> unknown;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    part_of[i] = i;
    if (rows[i].type == 0 && rows[i].own.count != 0) unknown.push_back(i);
  }
  const auto look = [&rows](uint32_t i) {
    const TypeRow& row = rows[i];
    return std::tuple(row.context.kind, row.context.holder, row.context.held_at, row.least_size,
                      row.most_size);
  };
  std::sort(unknown.begin(), unknown.end(), [&look](uint32_t a, uint32_t b) {
    return std::tuple(look(a), a) < std::tuple(look(b), b);
  });
  for (size_t i = 1; i < unknown.size(); ++i) {
    if (look(unknown[i]) != look(unknown[i - 1])) continue;
    part_of[unknown[i]] = part_of[unknown[i - 1]];
    rows[part_of[unknown[i]]].own += std::exchange(rows[unknown[i]].own, {});
  }
  return part_of;
}

// `rows` are those with a type.
std::vector<TypeCensus::Share> shares_by_source(const std::vector<TypeRow>& rows,
                                                const std::vector<BlockType>& types) {
  std::vector<TypeCensus::Share> shares;
  for (const TypeRow& row : rows) {
    const TypeSource source = types[row.type].source;
    auto share = std::find_if(shares.begin(), shares.end(), [source](const TypeCensus::Share& one) {
      return one.source == source;
    });
    if (share == shares.end()) share = shares.insert(share, {source});
    share->known += row.own;
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TypeCensus::Share& a, const TypeCensus::Share& b) {
                     return a.known.bytes > b.known.bytes;
                   });
  return shares;
}

void sort_rows(std::vector<TypeRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const TypeRow& a, const TypeRow& b) { return a.own.bytes > b.own.bytes; });
}

}  // namespace

TypeCensus take_type_census(const SnapshotStreams& streams, const ReferenceStreams& references) {
  ReferenceGraph graph = read_graph(references);
  const BlockNumber blocks = graph.blocks();
  const unsigned word = word_size(streams.metadata->process.machine);
  const BlockColumns all = read_block_columns(streams, blocks);
  BlockSet holding = blocks_with_references(graph);
  const DominatorTree tree =
      dominators_of_all(streams, references, all.sizes, word, std::move(graph));
  RowNumbers numbers(references, all.sizes, word, std::move(holding));
  std::vector<TypeRow> rows = numbers.take_rows();
  TypeCensus census;
  for (BlockNumber block = 0; block < blocks; ++block) {
    if (all.is_mallocs_own(block)) continue;
    const uint64_t size = all.sizes[block];
    TypeRow& row = rows[numbers[block]];
    add_block(row, size);
    census.in_use.add(size);
    if (row.type != 0) census.typed.add(size);
  }
  const std::vector<uint32_t> part_of = join_alike(rows);
  RetainedByRow(tree, rows)
      .add_up(
          [&](BlockNumber block) {
            const bool is_counted = block < blocks && !all.is_mallocs_own(block);
            return is_counted ? part_of[numbers[block]] : kNoRow;
          },
          [&](BlockNumber block) { return all.sizes[block]; });
  for (const TypeRow& row : rows) {
    if (row.own.count != 0) (row.type != 0 ? census.types : census.unknown).push_back(row);
  }
  sort_rows(census.types);
  sort_rows(census.unknown);
  census.by_source = shares_by_source(census.types, references.types);
  return census;
}

}  // namespace heapsnap
