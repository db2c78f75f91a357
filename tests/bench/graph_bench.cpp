// How fast leaks and dominators come out of a reference graph, and what memory they take.
//
// Shapes of 1 M, 5 M and 20 M blocks of which one in a hundred is leaked. In all but `list`, blocks
// lie in memory in no order: the worst that a heap can be.
//
//   list     one list, in the order in which it was allocated
//   lists    lists of 1000 blocks
//   trees    nodes with parent, left and right, as std::map's, each with a value of its own
//   hash     one table as std::unordered_map's: all nodes in one list, a pointer to each from the
//            table, each node with a value of its own
//   random   each block held by a random one, half of them by a second
//   scattered_list  one list in no order: nothing can be asked for ahead
//
// bytes/block: the most memory in use at a time, the graph included.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "analysis/dominators.h"
#include "analysis/leak_classes.h"
#include "analysis/reachability.h"

namespace {

using namespace heapsnap;

enum class Shape { kList, kLists, kTrees, kHash, kRandom, kScatteredList };

// Pairs of blocks in the order of construction; `first` of them are the beginnings.
struct Links {
  std::vector<uint32_t> from;
  std::vector<uint32_t> to;
  void add(uint32_t source, uint32_t target) {
    from.push_back(source);
    to.push_back(target);
  }
};

// A part of `count` blocks from `begin` on, the first of which leads to all of them.
void add_shape(Links& links, Shape shape, uint32_t begin, uint32_t count, std::mt19937& random) {
  const auto any_before = [&](uint32_t i) {
    return begin + static_cast<uint32_t>((uint64_t{random()} * i) >> 32);
  };
  for (uint32_t i = 1; i < count; ++i) {
    const uint32_t half = i / 2;
    switch (shape) {
      case Shape::kList:
      case Shape::kScatteredList: links.add(begin + i - 1, begin + i); break;
      case Shape::kLists: links.add(i % 1000 == 0 ? begin : begin + i - 1, begin + i); break;
      case Shape::kTrees:
        if (i % 2 == 1) {
          links.add(begin + i - 1, begin + i);  // the value
        } else {
          const uint32_t parent = (half - 1) / 2 * 2;
          links.add(begin + parent, begin + i);
          links.add(begin + i, begin + parent);
        }
        break;
      case Shape::kHash:
        if (i % 2 == 0) {
          links.add(begin + i - 1, begin + i);  // the value
        } else {
          links.add(begin, begin + i);
          if (i > 2) links.add(begin + i - 2, begin + i);
        }
        break;
      case Shape::kRandom:
        links.add(any_before(i), begin + i);
        if (i % 2 == 0) links.add(any_before(count), begin + i);
        break;
    }
  }
}

struct Heap {
  ReferenceGraph graph;
  BlockNumber root = 0;
};

Heap make_heap(Shape shape, uint32_t blocks) {
  std::mt19937 random(1);
  Links links;
  const uint32_t leaked = blocks / 100;
  add_shape(links, shape, 0, blocks - leaked, random);
  add_shape(links, shape, blocks - leaked, leaked, random);
  std::vector<uint32_t> address(blocks);
  std::iota(address.begin(), address.end(), 0U);
  if (shape != Shape::kList) std::shuffle(address.begin(), address.end(), random);
  // The blocks that lead to each, by counting.
  std::vector<uint64_t> first(size_t{blocks} + 1);
  for (const uint32_t from : links.from) ++first[address[from]];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<BlockNumber> targets(links.to.size());
  for (size_t i = links.from.size(); i-- > 0;) {
    targets[--first[address[links.from[i]]]] = address[links.to[i]];
  }
  Heap heap;
  for (uint32_t block = 0; block < blocks; ++block) {
    heap.graph.add(std::span(targets).subspan(first[block], first[block + 1] - first[block]));
  }
  heap.graph.finish();
  heap.root = address[0];
  return heap;
}

const Heap& heap_of(const benchmark::State& state, Shape shape) {
  static Heap heap;
  static Shape made = Shape::kList;
  const auto blocks = static_cast<uint32_t>(state.range(0)) * 1'000'000;
  if (made != shape || heap.graph.blocks() != blocks) {
    heap = Heap();
    heap = make_heap(shape, blocks);
    made = shape;
    ::malloc_trim(0);
  }
  return heap;
}

ReferenceGraph copy_of(const ReferenceGraph& graph) {
  ReferenceGraph copy;
  for (BlockNumber block = 0; block < graph.blocks(); ++block) copy.add(graph.targets(block));
  copy.finish();
  return copy;
}

uint64_t status_bytes(const char* field) {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  char line[256];
  uint64_t bytes = 0;
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, field, std::strlen(field)) == 0) {
      bytes = std::strtoull(line + std::strlen(field), nullptr, 10) * 1024;
    }
  }
  if (file != nullptr) std::fclose(file);
  return bytes;
}

