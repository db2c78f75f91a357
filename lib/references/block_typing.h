// Types of blocks by the types of the pointers that lead to them.
//
//   g_sessions: vector<Session*>  ──►  block: Session*[]  ──►  block: Session  ──►  ...
//
// What has a type by other means (a vtable) keeps it, and its members lead on. What a pointer says
// of a block is a claim, and counts when it fits: the block is as large as malloc makes one for an
// object of that type, or for several. When two claims contradict each other, the block has no
// type, and nothing is followed from it. Four exceptions: of an object and of what it begins with
// the object counts; what variables say counts more than what stack frames say, where values of the
// past remain; a pointer to characters or numbers says least; and what many more claims say is
// decided by them. Values of the past remain in arrays that are not full, too, and in unions, so
// that it takes several of these to outweigh a member of an object:
//
//   | Edge* | Edge* | left over: Edge* |  ──►  block  ◄──  Edge: | Node* |     is a Node
//
// One word that is left over must not make nodes of another type of a whole list. So a variable and
// the nodes that are linked with what it leads to come first, and weigh more; then what these lead
// to:
//
//   g_jobs ──►  Job ◄──► Job ◄──► Job ◄──► Job
//                                  ▲
//   g_records ──► Record: | left over: Connection* |
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/large_memory.h"
#include "elf/type_graph.h"
#include "references/block_edges.h"
#include "references/reference.h"
#include "target/process.h"

namespace heapsnap {

enum class BlockShape : uint8_t { kObject = 0, kArray = 1, kText = 2, kBuckets = 3 };

struct TypedBlock {
  DebugTypeNumber type = 0;  // 0: not known
  BlockShape shape = BlockShape::kObject;
  bool operator==(const TypedBlock&) const = default;
};

// How a block of so many usable bytes would be filled by what a pointer leads to; type 0 when it
// does not fit. `from`: the type that the pointer is a member of.
// `beginning`: the class that the block begins with by its vtable; 0: it has none.
TypedBlock fitted_type(const TypeGraph& graph, const Pointee& pointee, uint64_t usable,
                       Machine machine, DebugTypeNumber from = 0, DebugTypeNumber beginning = 0);

class BlockTyping {
 public:
  // All outlive this; `edges` is sealed, not cut off and has kept sizes. `slack`: ascending; of
  // arrays, nothing is followed from there, but from their spare words if no pointer says that
  // they are a container's.
  BlockTyping(const TypeGraph& graph, const BlockEdges& edges, Machine machine,
              std::span<const SlackWords> slack = {});

  // The block's type is known by other means. `type`: 0 where debug information lacks it;
  // `objects_at`: where the first object lies, in bytes.
  struct KnownBlock {
    BlockNumber block = kNoBlock;
    DebugTypeNumber type = 0;
    bool is_array = false;
    uint8_t objects_at = 0;
  };
  // One that is larger than an object of its type may be one of a type that begins with it, as a
  // vtable is that of the first member, if a pointer says so.
  void add_known(const KnownBlock& known);
  // One whose type is known, but no debug information of it.
  void add_undescribed(BlockNumber block) {
    if (block < marks_.size()) marks_[block] = kKnown;
  }
  // A pointer outside of blocks leads to the block's first byte.
  struct Claim {
    BlockNumber block = kNoBlock;
    Pointee pointee;
  };
  void run(std::span<const Claim> of_variables, std::span<const Claim> of_frames);

  // After run(). Nothing of blocks that are known.
  TypedBlock type_of(BlockNumber block) const;
  // After run(), of one that is known: a type that begins with what was known; 0: there is none.
  TypedBlock whole_of(BlockNumber block) const;
  // After run(). Whether a pointer says that a container has its elements there.
  bool is_of_container(BlockNumber block) const { return of_containers_[block] != 0; }
  // After run(). Whether type_of() goes by a pointer that is a member of an object or an element of
  // a container, not by those of other arrays, unions and frames alone, which may be left over.
  bool is_sure(BlockNumber block) const;
  // After run(). Whether pointers to so many blocks contradict each other that some have no type
  // for that.
  bool has_too_many_disputes() const { return has_too_many_disputes_; }
  // After run(). Of the strings in blocks with types, what is text or not in use, where an address
  // of a block is; ascending.
  std::vector<UnusedWord> find_unused_words() const;
  // Whether type_of() or whole_of() says anything of `count` blocks from `first` on.
  bool has_claims(BlockNumber first, size_t count) const;

