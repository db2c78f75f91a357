#include "analysis/owning_roots.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analysis/garbage.h"
#include "analysis/nameless_variables.h"
#include "analysis/reachability.h"
#include "analysis/thread_family.h"
#include "base/error.h"
#include "references/local_name.h"

namespace heapsnap {

namespace {

// The lower, the longer it lasts.
using Rank = uint32_t;
constexpr Rank kGlobals = 0;  // of language runtimes: what they name comes before what they keep
constexpr Rank kMostFrames = 256;  // all further in are of one rank
constexpr Rank kLocals = 1;        // and on, of the runtimes' functions: the outermost call first
constexpr Rank kTemporaries = kLocals + kMostFrames;  // and on: what those have no variable for
constexpr Rank kLasting = kTemporaries + kMostFrames;
constexpr Rank kControlBlocks = kLasting + 1;  // of threads: what they were started with
constexpr Rank kFrames = kControlBlocks + 1;   // and on: the outermost first
constexpr Rank kInterior = kFrames + kMostFrames;
constexpr Rank kRegisters = kInterior + 1;
constexpr Rank kBesideContainers = kRegisters + 1;  // and on, in the same order

bool is_control_block(const RootPlace& place) {
  return place.kind == RootKind::kThreadLocal && place.name == kControlBlockName;
}

class Ranks {
 public:
  // Both must outlive it.
  Ranks(const std::vector<RootPlace>& places, const std::vector<Thread>& threads)
      : places_(places), of_places_(of_places(places)) {
    for (const Thread& thread : threads) {
      if (thread.registers) stack_pointers_.emplace(thread.tid, thread.registers->stack_pointer);
    }
  }

  Rank of(const Root& root) const {
    const Rank rank = of_places_[root.place];
    if (rank < kFrames || rank == kRegisters) return rank;
    if (is_below_stack(root)) return kRegisters;
    return root.interior ? kInterior : rank;
  }

  bool is_below_stack(const Root& root) const {
    const RootPlace& place = places_[root.place];
    if (place.kind != RootKind::kStack) return false;
    const auto found = stack_pointers_.find(place.tid);
    return found != stack_pointers_.end() && place.begin + root.offset < found->second;
  }

 private:
  static std::vector<Rank> of_places(const std::vector<RootPlace>& places);
  static void rank_locals(const std::vector<RootPlace>& places, std::vector<Rank>& ranks);

