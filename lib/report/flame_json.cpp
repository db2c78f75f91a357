#include "report/flame_json.h"

#include <algorithm>

#include "report/json_writer.h"

namespace heapsnap {

namespace {

struct Weight {
  uint64_t bytes = 0;
  uint64_t blocks = 0;
};

// The nodes of both profiles, with what each has of its own in the one and in the other.
struct JoinedTree {
  StackProfile profile;
  std::vector<Weight> now;
  std::vector<Weight> before;
};

std::vector<Weight> own_weights(const StackProfile& profile, const std::vector<uint32_t>& node_of,
                                size_t nodes) {
  std::vector<Weight> weights(nodes);
  for (const StackProfile::Sample& sample : profile.samples()) {
    Weight& weight = weights[node_of.empty() ? sample.node : node_of[sample.node]];
    weight.bytes += sample.bytes;
    weight.blocks += sample.blocks;
  }
  return weights;
}

JoinedTree join(const FlameInput& input) {
  JoinedTree tree{input.profile, {}, {}};
  std::vector<uint32_t> node_of;
  if (input.before != nullptr) {
    const auto& nodes = input.before->nodes();
    node_of.resize(nodes.size());
    for (size_t i = 1; i < nodes.size(); ++i) {
      node_of[i] =
          tree.profile.child(node_of[nodes[i].parent], input.before->frames()[nodes[i].frame]);
    }
    tree.before = own_weights(*input.before, node_of, tree.profile.nodes().size());
  }
  tree.now = own_weights(input.profile, {}, tree.profile.nodes().size());
  return tree;
}

// Of each node the one that stands for it: itself, or the nearest one above that is large enough.
// What is left out adds its weight there.
std::vector<uint32_t> fold_small(JoinedTree& tree, size_t most) {
  const auto& nodes = tree.profile.nodes();
  std::vector<uint64_t> with_all_below(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    with_all_below[i] +=
        std::max(tree.now[i].bytes, tree.before.empty() ? 0 : tree.before[i].bytes);
    if (i > 0) with_all_below[nodes[i].parent] += with_all_below[i];
  }
  uint64_t least = 0;
  if (nodes.size() > most) {
    std::vector<uint64_t> sorted = with_all_below;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(most),
                     sorted.end(), std::greater<>());
    least = sorted[most] + 1;
  }
  std::vector<uint32_t> stands_for(nodes.size());
  for (uint32_t i = 1; i < nodes.size(); ++i) {
    if (with_all_below[i] >= least) {
      stands_for[i] = i;
      continue;
    }
    stands_for[i] = stands_for[nodes[i].parent];
    for (std::vector<Weight>* const weights : {&tree.now, &tree.before}) {
      if (weights->empty()) continue;
      (*weights)[stands_for[i]].bytes += (*weights)[i].bytes;
      (*weights)[stands_for[i]].blocks += (*weights)[i].blocks;
    }
  }
  return stands_for;
}

// Numbers without gaps for those that stand for themselves.
std::vector<uint32_t> numbered(const std::vector<uint32_t>& stands_for) {
  std::vector<uint32_t> numbers(stands_for.size());
  uint32_t next = 0;
  for (uint32_t i = 0; i < stands_for.size(); ++i) {
    numbers[i] = stands_for[i] == i ? next++ : numbers[stands_for[i]];
  }
  return numbers;
}

void write_frames(JsonWriter& json, const StackProfile& profile,
                  const std::vector<uint32_t>& wanted) {
  json.key("frames");
  json.begin_array();
  for (const uint32_t number : wanted) {
    const ProfileFrame& frame = profile.frames()[number];
    json.begin_object();
    json.member("name", frame.name);
    if (!frame.file.empty()) json.member("file", frame.file);
    if (frame.line != 0) json.member("line", frame.line);
    if (!frame.module.empty()) json.member("module", frame.module);
    json.end_object();
  }
  json.end_array();
}

void write_weight(JsonWriter& json, const Weight& weight) {
  json.value(weight.bytes);
  json.value(weight.blocks);
}

}  // namespace

void print_json_flame(Writer& out, const FlameInput& input) {
  JoinedTree tree = join(input);
  const std::vector<uint32_t> stands_for = fold_small(tree, std::max<size_t>(1, input.most_nodes));
  const std::vector<uint32_t> numbers = numbered(stands_for);
  const auto& nodes = tree.profile.nodes();
  std::vector<uint32_t> frame_number(tree.profile.frames().size(), UINT32_MAX);
  std::vector<uint32_t> frames;
  JsonWriter json(out);
  json.begin_object();
  json.member("kind", "flame");
  json.member("version", 1);
  json.member("by", input.profile.kind() == StackProfile::Kind::kOwners ? "owner" : "stack");
  json.member("bytes", input.profile.bytes());
  json.member("blocks", input.profile.blocks());
  json.key("nodes");
  json.begin_array();
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (stands_for[i] != i) continue;
    json.begin_array();
    json.value(numbers[nodes[i].parent]);
    uint32_t frame = 0;
    if (i > 0) {
      uint32_t& number = frame_number[nodes[i].frame];
      if (number == UINT32_MAX) {
        number = static_cast<uint32_t>(frames.size());
        frames.push_back(nodes[i].frame);
      }
      frame = number;
    }
    json.value(frame);
    write_weight(json, tree.now[i]);
    if (!tree.before.empty()) write_weight(json, tree.before[i]);
    json.end_array();
  }
  json.end_array();
  write_frames(json, tree.profile, frames);
  json.key("stacks");
  json.begin_array();
  for (const uint32_t node : input.node_of_stack) json.value(numbers[node]);
  json.end_array();
  json.end_object();
}

}  // namespace heapsnap
