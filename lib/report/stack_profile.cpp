#include "report/stack_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/number_text.h"
#include "report/owner_labels.h"
#include "report/reference_labels.h"
#include "report/stack_frames.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

// Each node of the recorded tree becomes a node of the profile for each function inlined there, and
// is looked at once, however many stacks lead through it.
class CallPaths {
 public:
  CallPaths(const RecordedStacks& recorded, const TrackerRecord& tracker, StackProfile& profile)
      : recorded_(recorded), tracker_(tracker), profile_(profile) {
    node_of_.resize(recorded.stacks.nodes.size());
  }

  uint32_t node_of(uint32_t innermost) {
    path_.clear();
    const StackEnd end =
        recorded_.stacks.walk(innermost, [this](uint32_t node) { path_.push_back(node); });
    if (path_.empty()) {
      return profile_.child(
          0,
          {fmt::format("[{} call stack]", end == StackEnd::kNone ? "no" : "unknown"), {}, 0, {}});
    }
    // From the innermost one that is known already.
    size_t next = 0;
    while (next < path_.size() && node_of_[path_[next]] == 0) ++next;
    uint32_t at = next == path_.size() ? 0 : node_of_[path_[next]];
    while (next-- > 0) {
      const uint32_t node = path_[next];
      const auto frames = frames_of_node(recorded_, tracker_, node);
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
        at = profile_.child(at, profile_frame(*frame));
      }
      node_of_[node] = at;
    }
    return at;
  }

 private:
  const RecordedStacks& recorded_;
  const TrackerRecord& tracker_;
  StackProfile& profile_;
  std::vector<uint32_t> node_of_;  // 0: not looked at yet
  std::vector<uint32_t> path_;
};

}  // namespace

uint32_t StackProfile::number_of(const ProfileFrame& frame) {
  // No name of a file has a zero byte in it.
  const std::string key = fmt::format("{}{}{}{}{}{}{}", frame.name, '\0', frame.file, '\0',
                                      frame.line, '\0', frame.module);
  const auto [entry, is_new] =
      frame_numbers_.try_emplace(key, static_cast<uint32_t>(frames_.size()));
  if (is_new) frames_.push_back(frame);
  return entry->second;
}

uint32_t StackProfile::child(uint32_t parent, const ProfileFrame& frame) {
  const uint32_t number = number_of(frame);
  const auto [entry, is_new] =
      children_.try_emplace(uint64_t{parent} << 32U | number, static_cast<uint32_t>(nodes_.size()));
  if (is_new) nodes_.push_back({parent, number});
  return entry->second;
}

void StackProfile::add(uint32_t node, uint64_t blocks, uint64_t bytes) {
  if (blocks == 0 && bytes == 0) return;
  const auto [entry, is_new] = sample_of_.try_emplace(node, samples_.size());
  if (is_new) samples_.push_back({node, 0, 0});
  samples_[entry->second].blocks += blocks;
  samples_[entry->second].bytes += bytes;
  blocks_ += blocks;
  bytes_ += bytes;
}

void StackProfile::path_of(uint32_t node, std::vector<uint32_t>& frames) const {
  frames.clear();
  for (; node != 0; node = nodes_[node].parent) frames.push_back(nodes_[node].frame);
  std::reverse(frames.begin(), frames.end());
}

StackProfile profile_of_stacks(const SnapshotMetadata& metadata, const RecordedStacks& recorded,
                               const StackCensus& census, std::vector<uint32_t>* node_of_stack) {
  StackProfile profile(StackProfile::Kind::kCallStacks);
  CallPaths paths(recorded, *metadata.tracker, profile);
  if (node_of_stack != nullptr) node_of_stack->assign(recorded.stacks.sites.size(), 0);
  for (size_t id = 0; id < census.stacks.size() && id < recorded.stacks.sites.size(); ++id) {
    const StackFigures& figures = census.stacks[id];
    if (figures.blocks_found == 0) continue;
    const uint32_t node = paths.node_of(recorded.stacks.sites[id].node);
    profile.add(node, whole_number(figures.live_blocks), whole_number(figures.live_bytes));
    if (node_of_stack != nullptr) (*node_of_stack)[id] = node;
  }
  return profile;
}

StackProfile profile_of_owners(const ReferenceReportInput& input, const OwnerTree& tree) {
  StackProfile profile(StackProfile::Kind::kOwners);
  const OwnerLabels labels(input.metadata, tree.places, tree.threads, tree.groups);
  std::vector<uint32_t> node_of(tree.nodes.size());
  for (size_t i = 1; i < tree.nodes.size(); ++i) {  // parents come first
    const OwnerNode& node = tree.nodes[i];
    ProfileFrame frame;
    switch (node.kind) {
      case OwnerNode::Kind::kPlace:
        frame.name = labels.of_place(node.place, SIZE_MAX);
        frame.module = printable(tree.places[node.place].module);
        break;
      case OwnerNode::Kind::kBlocks:
        frame.name = kind_of_blocks(input, node) + where_held(input, node, tree.nodes[node.parent]);
        break;
      case OwnerNode::Kind::kSeveral: frame.name = labels.of_several(node.place, SIZE_MAX); break;
      case OwnerNode::Kind::kAll: break;
    }
    node_of[i] = profile.child(node_of[node.parent], frame);
    profile.add(node_of[i], node.own.count, node.own.bytes);
  }
  const auto add_unowned = [&](const char* what, const Tally& blocks) {
    if (blocks.count == 0) return;
    profile.add(profile.child(0, {what, {}, 0, {}}), blocks.count, blocks.bytes);
  };
  add_unowned("leaked: no root leads to it", tree.leaked);
  add_unowned("garbage: freed by the next full garbage collection", tree.garbage);
  return profile;
}

ProfileFrame profile_frame(const NamedFrame& frame) {
  return {printable(function_label(frame)), printable(frame.file), frame.line,
          printable(frame.module)};
}

std::string snapshot_title(const SnapshotMetadata& metadata) {
  const Process& process = metadata.process;
  return printable(fmt::format("{}: process {} ({}) on {}", metadata.writer, process.pid,
                               process.comm, process.hostname));
}

std::string profile_title(const SnapshotMetadata& metadata, const StackProfile& profile) {
  const bool is_by_stack = profile.kind() == StackProfile::Kind::kCallStacks;
  return snapshot_title(metadata) + ", bytes in use by " + (is_by_stack ? "call stack" : "owner");
}

}  // namespace heapsnap