 private:
  // | type | shape: 2 bits | level: 3 bits |; 0: no claim.
  using Packed = uint32_t;
  // How far a claim is from what is sure: a variable, or an object with a vtable; and whether it is
  // from a frame. All claims of one level are made before those of the next.
  using Level = uint32_t;
  static constexpr Level kVariables = 0;
  static constexpr Level kFrames = 4;
  static constexpr Level kLevels = 4;  // from each of these on
  static Level further(Level level, unsigned step);
  // Pointers by how much further they lead: links, as of nodes that lead to nodes of their own
  // type, no further; members of unions twice as far as others.
  static constexpr unsigned kLinks = 0;
  static constexpr unsigned kMembers = 1;
  static constexpr unsigned kUnions = 2;
  static constexpr unsigned kSteps = 3;
  static unsigned step_of(DebugTypeNumber holder, const Pointee& to);
  // How many claims say the same, by where the pointers lie; no more than are counted.
  struct Votes {
    uint8_t of_roots = 0;  // variables, and what leads no further from them
    uint8_t of_members = 0;
    uint8_t of_others = 0;     // elements of arrays, unions, frames
    uint8_t has_sure_one = 0;  // 1: one lies in nothing that may have values of the past
  };
  struct Candidate {
    TypedBlock typed;
    Votes votes;
  };
  // What is said of a block, besides what was said before.
  enum class News { kNone, kMore, kContradiction };
  static Packed packed(const TypedBlock& typed, Level level);
  static TypedBlock unpacked(Packed claim);

  static Votes vote_at(Level level, bool is_sure);
  static void add(Votes& votes, const Votes& more);
  static uint32_t weight_of(const Votes& votes);
  // Of those that say what an object begins with: of the same weight, but no member says the whole.
  static Votes of_beginning(const Votes& votes);

  void begin_round();
  void run_level(std::span<const Claim> claims, Level level);
  // `holder`: the type that the pointer is a member of; 0: none.
  void claim(BlockNumber block, const Pointee& pointee, DebugTypeNumber holder, Level level,
             const Votes& vote);
  bool has_addresses(BlockNumber block) const;
  void set_claim(BlockNumber block, const TypedBlock& typed, Level level);
  News compare(const TypedBlock& before, const TypedBlock& wanted) const;
  // `news`: of `known` and `wanted`, and no contradiction.
  void agree(Candidate& known, const TypedBlock& wanted, News news, const Votes& vote) const;
  void add_vote(std::vector<Candidate>& candidates, const TypedBlock& wanted,
                const Votes& votes) const;
  void dispute(BlockNumber block, const TypedBlock& wanted, const Votes& vote);
  void decide();
  // Which pointers of a block: bits 1 << step, and those of slack_ that count.
  enum class Words { kInUse, kSpare };
  struct Which {
    unsigned steps = (1U << kSteps) - 1;
    Words words = Words::kInUse;
  };
  // Claims what the pointers of a block at `level` lead to.
  void follow(BlockNumber block, const TypedBlock& typed, Level level, uint64_t objects_at,
              const Which& which);
  void follow_claim(BlockNumber block, Level level, const Which& which);
  void follow_known(unsigned step);
  void follow_waiting(Level base);
  void follow_spare_words();

  // Marks of blocks.
  static constexpr uint8_t kKnown = 1;
  static constexpr uint8_t kContradicted = 2;
  static constexpr uint8_t kDisputed = 3;  // in this round, after which it is decided
  static constexpr uint8_t kDecided = 4;

  const TypeGraph& graph_;
  const BlockEdges& edges_;
  std::span<const SlackWords> slack_;
  BlockEdges::Hint edges_hint_;
  Machine machine_;
  uint32_t word_;
  LargeArray<uint8_t> marks_;
  LargeArray<Packed> claims_;
  LargeArray<Packed> weak_claims_;             // by pointers to numbers
  LargeArray<Votes> votes_;                    // for the claims, where there are any
  LargeArray<uint8_t> of_containers_;          // 1: in this round, a pointer says so
  std::vector<BlockNumber> with_spare_words_;  // followed in this round, but not from there
  std::unordered_map<BlockNumber, std::vector<Candidate>> disputed_;
  std::unordered_map<BlockNumber, Candidate> decided_;
  std::vector<KnownBlock> known_;                                // those that lead on
  std::unordered_map<BlockNumber, DebugTypeNumber> beginnings_;  // of known ones that are larger
  // To be followed, by the level of what they lead to, and by step.
  std::array<std::array<LargeArray<BlockNumber>, kSteps>, kLevels> waiting_;
  std::vector<uint8_t> steps_of_;  // of each type: bits as Which::steps
  bool has_too_many_disputes_ = false;
  bool is_contradicted_ = false;  // a block, in this round
  bool has_weak_claims_ = false;
};

}  // namespace heapsnap
