#include "references/block_typing.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

using namespace heapsnap;

namespace {

constexpr Machine kMachine = Machine::kX86_64;

DebugType type_named(const char* name, uint64_t size) {
  DebugType type;
  type.name = name;
  type.size = size;
  return type;
}

// Types by number, so that tests can name them.
struct ShopTypes {
  static constexpr DebugTypeNumber kNode = 1;    // | next: Node* | data: Record* | text: char* |
  static constexpr DebugTypeNumber kRecord = 2;  // 48 bytes
  static constexpr DebugTypeNumber kChar = 3;
  static constexpr DebugTypeNumber kWide = 4;   // begins with a Record
  static constexpr DebugTypeNumber kOther = 5;  // as large as a Record
  TypeGraph graph;

  ShopTypes() {
    DebugType node = type_named("Node", 24);
    node.pointers = {{0, 1, 0, {kNode, PointerRole::kObject}},
                     {8, 1, 0, {kRecord, PointerRole::kObject}},
                     {16, 1, 0, {kChar, PointerRole::kObject}}};
    DebugType record = type_named("Record", 48);
    record.is_beginning = true;
    DebugType letter = type_named("char", 1);
    letter.is_scalar = true;
    DebugType wide = type_named("Wide", 56);
    wide.first = kRecord;
    for (DebugType& type :
         std::vector<DebugType>{node, record, letter, wide, type_named("Other", 48)}) {
      graph.types.push_back(type);
    }
  }

  TypedBlock fitted(DebugTypeNumber type, PointerRole role, uint64_t usable,
                    DebugTypeNumber from = 0) const {
    return fitted_type(graph, {type, role}, usable, kMachine, from);
  }
};

class NoSink final : public ReferenceSink {
 public:
  void on_references(const ReferenceBatch& batch) override { references += batch.targets.size(); }
  size_t references = 0;
};

// Blocks one after the other, and their references.
struct SmallHeap {
  struct Word {
    uint32_t offset;
    BlockNumber target;
    bool is_interior = false;
  };

  SmallHeap(const std::vector<uint64_t>& usable, const std::vector<std::vector<Word>>& words)
      : map(kMachine, 1 << 20), edges(sink, 1 << 20) {
    std::vector<uint64_t> sizes;
    for (const uint64_t bytes : usable) sizes.push_back(bytes + 8);
    const std::vector<ChunkState> states(sizes.size(), ChunkState::kUsed);
    ChunkBatch batch;
    batch.begin = Address(0x10000);
    batch.sizes = sizes;
    batch.states = states;
    map.on_batch(batch);
    map.seal();
    std::vector<uint32_t> counts;
    std::vector<uint32_t> offsets;
    std::vector<BlockNumber> targets;
    std::vector<uint8_t> interior;
    for (const auto& of_block : words) {
      counts.push_back(static_cast<uint32_t>(of_block.size()));
      for (const Word& word : of_block) {
        offsets.push_back(word.offset);
        targets.push_back(word.target);
        interior.push_back(word.is_interior ? 1 : 0);
      }
    }
    edges.on_references({0, counts, offsets, targets, interior});
    edges.seal(map);
    edges.keep_sizes(map);
  }

  NoSink sink;
  BlockMap map;
  BlockEdges edges;
};

}  // namespace

TEST_CASE("a block has a type when it is as large as malloc makes one for it") {
  const ShopTypes types;
  const TypedBlock record{ShopTypes::kRecord, BlockShape::kObject};
  CHECK(types.fitted(ShopTypes::kRecord, PointerRole::kObject, 56) == record);
  CHECK(types.fitted(ShopTypes::kRecord, PointerRole::kObject, 72) == record);  // with a rest
  CHECK(types.fitted(ShopTypes::kRecord, PointerRole::kObject, 40).type == 0);
  // Others begin with it: it may be one of them.
  CHECK(types.fitted(ShopTypes::kRecord, PointerRole::kObject, 104).type == 0);
  CHECK(types.fitted(ShopTypes::kOther, PointerRole::kObject, 104) ==
        TypedBlock{ShopTypes::kOther, BlockShape::kArray});
  CHECK(types.fitted(ShopTypes::kOther, PointerRole::kObject, 1000).type == 0);
  CHECK(types.fitted(ShopTypes::kRecord, PointerRole::kArray, 104) ==
        TypedBlock{ShopTypes::kRecord, BlockShape::kArray});
  CHECK(types.fitted(ShopTypes::kNode, PointerRole::kObject, 24) ==
        TypedBlock{ShopTypes::kNode, BlockShape::kObject});
  // Nodes that lead to each other do not lie in one block.
  CHECK(types.fitted(ShopTypes::kNode, PointerRole::kObject, 248, ShopTypes::kNode).type == 0);
  CHECK(types.fitted(0, PointerRole::kObject, 24).type == 0);
  CHECK(types.fitted(1000, PointerRole::kObject, 24).type == 0);
  CHECK(types.fitted(ShopTypes::kOther, PointerRole::kObject, UINT32_MAX).type == 0);
}