uint64_t begin_peak() {
  if (std::FILE* file = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", file);
    std::fclose(file);
  }
  return status_bytes("VmRSS:");
}

void leaks(benchmark::State& state, Shape shape) {
  const Heap& heap = heap_of(state, shape);
  const uint64_t before = begin_peak() - heap.graph.memory_bytes();
  uint32_t found = 0;
  for (auto _ : state) {
    const BlockSet reachable = reachable_blocks(heap.graph, std::span(&heap.root, 1));
    const ReferenceGraph leaked = leaked_graph(heap.graph, reachable);
    const std::vector<uint64_t> bytes(leaked.blocks(), 48);
    const LeakClasses classes = classify_leaks(leaked, bytes);
    found = leaked.blocks();
    benchmark::DoNotOptimize(classes.sources.data());
  }
  if (found != heap.graph.blocks() / 100) state.SkipWithError("not the leaks that were made");
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(heap.graph.blocks()));
  state.counters["bytes/block"] =
      static_cast<double>(status_bytes("VmHWM:") - before) / heap.graph.blocks();
}

void dominators(benchmark::State& state, Shape shape) {
  const Heap& heap = heap_of(state, shape);
  const uint64_t before = begin_peak();
  uint64_t retained = 0;
  for (auto _ : state) {
    state.PauseTiming();
    ReferenceGraph graph = copy_of(heap.graph);
    state.ResumeTiming();
    const DominatorTree tree = dominator_tree(std::move(graph), heap.root);
    const RetainedSizes sizes =
        retained_sizes(tree, heap.graph.blocks(), [](BlockNumber) { return uint64_t{48}; });
    retained = sizes.blocks[0];
  }
  if (retained != heap.graph.blocks() - heap.graph.blocks() / 100) {
    state.SkipWithError("the root does not retain what it leads to");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(heap.graph.blocks()));
  state.counters["bytes/block"] =
      static_cast<double>(status_bytes("VmHWM:") - before) / heap.graph.blocks();
}

void add_sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int millions : {1, 5, 20}) benchmark->Arg(millions);
  benchmark->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK_CAPTURE(leaks, list, Shape::kList)->Apply(add_sizes);
BENCHMARK_CAPTURE(leaks, lists, Shape::kLists)->Apply(add_sizes);
BENCHMARK_CAPTURE(leaks, trees, Shape::kTrees)->Apply(add_sizes);
BENCHMARK_CAPTURE(leaks, hash, Shape::kHash)->Apply(add_sizes);
BENCHMARK_CAPTURE(leaks, random, Shape::kRandom)->Apply(add_sizes);
BENCHMARK_CAPTURE(leaks, scattered_list, Shape::kScatteredList)->Apply(add_sizes);
BENCHMARK_CAPTURE(dominators, list, Shape::kList)->Apply(add_sizes);
BENCHMARK_CAPTURE(dominators, lists, Shape::kLists)->Apply(add_sizes);
BENCHMARK_CAPTURE(dominators, trees, Shape::kTrees)->Apply(add_sizes);
BENCHMARK_CAPTURE(dominators, hash, Shape::kHash)->Apply(add_sizes);
BENCHMARK_CAPTURE(dominators, random, Shape::kRandom)->Apply(add_sizes);
BENCHMARK_CAPTURE(dominators, scattered_list, Shape::kScatteredList)->Apply(add_sizes);

}  // namespace

BENCHMARK_MAIN();
