#include "tracking/interpreted_frames.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "tracking/call_stacks.h"
#include "tracking/python_lines.h"
#include "tracking/source_frames.h"
#include "tracking/tracking_reader.h"

namespace heapsnap {

namespace {

constexpr const char* kMoreName = "(more frames of the interpreter)";
constexpr const char* kUnknownName = "(unknown function)";

uint64_t value_of(const CallNode& node) {
  return node.return_address.value();
}

bool is_one(const CallNode& node) {
  return is_interpreted(node.module, node.return_address);
}

// The new paths of stacks, behind the nodes that are there.
class MergedPaths {
 public:
  explicit MergedPaths(std::vector<CallNode>& nodes) : nodes_(nodes) {}

  // The id of the node; 0 when there are too many.
  uint32_t child(uint32_t parent, CallNode node) {
    node.parent = parent;
    const auto [entry, is_new] = known_.try_emplace(Key{node}, nodes_.size());
    if (!is_new) return entry->second;
    if (nodes_.size() >= kMaxCallNodes) {
      known_.erase(entry);
      return 0;
    }
    nodes_.push_back(node);
    return entry->second;
  }

 private:
  struct Key {
    CallNode node;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t hash = value_of(key.node) * 0x9e3779b97f4a7c15;
      hash = (hash ^ (hash >> 29) ^ key.node.parent) * 0xbf58476d1ce4e5b9;
      hash = (hash ^ (hash >> 32) ^ static_cast<uint32_t>(key.node.module)) * 0x94d049bb133111eb;
      return hash ^ (hash >> 31);
    }
  };
  std::vector<CallNode>& nodes_;
  std::unordered_map<Key, uint32_t, Hash> known_;
};

// The frames of one stack as they belong, innermost first.
class MergedStack {
 public:
  MergedStack(const CallStacks& stacks, uint32_t node, AddressRange loop) {
    size_t frames = 0;
    const auto take_group = [&](std::vector<CallNode>& to) {
      while (frames < interpreted_.size()) {
        CallNode frame = interpreted_[frames++];
        const bool is_entry = (value_of(frame) & tracker::kInterpreterEntry) != 0;
        frame.return_address = Address(value_of(frame) & ~tracker::kInterpreterEntry);
        to.push_back(frame);
        if (is_entry) return;
      }
    };
    end_ = stacks.walk(node, [&](uint32_t id) {
      const CallNode& frame = stacks.nodes[id];
      if (is_one(frame)) {
        interpreted_.push_back(frame);
      } else if (loop.contains(frame.return_address - 1) && frames < interpreted_.size()) {
        take_group(frames_);
      } else {
        frames_.push_back(frame);
      }
    });
    // Loops that are not known as such, or beyond the frames that were kept.
    while (frames < interpreted_.size()) take_group(frames_);
  }

  bool has_interpreted() const { return !interpreted_.empty(); }
  const std::vector<CallNode>& frames() const { return frames_; }
  StackEnd end() const { return end_; }

 private:
  std::vector<CallNode> interpreted_;
  std::vector<CallNode> frames_;
  StackEnd end_ = StackEnd::kNone;
};

// Keeps of the nodes those that a stack has.
void drop_unused_nodes(CallStacks& stacks) {
  std::vector<CallNode>& nodes = stacks.nodes;
  std::vector<bool> is_used(nodes.size());
  for (const AllocationSite& site : stacks.sites) {
    for (uint32_t id = site.node; id >= tracker::kFirstNode && id < nodes.size() && !is_used[id];
         id = nodes[id].parent < id ? nodes[id].parent : 0) {
      is_used[id] = true;
    }
  }
  std::vector<uint32_t> moved(nodes.size());
  uint32_t next = 0;
  for (uint32_t id = 0; id < nodes.size(); ++id) {
    if (id >= tracker::kFirstNode && !is_used[id]) continue;
    moved[id] = next;
    CallNode node = nodes[id];
    if (node.parent < id) node.parent = moved[node.parent];
    nodes[next++] = node;
  }
  nodes.resize(next);
  for (AllocationSite& site : stacks.sites) {
    if (site.node < moved.size()) site.node = moved[site.node];
  }
}

std::optional<uint64_t> word_of(std::span<const std::byte> bytes, uint64_t offset, unsigned size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + offset, size);  // little-endian, as in the process
  return word;
}

uint32_t line_of(const InterpretedFunction& function, uint32_t at) {
  if (function.language != FrameLanguage::kRuby) {
    return python_line(PythonLineTable::kLocations, function.lines, function.first_line, at);
  }
  const auto words = [](std::span<const std::byte> bytes) {
    return [bytes](uint64_t offset, unsigned size) { return word_of(bytes, offset, size); };
  };
  return ruby_line(function.line_table, at, words(function.line_index), words(function.lines));
}

std::string shown_name(const InterpretedFunction& function) {
  return function.name.empty() ? kUnknownName : function.name;
}

}  // namespace

const char* to_string(FrameLanguage language) {
  switch (language) {
    case FrameLanguage::kNative: return "";
    case FrameLanguage::kPython: return "python";
    case FrameLanguage::kRuby: return "ruby";
  }
  return "";
}

bool is_interpreted(int32_t module, Address return_address) {
  return module < 0 && (return_address.value() & tracker::kInterpreterFrame) != 0;
}

bool has_interpreted_frames(const CallStacks& stacks) {
  return std::any_of(stacks.nodes.begin(), stacks.nodes.end(), [](const CallNode& node) {
    return is_interpreted(node.module, node.return_address);
  });
}

void merge_interpreted_frames(CallStacks& stacks, AddressRange loop) {
  if (std::none_of(stacks.nodes.begin(), stacks.nodes.end(), is_one)) return;
  MergedPaths paths(stacks.nodes);
  for (AllocationSite& site : stacks.sites) {
    const MergedStack merged(stacks, site.node, loop);
    if (!merged.has_interpreted()) continue;
    auto node = static_cast<uint32_t>(merged.end());
    bool fits = true;
    for (auto frame = merged.frames().rbegin(); fits && frame != merged.frames().rend(); ++frame) {
      node = paths.child(node, *frame);
      fits = node != 0;
    }
    if (!fits) break;  // the rest stays as it was recorded
    site.node = node;
    site.depth = static_cast<uint32_t>(merged.frames().size());
  }
  drop_unused_nodes(stacks);
}

void name_interpreted_frames(const CallStacks& stacks, SourceFrames& names) {
  std::unordered_set<uint64_t> seen;
  for (const CallNode& node : stacks.nodes) {
    if (!is_one(node) || !seen.insert(value_of(node)).second) continue;
    const uint32_t index = tracker::function_of(value_of(node));
    const uint32_t at = tracker::instruction_of(value_of(node));
    SourceFrame frame;
    if (index == tracker::kMoreFunctions) {
      frame.function = names.intern(kMoreName);
    } else if (index < stacks.functions.size()) {
      const InterpretedFunction& function = stacks.functions[index];
      frame.function = names.intern(shown_name(function));
      frame.file = names.intern(function.file);
      frame.language = function.language;
      frame.offset = at;
      frame.line = line_of(function, at);
    } else {
      frame.function = names.intern(kUnknownName);
    }
    if (frame.language == FrameLanguage::kNative) frame.language = stacks.language;
    names.add(node.module, node.return_address, {&frame, 1});
  }
}

}  // namespace heapsnap