TEST_CASE("an object with a vptr is known by that, or is none") {
  ShopTypes types;
  types.graph.types[ShopTypes::kOther].has_vptr = true;
  CHECK(types.fitted(ShopTypes::kOther, PointerRole::kObject, 56).type == 0);
  CHECK(types.fitted(ShopTypes::kOther, PointerRole::kArray, 56).type == ShopTypes::kOther);
}

TEST_CASE("types are followed from block to block") {
  const ShopTypes types;
  // 0 -> 1 -> 0, each with a record; one has text; 5 is led to by nothing that is known.
  const SmallHeap heap({24, 24, 56, 56, 104, 56},
                       {{{0, 1}, {1, 2}, {2, 4}}, {{0, 0}, {1, 3}, {2, 5, true}}, {}, {}, {}, {}});
  CHECK(heap.sink.references == 6);
  CHECK(heap.edges.usable(4) == 104);
  BlockTyping typing(types.graph, heap.edges, kMachine);
  const BlockTyping::Claim claim{0, {ShopTypes::kNode, PointerRole::kObject}};
  typing.run(std::span(&claim, 1), {});
  for (const BlockNumber node : {0U, 1U}) CHECK(typing.type_of(node).type == ShopTypes::kNode);
  for (const BlockNumber record : {2U, 3U}) {
    CHECK(typing.type_of(record).type == ShopTypes::kRecord);
  }
  CHECK(typing.type_of(4) == TypedBlock{ShopTypes::kChar, BlockShape::kArray});
  CHECK(typing.type_of(5).type == 0);
  CHECK(typing.type_of(1000).type == 0);
}

TEST_CASE("what contradicts itself has no type, and leads nowhere") {
  const ShopTypes types;
  const SmallHeap heap({24, 56, 56}, {{{1, 1}}, {}, {}});
  const std::vector<BlockTyping::Claim> claims = {
      {0, {ShopTypes::kNode, PointerRole::kObject}},
      {1, {ShopTypes::kOther, PointerRole::kObject}},
      {2, {ShopTypes::kRecord, PointerRole::kObject}},
      {2, {ShopTypes::kWide, PointerRole::kObject}},
  };
  BlockTyping typing(types.graph, heap.edges, kMachine);
  typing.run(claims, {});
  CHECK(typing.type_of(0).type == ShopTypes::kNode);
  CHECK(typing.type_of(1).type == 0);
  // An object and what it begins with do not.
  CHECK(typing.type_of(2).type == ShopTypes::kWide);

  // What frames say does not count against variables.
  BlockTyping second(types.graph, heap.edges, kMachine);
  second.run(std::span(claims).subspan(0, 1), std::span(claims).subspan(1, 1));
  CHECK(second.type_of(1).type == ShopTypes::kRecord);
}

