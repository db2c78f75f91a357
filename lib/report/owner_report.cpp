#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "report/garbage_text.h"
#include "report/number_text.h"
#include "report/owner_labels.h"
#include "report/reference_labels.h"
#include "report/reference_report.h"
#include "report/stack_labels.h"
#include "report/terminal_text.h"
#include "report/tracked_start.h"

namespace heapsnap {

namespace {

// "1,204,118 × 48 bytes, held at +0x18"; `told`: what else is said of the blocks.
std::string blocks_label(const ReferenceReportInput& input, const OwnerNode& node,
                         const OwnerNode& holder, size_t width, const std::string& told = {}) {
  const std::string front = count_text(node.own.count) + " × ";
  const std::string what = kind_of_blocks(input, node);
  const std::string where = told + where_held(input, node, holder);
  constexpr size_t kLeastName = 12;
  const size_t others = display_width(front) + display_width(where);
  if (others + kLeastName > width) return cut_name(front + what + where, width);
  return front + cut_name(what, width - others) + where;
}

// In `width` columns; each of `stacks` is known. No two of a screen's look alike: of very many,
// those near each other are compared.
std::vector<std::string> names_of_stacks(const ReferenceReportInput& input,
                                         std::span<const uint32_t> stacks, size_t width) {
  constexpr size_t kCompared = 256;
  std::vector<std::string> names;
  for (; !stacks.empty(); stacks = stacks.subspan(std::min(kCompared, stacks.size()))) {
    const auto some = stacks.first(std::min(kCompared, stacks.size()));
    for (std::string& name :
         stack_labels(input_of_stacks(input, {some.begin(), some.end()}), width)) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

OwnerLabels labels_of(const ReferenceReportInput& input, const OwnerTree& tree) {
  return {input.metadata, tree.places, tree.threads, tree.groups};
}

// Of rows that are not printed.
struct LeftOut {
  uint64_t rows = 0;
  bool is_deeper = false;  // below what is printed there are more
};

class OwnerLines {
 public:
  OwnerLines(Writer& out, const ReferenceReportInput& input, const OwnerTree& tree,
             const OwnerListing& listing, const TextStyle& style)
      : out_(out),
        input_(input),
        tree_(tree),
        listing_(listing),
        labels_(labels_of(input, tree)),
        ink_(style.color),
        width_(std::max(style.width, 60U)) {}

  void print_all() {
    print_top();
    print_left_out();
  }

 private:
  void print_top() {
    const std::vector<uint32_t>& top = tree_.children[0];
    const size_t shown = shown_of(top.size());
    print_rows(std::span(top).first(shown), 0, listing_.depth);
    if (shown == top.size()) return;
    Tally rest;
    for (size_t i = shown; i < top.size(); ++i) rest += tree_.nodes[top[i]].retained;
    out_.write(fmt::format("\n  {} with {}: --limit 0\n",
                           count_text(top.size() - shown, "more owner", "more owners"),
                           size_text(rest.bytes)));
  }

  // One line for all rows that are left out below those that are shown.
  void print_left_out() {
    if (left_out_.rows == 0 && !left_out_.is_deeper) return;
    out_.write("\n");
    if (left_out_.rows != 0) {
      print_lines(out_, "  ",
                  fmt::format("{}, counted in the sizes above: --limit 0 --min-share 0",
                              count_text(left_out_.rows, "smaller row", "smaller rows")),
                  width_);
    }
    if (left_out_.is_deeper) {
      print_lines(out_, "  ",
                  fmt::format("Some of the last rows hold more, counted in their sizes: --depth {}",
                              count_text(listing_.depth + 1)),
                  width_);
    }
  }

  // A row without the blocks that it counts, where it is a root.
  std::string root_label_of(const OwnerNode& node, size_t width) const {
    return node.kind == OwnerNode::Kind::kSeveral ? labels_.of_several(node.place, width)
                                                  : labels_.of_place(node.place, width);
  }

  static size_t front_width(uint64_t depth) { return kColumns + 2 * depth; }
  size_t room_of(uint64_t depth) const {
    constexpr size_t kLeast = 24;
    return std::max<size_t>(width_, front_width(depth) + kLeast) - front_width(depth);
  }

  // What follows a root's name, and the room for that.
  static std::string blocks_of(const OwnerNode& node) {
    return ", " + count_text(node.retained.count, "block", "blocks");
  }
  size_t room_of_root(uint64_t depth, const std::string& blocks) const {
    constexpr size_t kLeastName = 16;
    const size_t room = room_of(depth);
    return room - std::min(room - kLeastName, display_width(blocks));
  }

  // Rows of one level, in `width` columns each; "" for roots.
  std::vector<std::string> block_labels(std::span<const uint32_t> rows, size_t width) const {
    if (listing_.by == OwnerGrouping::kStack) return stack_rows(rows, width);
    std::vector<std::string> kinds;
    std::map<std::string, size_t> times;
    for (const uint32_t row : rows) {
      const OwnerNode& node = tree_.nodes[row];
      const bool are_blocks = node.kind == OwnerNode::Kind::kBlocks;
      kinds.push_back(are_blocks ? kind_of_blocks(input_, node) + held_of(node) : "");
      ++times[kinds.back()];
    }
    std::vector<std::string> labels;
    for (size_t i = 0; i < rows.size(); ++i) {
      const OwnerNode& node = tree_.nodes[rows[i]];
      const bool is_told = times[kinds[i]] > 1 && node.type == 0 && !node.has_references;
      labels.push_back(kinds[i].empty()
                           ? ""
                           : blocks_label(input_, node, tree_.nodes[node.parent], width,
                                          is_told ? " without references" : ""));
    }
    return labels;
  }
  std::string held_of(const OwnerNode& node) const {
    return where_held(input_, node, tree_.nodes[node.parent]);
  }

  // "1,204 × Session, ", or "1,204 × " where that leaves too little room for what allocated them.
  std::string before_stack(const OwnerNode& node, size_t width) const {
    constexpr size_t kShareOfType = 4;
    constexpr size_t kLeastName = 20;
    const std::string count = count_text(node.own.count) + " × ";
    const std::string kind = kind_of_blocks(input_, node);
    const std::string whole =
        count + (node.type == 0 ? kind : cut_name(kind, width / kShareOfType)) + ", ";
    return display_width(whole) + kLeastName <= width ? whole : count;
  }

  // "1,204 × Session, make_session(int) server.cpp:52": by what allocated them.
  std::vector<std::string> stack_rows(std::span<const uint32_t> rows, size_t width) const {
    std::vector<std::string> labels;
    std::vector<uint32_t> stacks;
    size_t widest = 0;
    for (const uint32_t row : rows) {
      const OwnerNode& node = tree_.nodes[row];
      labels.push_back(before_stack(node, width));
      widest = std::max(widest, display_width(labels.back()));
      if (has_stack(input_, node.stack)) stacks.push_back(node.stack);
    }
    const auto names = names_of_stacks(input_, stacks, width - std::min(widest, width));
    auto name = names.begin();
    for (size_t i = 0; i < rows.size(); ++i) {
      labels[i] += has_stack(input_, tree_.nodes[rows[i]].stack) ? *name++ : "no known stack";
    }
    return labels;
  }

  size_t shown_of(size_t count) const {
    return listing_.limit == 0 ? count : std::min<size_t>(listing_.limit, count);
  }

  // `left`: of the levels to print below them.
  void print_rows(std::span<const uint32_t> rows, uint64_t depth, uint64_t left) {
    const std::vector<std::string> labels = block_labels(rows, room_of(depth));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (depth == 0) out_.write("\n");
      print_node(rows[i], labels[i], depth, left);
    }
  }

  // "  462.0 MiB  90.2 %  " before the label; labels below are further in. No deeper than a few
  // levels: OwnerTree is not, either.
  void print_node(uint32_t index, std::string label, uint64_t depth, uint64_t left) {
    const OwnerNode& node = tree_.nodes[index];
    if (node.kind != OwnerNode::Kind::kBlocks) {
      const std::string count = blocks_of(node);
      label = root_label_of(node, room_of_root(depth, count)) + count;
    }
    out_.write(fmt::format("{:>12} {:>8}  {}", size_text(node.retained.bytes),
                           percent_text(node.retained.bytes, tree_.in_use.bytes),
                           std::string(2 * depth, ' ')) +
               (depth == 0 ? ink_.bold(label) : label) + "\n");
    if (depth == 0 && listing_.depth != 0) print_names(node);
    if (listing_.depth != 0 && passes_on(index, depth)) {
      print_children(index, depth + 1, left);
    } else if (left != 0) {
      print_children(index, depth + 1, left - 1);
    } else if (!tree_.children[index].empty()) {
      left_out_.is_deeper = true;
    }
  }

  // Of several roots, where these have much and the row has no room for all names.
  void print_names(const OwnerNode& node) {
    constexpr double kMuch = 0.01;
    const double least = kMuch * static_cast<double>(tree_.in_use.bytes);
    if (node.kind != OwnerNode::Kind::kSeveral ||
        static_cast<double>(node.retained.bytes) < least) {
      return;
    }
    const std::string names =
        labels_.names_of_several(node.place, room_of_root(0, blocks_of(node)));
    if (names.empty()) return;
    print_lines(out_, std::string(front_width(1), ' '), "of " + names, width_);
  }

  // Whether an object of a language runtime says little, as nearly all is held by what it leads to.
  bool passes_on(uint32_t index, uint64_t depth) const {
    constexpr uint64_t kDeepest = 12;
    constexpr double kNearlyAll = 0.95;
    const OwnerNode& node = tree_.nodes[index];
    const std::vector<BlockType>& types = input_.references.types;
    if (depth >= kDeepest || node.kind != OwnerNode::Kind::kBlocks || node.type >= types.size() ||
        types[node.type].source != TypeSource::kRuntime || tree_.children[index].empty()) {
      return false;
    }
    const OwnerNode& first = tree_.nodes[tree_.children[index].front()];
    return static_cast<double>(first.retained.bytes) >=
           kNearlyAll * static_cast<double>(node.retained.bytes);
  }

  void print_children(uint32_t index, uint64_t depth, uint64_t left) {
    const std::vector<uint32_t>& children = tree_.children[index];
    const double least = listing_.min_share * static_cast<double>(tree_.in_use.bytes);
    const size_t most = shown_of(children.size());
    size_t shown = 0;
    while (shown < most &&
           static_cast<double>(tree_.nodes[children[shown]].retained.bytes) >= least) {
      ++shown;
    }
    print_rows(std::span(children).first(shown), depth, left);
    const bool is_same_again =
        children.size() == 1 && tree_.nodes[children[0]].retained == tree_.nodes[index].retained;
    if (!is_same_again) left_out_.rows += children.size() - shown;
  }

  static constexpr size_t kColumns = 23;  // before the label, at the top

  Writer& out_;
  const ReferenceReportInput& input_;
  const OwnerTree& tree_;
  const OwnerListing& listing_;
  OwnerLabels labels_;
  Ink ink_;
  size_t width_;
  LeftOut left_out_;
};

void write_json_node(JsonWriter& json, const ReferenceReportInput& input, const OwnerTree& tree,
                     const OwnerListing& listing, uint32_t index, uint64_t depth) {
  const OwnerNode& node = tree.nodes[index];
  json.begin_object();
  switch (node.kind) {
    case OwnerNode::Kind::kPlace: labels_of(input, tree).write_json_place(json, node.place); break;
    case OwnerNode::Kind::kBlocks:
      json.member("count", node.own.count);
      json.member("bytes", node.own.bytes);
      write_json_type(json, input, node.type);
      json.member("least_size", node.least_size);
      json.member("most_size", node.most_size);
      json.member("addr", node.example_at);
      if (node.held_at < OwnerNode::kElement) json.member("held_at", node.held_at);
      if (listing.by == OwnerGrouping::kStack) write_json_stack(json, input, node.stack);
      break;
    case OwnerNode::Kind::kSeveral:
      labels_of(input, tree).write_json_several(json, node.place);
      break;
    case OwnerNode::Kind::kAll: break;
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

bool has_objects(const RuntimeModel& runtimes) {
  return !runtimes.classes.empty() || !runtimes.contexts.empty();
}

std::string label_of_owner(const ReferenceReportInput& input, const OwnerTree& tree, uint32_t owner,
                           size_t width) {
  const OwnerNode& node = tree.nodes[owner];
  return node.kind == OwnerNode::Kind::kPlace
             ? labels_of(input, tree).of_place(node.place, width)
             : blocks_label(input, node, tree.nodes[node.parent], width);
}

// How to see what leads to a block of each of the largest owners.
void print_examples(Writer& out, const ReferenceReportInput& input, const OwnerTree& tree,
                    size_t width) {
  for (size_t i = 0; i < tree.examples.size(); ++i) {
    const auto [owner, blocks] = tree.examples[i];
    std::string why = "To see each step that leads to a block of the largest owner:";
    if (i != 0) {
      constexpr size_t kRoomBesideName = 12;
      why = "The same of " + label_of_owner(input, tree, owner, width - kRoomBesideName - 2) + ":";
    } else if (tree.nodes[owner].kind == OwnerNode::Kind::kSeveral) {
      why = "To see which roots lead to a block of the largest row, the nearest first:";
    } else if (owner != tree.children[0].front()) {
      why = "To see each step that leads to a block of the largest single owner:";
    }
    print_step(out, why,
               fmt::format("heapsnap why {} {}", address_text(tree.nodes[blocks].example_at),
                           source_word(input)),
               width);
  }
}

// Blocks without a known stack may be anything.
void print_example_by_stack(Writer& out, const ReferenceReportInput& input, const OwnerTree& tree,
                            size_t width) {
  const std::vector<uint32_t>& top = tree.children[0];
  const auto known = std::find_if(top.begin(), top.end(), [&](uint32_t row) {
    return has_stack(input, tree.nodes[row].stack);
  });
  if (known == top.end()) return;
  print_step(out, "To see each step that leads to a block of the first row with a call stack:",
             fmt::format("heapsnap why {} {}", address_text(tree.nodes[*known].example_at),
                         source_word(input)),
             width);
}

// What one of the blocks of the largest owners is held by; what the blocks are; what grows.
void print_next_steps(Writer& out, const ReferenceReportInput& input, const OwnerTree& tree,
                      OwnerGrouping by, const Ink& ink, size_t width) {
  const std::string source = source_word(input);
  if (tree.leaked.bytes > tree.in_use.bytes / 2) {
    print_next(out, "Most of it is leaked. To see what:", "heapsnap leaks " + source, ink, width);
    return;
  }
  print_next(out, "To see all blocks added up by type:", "heapsnap types " + source, ink, width);
  constexpr uint64_t kWorthSaying = 100;  // one part in a hundred
  if (tree.leaked.count != 0 && tree.leaked.bytes >= tree.in_use.bytes / kWorthSaying) {
    print_step(out, "To list what is leaked:", "heapsnap leaks " + source, width);
  }
  if (has_objects(input.metadata.runtimes)) {
    const bool are_contexts = input.metadata.runtimes.classes.empty();
    print_step(out,
               are_contexts ? "To see PostgreSQL's memory contexts, by name:"
                            : "To see the objects of the language runtime, by class:",
               "heapsnap objects " + source, width);
  }
  if (by == OwnerGrouping::kStack) {
    print_example_by_stack(out, input, tree, width);
  } else {
    print_examples(out, input, tree, width);
  }
  if (input.may_run) {
    print_growth_step(out, input.metadata, input.snapshot_path, input.core_path, width);
    return;
  }
  const Process& process = input.metadata.process;
  if (was_recorded(input.metadata)) {
    if (by == OwnerGrouping::kStack) return;
    print_step(out, "To see who allocated what they hold:", "heapsnap owners --by stack " + source,
               width);
    return;
  }
  print_step(out,
             not_running_text(process) + ". To record who allocates what it holds, " +
                 tracked_start_reason(process) + ":",
             tracked_start_command(process), width);
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
                fmt::format("{} in {}: {}", size_text(tree.garbage.bytes),
                            count_text(tree.garbage.count, "block", "blocks"),
                            garbage_text(input.metadata.runtimes, tree.garbage, tree.in_use)),
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
          ? "Each size below is what would be freed if that owner let go, once calls that use it "
            "have ended: everything that no other owner leads to."
          : "Each size below includes everything that is reachable only through these blocks.";
  out.write("\n");
  print_lines(out, "  ", what, width);
  OwnerLines(out, input, tree, listing, style).print_all();
  print_next_steps(out, input, tree, listing.by, ink, width);
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