  const std::vector<RootPlace>& places_;
  std::vector<Rank> of_places_;
  std::unordered_map<int32_t, Address> stack_pointers_;  // by thread
};

std::vector<Rank> Ranks::of_places(const std::vector<RootPlace>& places) {
  std::vector<Rank> ranks(places.size(), kLasting);
  // Frames of each thread, the outermost, at the highest address, first.
  std::map<int32_t, std::vector<uint32_t>> frames;
  for (uint32_t i = 0; i < places.size(); ++i) {
    if (places[i].kind == RootKind::kGlobal) ranks[i] = kGlobals;
    if (is_control_block(places[i])) ranks[i] = kControlBlocks;
    if (places[i].kind == RootKind::kRegister) ranks[i] = kRegisters;
    if (places[i].kind == RootKind::kStack) frames[places[i].tid].push_back(i);
  }
  for (auto& [tid, of_thread] : frames) {
    std::sort(of_thread.begin(), of_thread.end(),
              [&places](uint32_t a, uint32_t b) { return places[b].begin < places[a].begin; });
    for (size_t i = 0; i < of_thread.size(); ++i) {
      // What no frame is known of comes last.
      const size_t depth = places[of_thread[i]].name.empty() ? kMostFrames - 1 : i;
      ranks[of_thread[i]] = kFrames + static_cast<Rank>(std::min<size_t>(depth, kMostFrames - 1));
    }
  }
  rank_locals(places, ranks);
  return ranks;
}

// Places of local variables come by threads, of each the outermost call first. Of one call there
// may be two parts, each with words that ascend: what is in the first one other variables may lead
// to, too, as functions do to what they share with the call that made them.
void Ranks::rank_locals(const std::vector<RootPlace>& places, std::vector<Rank>& ranks) {
  struct Part {
    std::string_view call;
    Address last;
    Rank depth = 0;
  };
  std::unordered_map<int32_t, Part> parts;  // of each thread, the one before
  for (uint32_t i = 0; i < places.size(); ++i) {
    if (places[i].kind != RootKind::kLocal) continue;
    const std::string_view call = call_of_local(places[i].name);
    const auto [entry, is_first] = parts.try_emplace(places[i].tid, Part{call, {}, 0});
    Part& part = entry->second;
    if (!is_first && (part.call != call || places[i].begin < part.last)) {
      part.depth = std::min(part.depth + 1, kMostFrames - 1);
    }
    part.call = call;
    part.last = places[i].begin;
    ranks[i] = (is_temporary(places[i].name) ? kTemporaries : kLocals) + part.depth;
  }
}

std::vector<Rank> ranks_of(const std::vector<Root>& roots, const std::vector<RootPlace>& places,
                           const std::vector<Thread>& threads,
                           const std::vector<bool>& are_beside) {
  const Ranks ranks(places, threads);
  std::vector<Rank> result;
  result.reserve(roots.size());
  for (size_t i = 0; i < roots.size(); ++i) {
    result.push_back(ranks.of(roots[i]) + (are_beside[i] ? kBesideContainers : 0));
  }
  return result;
}

// Reaches more from `targets`, and makes references from what is new to what was reached before
// lead nowhere: to the block itself.
void reach_next(ReferenceGraph& graph, std::span<const BlockNumber> targets, BlockSet& reached) {
  LargeArray<uint64_t> before;
  before.append(reached.words());
  const auto was_reached = [&before](BlockNumber block) {
    return (before[block / 64] >> (block % 64) & 1) != 0;
  };
  reach_more(graph, targets, reached);
  const std::span<const uint64_t> words = reached.words();
  for (size_t word = 0; word < words.size(); ++word) {
    for (uint64_t fresh = words[word] & ~before[word]; fresh != 0; fresh &= fresh - 1) {
      const auto block =
          static_cast<BlockNumber>(word * 64 + static_cast<unsigned>(std::countr_zero(fresh)));
      for (BlockNumber& target : graph.targets(block)) {
        if (was_reached(target)) target = block;
      }
    }
  }
}

// Does the same to all references from what variables of language runtimes do not lead to, also of
// blocks that no root leads to.
void leave_to_variables(ReferenceGraph& graph, const BlockSet& of_variables) {
  for (BlockNumber block = 0; block < graph.blocks(); ++block) {
    if (of_variables.contains(block)) continue;
    for (BlockNumber& target : graph.targets(block)) {
      if (of_variables.contains(target)) target = block;
    }
  }
}

// Of each thread: the first one of its family.
std::unordered_map<int32_t, int32_t> first_of_family(const std::vector<Thread>& threads) {
  std::unordered_map<int32_t, int32_t> first_thread;
  std::map<std::string, int32_t> thread_of_family;
  for (const Thread& thread : threads) {
    first_thread[thread.tid] =
        thread_of_family.try_emplace(thread_family(thread.name), thread.tid).first->second;
  }
  return first_thread;
}

// Of each place: the first one with roots, if any has some, of the same kind, thread, module and
// name. Places without a name are told apart by their position, and those without roots, which
// tell_apart() left, are one with no other. Variables of one name, of several files, are told apart
// by where they are, unless one begins where the other ends: the parts of one. Threads of one
// family are one.
std::vector<uint32_t> first_of_name(const std::vector<RootPlace>& places,
                                    const std::vector<bool>& has_roots,
                                    const std::vector<Thread>& threads) {
  const std::unordered_map<int32_t, int32_t> first_thread = first_of_family(threads);
  const auto is_in_family = [](const RootPlace& place) {
    return place.kind == RootKind::kThreadLocal || place.kind == RootKind::kLocal ||
           (place.kind == RootKind::kStack && !place.name.empty());
  };
  std::map<std::pair<uint64_t, std::string_view>, uint64_t> begin_of_part;  // by end and name
  const auto begin_of = [&](const RootPlace& place) {
    if (place.name.empty()) return position_of(place);
    // Of another function that is called the same, it is another one.
    const bool is_of_call = place.kind == RootKind::kLocal || place.kind == RootKind::kStack;
    if (is_of_call) return place.module_offset;
    if (place.kind != RootKind::kVariable || place.size == 0) return uint64_t{0};
    const uint64_t begin = place.begin.value();
    const auto before = begin_of_part.find({begin, place.name});
    const uint64_t first = before == begin_of_part.end() ? begin : before->second;
    begin_of_part[{begin + place.size, place.name}] = first;
    return first;
  };
  using Identity = std::tuple<RootKind, int32_t, std::string_view, std::string_view, uint64_t>;
  std::map<Identity, std::vector<uint32_t>> by_identity;
  std::vector<uint32_t> first(places.size());
  std::iota(first.begin(), first.end(), 0);
  for (uint32_t i = 0; i < places.size(); ++i) {
    const RootPlace& place = places[i];
    if (place.name.empty() && !has_roots[i]) continue;
    const std::string_view name =
        place.kind == RootKind::kLocal ? local_without_line(place.name) : place.name;
    const uint64_t begin = begin_of(place);
    const auto thread = first_thread.find(place.tid);
    const bool is_same = is_in_family(place) && thread != first_thread.end();
    const int32_t tid = is_same ? thread->second : place.tid;
    by_identity[{place.kind, tid, place.module, name, begin}].push_back(i);
  }
  for (const auto& [identity, same] : by_identity) {
    const auto with_roots = std::ranges::find_if(same, [&](uint32_t i) { return has_roots[i]; });
    const uint32_t of_all = with_roots == same.end() ? same.front() : *with_roots;
    for (const uint32_t i : same) first[i] = of_all;
  }
  return first;
}

// Gives the roots of all places of a name to the first of them that has some. Without a name it
// becomes as large as the largest: in some threads, fewer words of a variable may lead to blocks.
void merge_by_name(OwningRoots& owning, const std::vector<Thread>& threads) {
  std::vector<bool> has_roots(owning.places.size());
  for (const PlacedRoot& root : owning.roots) has_roots[root.place] = true;
  owning.first = first_of_name(owning.places, has_roots, threads);
  const std::vector<uint32_t>& first = owning.first;
  std::set<std::pair<uint32_t, int32_t>> threads_of_places;
  for (uint32_t i = 0; i < first.size(); ++i) {
    if (!has_roots[i]) continue;
    threads_of_places.emplace(first[i], owning.places[i].tid);
    RootPlace& of_all = owning.places[first[i]];
    if (of_all.name.empty()) of_all.size = std::max(of_all.size, owning.places[i].size);
  }
  owning.threads.resize(first.size());
  for (const auto& [place, tid] : threads_of_places) ++owning.threads[place];
  for (PlacedRoot& root : owning.roots) root.place = first[root.place];
  std::sort(owning.roots.begin(), owning.roots.end());
  owning.roots.erase(std::unique(owning.roots.begin(), owning.roots.end()), owning.roots.end());
}

// What the words lead to that a program keeps to hold it: those of variables and frames, but for
// frames' words past a first byte. Registers, what lies below a stack pointer and what leads to a
// node beside its container do not count: they are also left over where nobody needs them.
MeantTargets meant_targets(const std::vector<Root>& roots, const std::vector<Rank>& ranks) {
  MeantTargets targets;
  bool is_of_runtime = false;
  for (size_t i = 0; i < roots.size(); ++i) {
    const Root& root = roots[i];
    const Rank rank = ranks[i];
    is_of_runtime |= rank < kLasting;
    if (rank < kFrames) {
      (root.interior ? targets.inside : targets.lasting).push_back(root.target);
    } else if (rank < kInterior) {
      targets.of_frames.push_back(root.target);
    }
  }
  if (!is_of_runtime) {
    targets.lasting.insert(targets.lasting.end(), targets.of_frames.begin(),
                           targets.of_frames.end());
    targets.of_frames.clear();
  }
  return targets;
}

// `places`: with the variables told apart. References of the graph to what a root before owns are
// made to lead to their own block. Four bytes a block at most, besides it.
OwningRoots owning_roots(const std::vector<Root>& roots, const std::vector<Rank>& ranks,
                         std::vector<RootPlace> places, const std::vector<Thread>& threads,
                         ReferenceGraph& graph) {
  OwningRoots result{std::move(places), {}, {}, {}, BlockSet(graph.blocks())};
  std::vector<size_t> order(roots.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&ranks](size_t a, size_t b) { return ranks[a] < ranks[b]; });
  std::vector<BlockNumber> targets;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    const Rank rank = ranks[order[begin]];
    targets.clear();
    for (; end < order.size() && ranks[order[end]] == rank; ++end) {
      const Root& root = roots[order[end]];
      if (result.reached.contains(root.target)) continue;
      result.roots.push_back({root.place, root.target});
      targets.push_back(root.target);
    }
    if (!targets.empty()) reach_next(graph, targets, result.reached);
    const bool are_more_variables = end < order.size() && ranks[order[end]] < kLasting;
    if (rank < kLasting && !are_more_variables) leave_to_variables(graph, result.reached);
    begin = end;
  }
  result.reached.count();
  merge_by_name(result, threads);
  return result;
}

}  // namespace