TEST_CASE("several elements of arrays outweigh a member, and a member one element") {
  ShopTypes types;
  DebugType pointer = type_named("Other*", 8);
  pointer.pointers = {{0, 1, 0, {ShopTypes::kOther, PointerRole::kObject}}};
  types.graph.types.push_back(pointer);
  const auto other = static_cast<DebugTypeNumber>(types.graph.types.size() - 1);
  // The array leads to the node's record, as to 2, which nothing else leads to.
  const std::vector<SmallHeap::Word> few = {{0, 2}, {3, 1}};
  std::vector<SmallHeap::Word> some = few;
  for (uint32_t i = 4; i < 8; ++i) some.push_back({i, 1});
  std::vector<SmallHeap::Word> many = some;
  for (uint32_t i = 8; i < 20; ++i) many.push_back({i, 1});
  const auto types_by = [&](const std::vector<SmallHeap::Word>& words, bool is_array_first) {
    const SmallHeap heap({24, 56, 56, 168}, {{{1, 1}}, {}, {}, words});
    std::vector<BlockTyping::Claim> claims = {{3, {other, PointerRole::kArray}},
                                              {0, {ShopTypes::kNode, PointerRole::kObject}}};
    if (!is_array_first) std::swap(claims[0], claims[1]);
    BlockTyping typing(types.graph, heap.edges, kMachine);
    typing.run(claims, {});
    CHECK(typing.type_of(2).type == ShopTypes::kOther);
    CHECK(typing.type_of(3) == TypedBlock{other, BlockShape::kArray});
    CHECK(typing.is_sure(1) == (typing.type_of(1).type == ShopTypes::kRecord));
    return typing.type_of(1).type;
  };
  for (const bool is_array_first : {true, false}) {
    CHECK(types_by(few, is_array_first) == ShopTypes::kRecord);
    CHECK(types_by(some, is_array_first) == 0);
    CHECK(types_by(many, is_array_first) == ShopTypes::kOther);
  }
}

TEST_CASE("a member that says what a block begins with does not make sure of the whole") {
  ShopTypes types;
  const auto holder_of = [&types](DebugTypeNumber type, bool in_union) {
    DebugType holder = type_named(in_union ? "Union" : "Holder", 8);
    holder.pointers = {{0, 1, 0, {type, PointerRole::kObject, in_union}}};
    types.graph.types.push_back(holder);
    return static_cast<DebugTypeNumber>(types.graph.types.size() - 1);
  };
  const DebugTypeNumber of_record = holder_of(ShopTypes::kRecord, false);
  const DebugTypeNumber in_union = holder_of(ShopTypes::kWide, true);
  const DebugTypeNumber of_wide = holder_of(ShopTypes::kWide, false);
  const SmallHeap heap({24, 24, 24, 56}, {{{0, 3}}, {{0, 3}}, {{0, 3}}, {}});
  const BlockTyping::Claim record{0, {of_record, PointerRole::kObject}};
  const BlockTyping::Claim wide_of_union{1, {in_union, PointerRole::kObject}};
  const BlockTyping::Claim wide{2, {of_wide, PointerRole::kObject}};
  const auto is_sure = [&](const std::vector<BlockTyping::Claim>& claims) {
    BlockTyping typing(types.graph, heap.edges, kMachine);
    typing.run(claims, {});
    CHECK(typing.type_of(3).type == ShopTypes::kWide);
    return typing.is_sure(3);
  };
  CHECK_FALSE(is_sure({record, wide_of_union}));
  CHECK_FALSE(is_sure({wide_of_union, record}));
  CHECK(is_sure({record, wide}));
  CHECK(is_sure({wide, record}));
  CHECK(is_sure({wide, wide_of_union, record}));
}

TEST_CASE("a word that is left over makes nodes of another type of none of a list") {
  TypeGraph graph;
  const auto add = [&graph](const char* name, std::vector<PointerMember> pointers) {
    DebugType type = type_named(name, 24);
    type.pointers = std::move(pointers);
    graph.types.push_back(type);
    return static_cast<DebugTypeNumber>(graph.types.size() - 1);
  };
  constexpr DebugTypeNumber kJob = 1;
  constexpr DebugTypeNumber kConnection = 2;
  add("Job", {{0, 2, 8, {kJob, PointerRole::kObject}}});
  add("Connection", {{0, 2, 8, {kConnection, PointerRole::kObject}}});
  const DebugTypeNumber record = add("Record", {{16, 1, 0, {kConnection, PointerRole::kObject}}});
  // | next | previous |, and the record at last.
  constexpr BlockNumber kJobs = 9;
  for (const BlockNumber wrong : {0U, 4U, 8U}) {
    for (const bool is_record_first : {true, false}) {
      CAPTURE(wrong);
      CAPTURE(is_record_first);
      std::vector<std::vector<SmallHeap::Word>> words(kJobs + 1);
      for (BlockNumber job = 0; job < kJobs; ++job) {
        words[job] = {{0, (job + 1) % kJobs}, {1, (job + kJobs - 1) % kJobs}};
      }
      words[kJobs] = {{2, wrong}};
      const SmallHeap heap(std::vector<uint64_t>(kJobs + 1, 24), words);
      std::vector<BlockTyping::Claim> claims = {{0, {kJob, PointerRole::kObject}},
                                                {kJobs, {record, PointerRole::kObject}}};
      if (is_record_first) std::swap(claims[0], claims[1]);
      BlockTyping typing(graph, heap.edges, kMachine);
      typing.run(claims, {});
      for (BlockNumber job = 0; job < kJobs; ++job) CHECK(typing.type_of(job).type == kJob);
    }
  }
}

