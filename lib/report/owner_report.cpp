#include <fmt/format.h>

#include <algorithm>

#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/reference_report.h"
#include "report/stack_frames.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

// The innermost frame of a stack, for a line.
std::string stack_line(const ReferenceReportInput& input, uint32_t stack) {
  if (!input.metadata.tracker || stack == 0 || stack >= input.recorded.stacks.sites.size()) {
    return "without a known stack";
  }
  StackEnd end{};
  const auto frames = named_frames(input.recorded, *input.metadata.tracker,
                                   input.recorded.stacks.sites[stack].node, end);
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(frames.size(), 3); ++i) {
    text += (i == 0 ? "" : " ← ") + printable(function_label(frames[i]));
  }
  return text.empty() ? "without frames" : text;
}

// "1,204,118 × 48 bytes, held at +0x18"
std::string blocks_label(const ReferenceReportInput& input, const OwnerListing& listing,
                         const OwnerNode& node) {
  std::string text = count_text(node.own.count) + " × ";
  const std::string type = type_label(input, node.type);
  text += type.empty() ? block_sizes_label(node.least_size, node.most_size) : type;
  if (listing.by == OwnerGrouping::kStack) return text + ", " + stack_line(input, node.stack);
  if (node.held_at == OwnerNode::kElement) {
    text += ", in an array";
  } else if (node.held_at != OwnerNode::kNotDirectly) {
    text += fmt::format(", held at +{:#x}", node.held_at);
  }
  return text;
}

std::string node_label(const ReferenceReportInput& input, const OwnerTree& tree,
                       const OwnerListing& listing, const OwnerNode& node) {
  switch (node.kind) {
    case OwnerNode::Kind::kAll: return "all";
    case OwnerNode::Kind::kPlace: return root_label(input.metadata, tree.places[node.place]);
    case OwnerNode::Kind::kSeveral: return "several roots together";
    case OwnerNode::Kind::kBlocks: break;
  }
  return blocks_label(input, listing, node);
}

class OwnerLines {
 public:
  OwnerLines(Writer& out, const ReferenceReportInput& input, const OwnerTree& tree,
             const OwnerListing& listing, const TextStyle& style)
      : out_(out),
        input_(input),
        tree_(tree),
        listing_(listing),
        ink_(style.color),
        width_(std::max(style.width, 60U)) {}

  void print_top() {
    const std::vector<uint32_t>& top = tree_.children[0];
    const size_t shown = shown_of(top.size());
    for (size_t i = 0; i < shown; ++i) {
      out_.write("\n");
      print_node(top[i], 0);
    }
    if (shown == top.size()) return;
    Tally rest;
    for (size_t i = shown; i < top.size(); ++i) rest += tree_.nodes[top[i]].retained;
    out_.write(fmt::format("\n  {} retain {}: --limit 0\n",
                           count_text(top.size() - shown, "more", "more"), size_text(rest.bytes)));
  }

 private:
  size_t shown_of(size_t count) const {
    return listing_.limit == 0 ? count : std::min<size_t>(listing_.limit, count);
  }

  // "  462.0 MiB  90.2 %  " before the label; labels below are further in. No deeper than a few
  // levels: OwnerTree is not, either.
  void print_node(uint32_t index, uint64_t depth) {
    const OwnerNode& node = tree_.nodes[index];
    const std::string front = fmt::format("{:>12} {:>8}  {}", size_text(node.retained.bytes),
                                          percent_text(node.retained.bytes, tree_.in_use.bytes),
                                          std::string(2 * depth, ' '));
    std::string label = node_label(input_, tree_, listing_, node);
    const size_t room = std::max<size_t>(width_, front.size() + 24) - front.size();
    const std::string count = node.kind == OwnerNode::Kind::kBlocks
                                  ? ""
                                  : ", " + count_text(node.retained.count, "block", "blocks");
    label = clipped(label, room - std::min(room - 16, display_width(count))) + count;
    out_.write(front + (depth == 0 ? ink_.bold(label) : label) + "\n");
    if (depth < listing_.depth) print_children(index, depth + 1);
  }

  void print_children(uint32_t index, uint64_t depth) {
    const std::vector<uint32_t>& children = tree_.children[index];
    const double least = listing_.min_share * static_cast<double>(tree_.in_use.bytes);
    const size_t most = shown_of(children.size());
    size_t shown = 0;
    while (shown < most &&
           static_cast<double>(tree_.nodes[children[shown]].retained.bytes) >= least) {
      print_node(children[shown++], depth);
    }
  }

  Writer& out_;
  const ReferenceReportInput& input_;
  const OwnerTree& tree_;
  const OwnerListing& listing_;
  Ink ink_;
  size_t width_;
};

