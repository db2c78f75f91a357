// What the memory in use is due to, as call stacks: the one model behind the formats for flame
// graphs and profilers.
//
//   frames   0 "main"   1 "load (cache.cpp:25)"   2 "parse (cache.cpp:7)"
//   nodes    0 the root   1 main   2 main;load   3 main;load;parse
//   samples  node 3: 12 blocks of 4,096 bytes together
//
// Of a tracked process the frames are those of the stacks that allocated. Without, what keeps a
// block alive takes their place: the root and the kinds of blocks on the way to it, as the tree of
// owners has them; what no root leads to is below a frame of its own.
//
// Its size depends on the number of stacks, not of blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analysis/owner_tree.h"
#include "analysis/stack_census.h"
#include "report/reference_report.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata.h"

namespace heapsnap {

struct NamedFrame;  // stack_frames.h

// Its texts are printable(), once: what is made of them needs no other escapes than its format's.
struct ProfileFrame {
  std::string name;    // "parse(int)", "libfoo.so+0x1234", "g_cache in server"; never empty
  std::string file;    // of the source; empty: not known
  uint32_t line = 0;   // 0: not known
  std::string module;  // path; empty: not known, or none
  bool operator==(const ProfileFrame&) const = default;
};

class StackProfile {
 public:
  enum class Kind : uint8_t { kCallStacks, kOwners };
  struct Node {
    uint32_t parent = 0;  // less than the own index; of node 0 itself
    uint32_t frame = 0;   // index into frames()
  };
  struct Sample {
    uint32_t node = 0;
    uint64_t blocks = 0;
    uint64_t bytes = 0;
  };

  explicit StackProfile(Kind kind) : kind_(kind) {}

  // The node below `parent` that has this frame.
  uint32_t child(uint32_t parent, const ProfileFrame& frame);
  // More than one of a node add up. Nothing of no blocks.
  void add(uint32_t node, uint64_t blocks, uint64_t bytes);

  Kind kind() const { return kind_; }
  const std::vector<ProfileFrame>& frames() const { return frames_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Sample>& samples() const { return samples_; }
  uint64_t blocks() const { return blocks_; }
  uint64_t bytes() const { return bytes_; }
  // The frames of a node, outermost first: indices into frames().
  void path_of(uint32_t node, std::vector<uint32_t>& frames) const;

 private:
  uint32_t number_of(const ProfileFrame& frame);

  Kind kind_;
  std::vector<ProfileFrame> frames_;
  std::unordered_map<std::string, uint32_t> frame_numbers_;
  std::vector<Node> nodes_{Node{}};
  std::unordered_map<uint64_t, uint32_t> children_;  // by parent and frame
  std::vector<Sample> samples_;
  std::unordered_map<uint32_t, size_t> sample_of_;  // by node
  uint64_t blocks_ = 0;
  uint64_t bytes_ = 0;
};

// Of the stacks that have blocks in use: as many and as large as `heapsnap stacks` says, rounded
// where they are estimates. `metadata` has a tracker. `node_of_stack`, unless null, receives the
// node of each stack id; 0 where it has no blocks in use.
StackProfile profile_of_stacks(const SnapshotMetadata& metadata, const RecordedStacks& recorded,
                               const StackCensus& census,
                               std::vector<uint32_t>* node_of_stack = nullptr);
// Of all blocks in use but malloc's own.
StackProfile profile_of_owners(const ReferenceReportInput& input, const OwnerTree& tree);

// "parse(int)", "libfoo.so+0x1234", with what is known of where that is.
ProfileFrame profile_frame(const NamedFrame& frame);

// "heapsnap 0.1.0: process 4711 (server) on host": printable().
std::string snapshot_title(const SnapshotMetadata& metadata);
// The same with ", bytes in use by call stack", or "by owner".
std::string profile_title(const SnapshotMetadata& metadata, const StackProfile& profile);

}  // namespace heapsnap