TEST_CASE("a pointer to a node's first pointer does not contradict those to the node") {
  TypeGraph graph;
  const auto add = [&graph](const char* name, uint64_t size, std::vector<PointerMember> pointers) {
    DebugType type = type_named(name, size);
    type.pointers = std::move(pointers);
    graph.types.push_back(type);
  };
  constexpr DebugTypeNumber kNode = 1;  // | next: Node* | pprev: Node** | number |
  constexpr DebugTypeNumber kPointer = 2;
  add("Node", 24, {{0, 1, 0, {kNode}}, {8, 1, 0, {kPointer}}});
  add("Node*", 8, {{0, 1, 0, {kNode}}});
  const SmallHeap heap({24, 24, 24}, {{{0, 1}, {1, 2}}, {{0, 2}, {1, 0}}, {{0, 0}, {1, 1}}});
  BlockTyping typing(graph, heap.edges, kMachine);
  const BlockTyping::Claim claim{0, {kNode, PointerRole::kObject}};
  typing.run(std::span(&claim, 1), {});
  for (const BlockNumber node : {0U, 1U, 2U}) CHECK(typing.type_of(node).type == kNode);
}

TEST_CASE("what a decided block leads to is followed") {
  ShopTypes types;
  types.graph.types.push_back(type_named("Triple", 24));
  const auto triple = static_cast<DebugTypeNumber>(types.graph.types.size() - 1);
  const SmallHeap heap({24, 56}, {{{1, 1}}, {}});
  const BlockTyping::Claim as_node{0, {ShopTypes::kNode, PointerRole::kObject}};
  const BlockTyping::Claim as_triple{0, {triple, PointerRole::kObject}};
  const std::vector<BlockTyping::Claim> claims = {as_node, as_triple, as_node, as_node, as_node};
  BlockTyping typing(types.graph, heap.edges, kMachine);
  typing.run(claims, {});
  CHECK(typing.type_of(0).type == ShopTypes::kNode);
  CHECK(typing.type_of(1).type == ShopTypes::kRecord);
}

TEST_CASE("a block that leads on from a contradiction is unknown too") {
  const ShopTypes types;
  // Block 0 is a node or something else of that size; only as a node it would lead to block 1.
  ShopTypes other = types;
  other.graph.types.push_back(type_named("Triple", 24));
  const auto triple = static_cast<DebugTypeNumber>(other.graph.types.size() - 1);
  const SmallHeap heap({24, 56}, {{{1, 1}}, {}});
  const std::vector<BlockTyping::Claim> claims = {{0, {ShopTypes::kNode, PointerRole::kObject}},
                                                  {0, {triple, PointerRole::kObject}}};
  BlockTyping typing(other.graph, heap.edges, kMachine);
  typing.run(claims, {});
  CHECK(typing.type_of(0).type == 0);
  CHECK(typing.type_of(1).type == 0);
}

TEST_CASE("what is known keeps its type and leads on") {
  const ShopTypes types;
  const SmallHeap heap({40, 56, 24}, {{{2, 1}, {4, 2}}, {}, {}});
  BlockTyping typing(types.graph, heap.edges, kMachine);
  // One node behind a count.
  typing.add_known({0, ShopTypes::kNode, true, 8});
  typing.add_known({2, 0, false, 0});
  typing.add_known({kNoBlock, ShopTypes::kNode, false, 0});
  const BlockTyping::Claim claim{2, {ShopTypes::kNode, PointerRole::kObject}};
  typing.run(std::span(&claim, 1), {});
  CHECK(typing.type_of(0).type == 0);
  CHECK(typing.type_of(1).type == ShopTypes::kRecord);
  CHECK(typing.type_of(2).type == 0);
}

