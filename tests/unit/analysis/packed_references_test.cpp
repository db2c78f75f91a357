#include "analysis/packed_references.h"

#include <doctest/doctest.h>

#include <random>

#include "base/error.h"
#include "tests/unit/analysis/random_graph.h"

namespace heapsnap::test {
namespace {

void send_packed(ReferenceSink& sink, BlockNumber first, const std::vector<uint32_t>& counts,
                 const std::vector<BlockNumber>& targets) {
  const std::vector<uint32_t> offsets(targets.size());
  const std::vector<uint8_t> interior(targets.size());
  sink.on_references({first, counts, offsets, targets, interior});
}

std::vector<BlockNumber> packed_targets(const PackedReferences& packed, BlockNumber block) {
  std::vector<BlockNumber> targets;
  packed.each_target(block, [&](BlockNumber target) { targets.push_back(target); });
  return targets;
}

// In batches of some blocks each; blocks with many are cut where they may be.
ReferenceStreams streams_of_edges(const Edges& edges, unsigned blocks_a_batch, size_t most) {
  ReferenceStreams streams;
  streams.read_references = [&edges, blocks_a_batch, most](ReferenceSink& sink) {
    std::vector<uint32_t> counts;
    std::vector<BlockNumber> targets;
    BlockNumber first = 0;
    const auto hand_over = [&](BlockNumber next) {
      if (!counts.empty()) send_packed(sink, first, counts, targets);
      counts.clear();
      targets.clear();
      first = next;
    };
    for (BlockNumber block = 0; block < edges.size(); ++block) {
      counts.push_back(0);
      for (const BlockNumber target : edges[block]) {
        if (targets.size() == most) {
          hand_over(block);
          counts.push_back(0);
        }
        targets.push_back(target);
        ++counts.back();
      }
      if (counts.size() == blocks_a_batch) hand_over(block + 1);
    }
    hand_over(0);
  };
  return streams;
}

TEST_CASE("packed references are those that were put in") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const Edges edges = random_edges(random, round % 10 == 0 ? 5000 : 200);
    const auto blocks = static_cast<BlockNumber>(edges.size());
    PackedReferences packed(blocks);
    streams_of_edges(edges, 1 + random() % 90, 1 + random() % 50).read_references(packed);
    packed.finish();
    for (BlockNumber block = 0; block < blocks; ++block) {
      REQUIRE(packed_targets(packed, block) == edges[block]);
    }
  }
}

TEST_CASE("what packed references lead to is what a search finds") {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    const Edges edges = random_edges(random, 300);
    const auto blocks = static_cast<BlockNumber>(edges.size());
    std::vector<BlockNumber> starts;
    for (int i = 0; i < 2; ++i) starts.push_back(static_cast<BlockNumber>(random() % blocks));
    const BlockSet found = reachable_in_few_bytes(streams_of_edges(edges, 7, 20), blocks, starts);
    const std::vector<bool> expected = reached(edges, starts);
    for (BlockNumber block = 0; block < blocks; ++block) {
      REQUIRE(found.contains(block) == expected[block]);
    }
  }
}

TEST_CASE("more blocks may wait than are listed") {
  constexpr BlockNumber kChildren = 3'000'000;  // three times as many
  ReferenceStreams streams;
  streams.read_references = [](ReferenceSink& sink) {
    std::vector<BlockNumber> all(kChildren);
    for (BlockNumber i = 0; i < kChildren; ++i) all[i] = 1 + i;
    send_packed(sink, 0, {kChildren}, all);
    // Each leads to one more, which nothing else leads to; the last block is not reached.
    std::vector<BlockNumber> next(kChildren);
    for (BlockNumber i = 0; i < kChildren; ++i) next[i] = 1 + kChildren + i;
    send_packed(sink, 1, std::vector<uint32_t>(kChildren, 1), next);
    send_packed(sink, 1 + kChildren, std::vector<uint32_t>(kChildren + 1, 0), {});
  };
  const std::vector<BlockNumber> start = {0};
  const BlockSet found = reachable_in_few_bytes(streams, 2 * kChildren + 2, start);
  BlockNumber reached_blocks = 0;
  for (BlockNumber block = 0; block <= 2 * kChildren; ++block) {
    reached_blocks += found.contains(block) ? 1 : 0;
  }
  CHECK(reached_blocks == 2 * kChildren + 1);
  CHECK(!found.contains(2 * kChildren + 1));
}

TEST_CASE("packed references that do not fit together are refused") {
  PackedReferences packed(3);
  CHECK_THROWS_AS(send_packed(packed, 1, {0}, {}), Error);   // block 0 is missing
  CHECK_THROWS_AS(send_packed(packed, 0, {2}, {1}), Error);  // cut off
  CHECK_THROWS_AS(packed.finish(), Error);                   // blocks are missing
  PackedReferences other(3);
  CHECK_THROWS_AS(send_packed(other, 0, {1}, {3}), Error);  // leads nowhere
  PackedReferences few(1);
  CHECK_THROWS_AS(send_packed(few, 0, {0, 0}, {}), Error);  // too many blocks
  const std::vector<BlockNumber> nowhere = {1};
  const Edges one(1);
  CHECK_THROWS_AS(reachable_in_few_bytes(streams_of_edges(one, 1, 1), 1, nowhere), Error);
  CHECK(reachable_in_few_bytes(streams_of_edges({}, 1, 1), 0, {}).blocks() == 0);
}

}  // namespace
}  // namespace heapsnap::test