std::vector<Root> checked_roots(const ReferenceStreams& references, BlockNumber blocks) {
  std::vector<Root> roots;
  references.read_roots([&](const Root& root) {
    if (root.place >= references.places.size()) {
      throw Error(ErrorKind::kBadInput, "the roots", "one is in a place that is not there");
    }
    if (root.target >= blocks) {
      throw Error(ErrorKind::kBadInput, "the roots", "one leads to a block that is not there");
    }
    roots.push_back(root);
  });
  std::sort(roots.begin(), roots.end(), [](const Root& a, const Root& b) {
    return std::tie(a.place, a.offset, a.target) < std::tie(b.place, b.offset, b.target);
  });
  return roots;
}

std::vector<bool> stale_roots(const std::vector<Root>& roots, const std::vector<RootPlace>& places,
                              const std::vector<Thread>& threads) {
  const Ranks ranks(places, threads);
  std::vector<bool> are_stale;
  are_stale.reserve(roots.size());
  for (const Root& root : roots) {
    const RootPlace& place = places[root.place];
    const bool is_local = place.kind == RootKind::kLocal;
    are_stale.push_back(is_local ? may_be_left_over(place.name) : ranks.is_below_stack(root));
  }
  return are_stale;
}

OwnedGraph owned_graph(std::vector<Root> roots, const ReferenceStreams& references,
                       const std::vector<Thread>& threads, const BlockSizes& sizes, unsigned word,
                       std::span<const BlockNumber> lost) {
  const OwnedNodes nodes(references, roots, static_cast<BlockNumber>(sizes.size()), word);
  const std::vector<bool> are_beside = nodes.are_beside(roots);
  const std::vector<Rank> ranks = ranks_of(roots, references.places, threads, are_beside);
  MeantTargets starts = meant_targets(roots, ranks);
  starts.lasting.insert(starts.lasting.end(), lost.begin(), lost.end());
  ReferenceGraph graph = owning_references(references, sizes, word, starts, nodes);
  std::vector<RootPlace> places = references.places;
  tell_apart(roots, places, are_beside, graph, sizes, word);
  OwningRoots owning = owning_roots(roots, ranks, std::move(places), threads, graph);
  std::vector<uint32_t> places_of_roots;
  places_of_roots.reserve(roots.size());
  for (const Root& root : roots) places_of_roots.push_back(root.place);
  return {std::move(graph), std::move(owning), std::move(places_of_roots)};
}

OwnedBlocks owned_blocks(const SnapshotStreams& streams, const ReferenceStreams& references,
                         const BlockSizes& sizes) {
  const unsigned word = word_size(streams.metadata->process.machine);
  auto [graph, owning, places] =
      owned_graph(checked_roots(references, static_cast<BlockNumber>(sizes.size())), references,
                  streams.metadata->threads, sizes, word);
  BlockSet garbage = garbage_of(streams, references, graph, owning.reached);
  return {std::move(graph), std::move(owning), std::move(places), std::move(garbage)};
}

BlockNumber append_places(ReferenceGraph& graph, const std::vector<PlacedRoot>& roots,
                          size_t places) {
  const BlockNumber first = graph.blocks();
  graph.reopen();
  std::vector<BlockNumber> targets;
  for (size_t place = 0, next = 0; place < places; ++place) {
    targets.clear();
    for (; next < roots.size() && roots[next].place == place; ++next) {
      targets.push_back(roots[next].target);
    }
    graph.add(targets);
  }
  std::vector<BlockNumber> all(places);
  std::iota(all.begin(), all.end(), first);
  graph.add(all);
  graph.finish();
  return first + static_cast<BlockNumber>(places);
}

}  // namespace heapsnap