TEST_CASE(
    "a vtable is that of the first member alone where the block is larger and a pointer says so") {
  ShopTypes types;
  constexpr auto kTimer = static_cast<DebugTypeNumber>(6);
  constexpr auto kSession = static_cast<DebugTypeNumber>(7);  // begins with a Timer
  DebugType timer = type_named("Timer", 16);
  timer.has_vptr = true;
  timer.is_beginning = true;
  DebugType session = type_named("Session", 104);
  session.first = kTimer;
  session.has_vptr = true;
  types.graph.types.push_back(timer);
  types.graph.types.push_back(session);
  for (const uint64_t usable : {24, 104}) {
    for (const bool is_said : {false, true}) {
      CAPTURE(usable);
      CAPTURE(is_said);
      const SmallHeap heap({usable}, {{}});
      BlockTyping typing(types.graph, heap.edges, kMachine);
      typing.add_known({0, kTimer, false, 0});
      const BlockTyping::Claim claim{0, {is_said ? kSession : kTimer, PointerRole::kObject}};
      typing.run(std::span(&claim, 1), {});
      const bool is_whole = usable == 104 && is_said;
      CHECK(typing.whole_of(0).type == (is_whole ? kSession : 0));
    }
  }
}

TEST_CASE("references are not kept beyond their limit, but handed on") {
  NoSink sink;
  BlockEdges edges(sink, 64);
  const std::vector<uint32_t> counts(100, 1);
  const std::vector<uint32_t> offsets(100, 0);
  const std::vector<BlockNumber> targets(100, 0);
  const std::vector<uint8_t> interior(100, 0);
  edges.on_references({0, counts, offsets, targets, interior});
  edges.on_references({100, counts, offsets, targets, interior});
  CHECK(edges.is_cut_off());
  CHECK(edges.blocks() == 0);
  CHECK(sink.references == 200);
}

TEST_CASE("nothing is followed from what a deque does not use of its map") {
  ShopTypes types;
  DebugType pointer = type_named("Other*", 8);
  pointer.pointers = {{0, 1, 0, {ShopTypes::kOther, PointerRole::kObject}}};
  types.graph.types.push_back(pointer);
  const auto other = static_cast<DebugTypeNumber>(types.graph.types.size() - 1);
  const SmallHeap heap({72, 56, 56, 56}, {{{1, 1}, {2, 2}, {3, 3}}, {}, {}, {}});
  const SlackWords slack{0, 3, 2};
  BlockTyping typing(types.graph, heap.edges, kMachine, std::span(&slack, 1));
  const BlockTyping::Claim claim{0, {other, PointerRole::kArray}};
  typing.run(std::span(&claim, 1), {});
  CHECK(typing.type_of(1).type == 0);
  CHECK(typing.type_of(2).type == ShopTypes::kOther);
  CHECK(typing.type_of(3).type == 0);
}

TEST_CASE("nothing is followed from behind the last element of a vector, but of other arrays") {
  ShopTypes types;
  DebugType pointer = type_named("Other*", 8);
  pointer.pointers = {{0, 1, 0, {ShopTypes::kOther, PointerRole::kObject}}};
  types.graph.types.push_back(pointer);
  const auto other = static_cast<DebugTypeNumber>(types.graph.types.size() - 1);
  const SmallHeap heap({72, 56, 56}, {{{1, 1}, {2, 2}}, {}, {}});
  const SlackWords slack{0, 9, 0, 7};
  using enum PointerRole;
  // In whatever order pointers say it.
  for (const auto& [one, another] :
       {std::pair{kElements, kElements}, {kElements, kObject}, {kObject, kElements}}) {
    BlockTyping typing(types.graph, heap.edges, kMachine, std::span(&slack, 1));
    const BlockTyping::Claim claims[] = {{0, {other, one}}, {0, {other, another}}};
    typing.run(claims, {});
    CHECK(typing.type_of(1).type == ShopTypes::kOther);
    CHECK(typing.type_of(2).type == 0);
    CHECK(typing.is_of_container(0));
  }
  for (const PointerRole role : {kArray, kObject}) {
    BlockTyping typing(types.graph, heap.edges, kMachine, std::span(&slack, 1));
    const BlockTyping::Claim claim{0, {other, role}};
    typing.run(std::span(&claim, 1), {});
    CHECK(typing.type_of(1).type == ShopTypes::kOther);
    CHECK(typing.type_of(2).type == ShopTypes::kOther);
    CHECK(!typing.is_of_container(0));
  }
}