void write_json_node(JsonWriter& json, const ReferenceReportInput& input, const OwnerTree& tree,
                     const OwnerListing& listing, uint32_t index, uint64_t depth) {
  const OwnerNode& node = tree.nodes[index];
  json.begin_object();
  switch (node.kind) {
    case OwnerNode::Kind::kPlace: write_json_root(json, tree.places[node.place]); break;
    case OwnerNode::Kind::kBlocks:
      json.member("count", node.own.count);
      json.member("bytes", node.own.bytes);
      write_json_type(json, input, node.type);
      json.member("least_size", node.least_size);
      json.member("most_size", node.most_size);
      if (node.held_at < OwnerNode::kElement) json.member("held_at", node.held_at);
      if (listing.by == OwnerGrouping::kStack) write_json_stack(json, input, node.stack);
      break;
    case OwnerNode::Kind::kSeveral:
    case OwnerNode::Kind::kAll:
      json.member("root", "");
      json.member("kind", "several");
      break;
  }
  json.member("retained_bytes", node.retained.bytes);
  json.member("retained_blocks", node.retained.count);
  if (depth < listing.depth && !tree.children[index].empty()) {
    json.key("holds");
    json.begin_array();
    const double least = listing.min_share * static_cast<double>(tree.in_use.bytes);
    for (const uint32_t child : tree.children[index]) {
      if (static_cast<double>(tree.nodes[child].retained.bytes) < least) break;
      write_json_node(json, input, tree, listing, child, depth + 1);
    }
    json.end_array();
  }
  json.end_object();
}

const char* name_of(OwnerGrouping by) {
  switch (by) {
    case OwnerGrouping::kRoot: return "root";
    case OwnerGrouping::kType: return "type";
    case OwnerGrouping::kStack: return "stack";
  }
  return "unknown";
}

// The first block below a node: of the sort that has most.
const OwnerNode* largest_blocks(const OwnerTree& tree) {
  const OwnerNode* best = nullptr;
  for (const OwnerNode& node : tree.nodes) {
    if (node.kind != OwnerNode::Kind::kBlocks) continue;
    if (best == nullptr || node.own.bytes > best->own.bytes) best = &node;
  }
  return best;
}

}  // namespace

void print_owners(Writer& out, const ReferenceReportInput& input, const OwnerTree& tree,
                  const OwnerListing& listing, const TextStyle& style) {
  const Ink ink(style.color);
  const size_t width = std::max(style.width, 60U);
  print_reference_head(out, input, ink, width);
  print_lines(out, "  in use    ",
              fmt::format("{} in {}", size_text(tree.in_use.bytes),
                          count_text(tree.in_use.count, "block", "blocks")),
              width);
  if (tree.garbage.count != 0) {
    print_lines(out, "  garbage   ",
                fmt::format("{} in {}: objects that the garbage collector will free",
                            size_text(tree.garbage.bytes),
                            count_text(tree.garbage.count, "block", "blocks")),
                width);
  }
  if (tree.leaked.count != 0) {
    print_lines(out, "  leaked    ",
                fmt::format("{} in {}: no root leads to them", size_text(tree.leaked.bytes),
                            count_text(tree.leaked.count, "block", "blocks")),
                width);
  }
  const char* const what =
      listing.by == OwnerGrouping::kRoot
          ? "Sizes are of what would go with each: what it holds, and nothing else leads to."
          : "Sizes are with what only these blocks lead to.";
  print_lines(out, "            ", what, width);
  OwnerLines(out, input, tree, listing, style).print_top();
  const OwnerNode* const largest = largest_blocks(tree);
  if (largest == nullptr) return;
  if (tree.leaked.bytes > tree.in_use.bytes / 2) {
    print_next(out, "Most of it is leaked. To see what:", "heapsnap leaks " + source_word(input),
               ink, width);
  } else if (listing.by == OwnerGrouping::kRoot) {
    print_next(out, "To see the same by type, whatever holds it:",
               fmt::format("heapsnap owners {} --by type", source_word(input)), ink, width);
  } else {
    print_next(out, "To see the roots that hold it:", "heapsnap owners " + source_word(input), ink,
               width);
  }
}

void print_json_owners(Writer& out, const ReferenceReportInput& input, const OwnerTree& tree,
                       const OwnerListing& listing) {
  JsonWriter json(out);
  json.begin_object();
  write_json_reference_head(json, "owners", input);
  json.member("by", name_of(listing.by));
  json.member("blocks_in_use", tree.in_use.count);
  json.member("bytes_in_use", tree.in_use.bytes);
  json.member("leaked_blocks", tree.leaked.count);
  json.member("leaked_bytes", tree.leaked.bytes);
  json.member("garbage_blocks", tree.garbage.count);
  json.member("garbage_bytes", tree.garbage.bytes);
  json.key("owners");
  json.begin_array();
  for (const uint32_t owner : tree.children[0]) {
    write_json_node(json, input, tree, listing, owner, 0);
  }
  json.end_array();
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