TEST_CASE("the last word of a string is no address, whatever is in it") {
  TypeGraph graph;
  DebugType record = type_named("Record", 48);
  DebugType letter = type_named("char", 1);
  letter.is_scalar = true;
  constexpr DebugTypeNumber kRecord = 1;
  constexpr DebugTypeNumber kChar = 2;
  record.pointers = {{8, 1, 0, {kChar, PointerRole::kText}}};
  graph.types.insert(graph.types.end(), {record, letter});
  // One record; two in a row; one that is the same of a union; text.
  const SmallHeap heap(
      {56, 104, 56, 24},
      {{{1, 3}, {3, 3}, {4, 3}, {5, 3}}, {{4, 3}, {10, 3}, {11, 3}}, {{4, 3}}, {}});
  const auto unused_words = [&](bool in_union, PointerRole role = PointerRole::kElements) {
    graph.types[kRecord].pointers[0].to.in_union = in_union;
    BlockTyping typing(graph, heap.edges, kMachine);
    typing.add_known({2, kRecord, false, 0});
    const std::vector<BlockTyping::Claim> claims{{0, {kRecord, PointerRole::kObject}},
                                                 {1, {kRecord, role}}};
    typing.run(claims, {});
    return typing.find_unused_words();
  };
  CHECK(unused_words(false) == std::vector<UnusedWord>{{0, 4}, {1, 4}, {1, 10}, {2, 4}});
  CHECK(unused_words(true).empty());
  // It may be one, with more behind it.
  CHECK(unused_words(false, PointerRole::kArray) == std::vector<UnusedWord>{{0, 4}, {2, 4}});
}

TEST_CASE("what has addresses in it is no text for a string that a union may have") {
  for (const bool in_union : {false, true}) {
    for (const bool has_address : {false, true}) {
      TypeGraph graph;
      DebugType variant = type_named("Variant", 40);
      variant.pointers = {{0, 1, 0, {2, PointerRole::kText, in_union}}};
      DebugType letter = type_named("char", 1);
      letter.is_scalar = true;
      graph.types.insert(graph.types.end(), {variant, letter});
      std::vector<SmallHeap::Word> words;
      if (has_address) words.push_back({3, 0});
      const SmallHeap heap({40, 56}, {{{0, 1}}, words});
      BlockTyping typing(graph, heap.edges, kMachine);
      const BlockTyping::Claim claim{0, {1, PointerRole::kObject}};
      typing.run(std::span(&claim, 1), {});
      const bool is_text = typing.type_of(1).shape == BlockShape::kText;
      CHECK(is_text == !(in_union && has_address));
    }
  }
}

TEST_CASE("a pointer of a union says less than a member") {
  ShopTypes types;
  types.graph.types[ShopTypes::kNode].pointers[1].to.in_union = true;
  // Block 0 holds block 2 by a member, block 1 by a union: they do not agree what it is.
  DebugType holder = type_named("Holder", 8);
  holder.pointers = {{0, 1, 0, {ShopTypes::kOther, PointerRole::kObject}}};
  types.graph.types.push_back(holder);
  const auto holder_number = static_cast<DebugTypeNumber>(types.graph.types.size() - 1);
  const SmallHeap heap({24, 24, 56, 56}, {{{0, 2}}, {{1, 2}}, {}, {}});
  BlockTyping typing(types.graph, heap.edges, kMachine);
  const std::vector<BlockTyping::Claim> claims{{0, {holder_number, PointerRole::kObject}},
                                               {1, {ShopTypes::kNode, PointerRole::kObject}}};
  typing.run(claims, {});
  CHECK(typing.type_of(2) == TypedBlock{ShopTypes::kOther, BlockShape::kObject});
  BlockTyping by_union(types.graph, heap.edges, kMachine);
  by_union.run(std::span(claims).last(1), {});
  CHECK(by_union.type_of(2) == TypedBlock{ShopTypes::kRecord, BlockShape::kObject});
  CHECK_FALSE(by_union.is_sure(2));
  BlockTyping by_member(types.graph, heap.edges, kMachine);
  by_member.run(std::span(claims).first(1), {});
  CHECK(by_member.is_sure(2));
}
