#include "report/heapsnapshot_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <unordered_map>
#include <vector>

#include "analysis/block_facts.h"
#include "analysis/garbage.h"
#include "analysis/owning_roots.h"
#include "analysis/reachability.h"
#include "report/digits.h"
#include "report/json_writer.h"
#include "report/reference_labels.h"

namespace heapsnap {

namespace {

// As V8 writes it: values of nodes and edges are numbers, in the order of these fields.
constexpr const char* kMeta =
    R"({"node_fields":["type","name","id","self_size","edge_count",)"
    R"("trace_node_id","detachedness"],)"
    R"("node_types":[["hidden","array","string","object","code","closure","regexp","number",)"
    R"("native","synthetic","concatenated string","sliced string","symbol","bigint",)"
    R"("object shape"],"string","number","number","number","number","number"],)"
    R"("edge_fields":["type","name_or_index","to_node"],)"
    R"("edge_types":[["context","element","property","internal","hidden","shortcut","weak"],)"
    R"("string_or_number","node"],)"
    R"("trace_function_info_fields":[],"trace_node_fields":[],"sample_fields":[],)"
    R"("location_fields":[]})";
constexpr uint64_t kNodeFields = 7;

enum NodeType : uint8_t { kHidden = 0, kObject = 3, kNative = 8, kSynthetic = 9 };
constexpr uint64_t kElementEdge = 1;

// Below the first node: "(GC roots)", "(leaked)", "(garbage)".
constexpr uint64_t kGcRootsNode = 1;
constexpr uint64_t kFirstPlaceNode = 4;

// The texts that nodes are called by, each once.
class Names {
 public:
  uint64_t number_of(const std::string& text) {
    const auto [entry, is_new] = numbers_.try_emplace(text, all_.size());
    if (is_new) all_.push_back(text);
    return entry->second;
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
  std::unordered_map<std::string, uint64_t> numbers_;
};

// Numbers of a JSON array.
class Numbers {
 public:
  explicit Numbers(Writer& out) : out_(out) {}

  void put(std::initializer_list<uint64_t> row) {
    char* at = out_.reserve(24 * row.size());
    for (const uint64_t number : row) {
      at = put_text(at, is_first_ ? "\n" : ",");
      is_first_ = false;
      at = put_decimal(at, number);
    }
    out_.commit(at);
  }

 private:
  Writer& out_;
  bool is_first_ = true;
};

// What the nodes and edges are made of, all checked.
struct Graph {
  BlockColumns columns;
  LargeArray<TypeNumber> types;
  std::vector<Root> roots;  // by place
  std::vector<BlockNumber> leaked_heads;
  std::vector<BlockNumber> garbage_heads;
  LargeArray<uint32_t> reference_counts;
  uint64_t references = 0;
};

// Those that all of `rest` can be reached from.
std::vector<BlockNumber> heads_of(const ReferenceGraph& graph, const BlockSet& rest) {
  BlockSet others(graph.blocks());
  rest.each_missing([&](BlockNumber block) { others.insert(block); });
  return sources_of_rest(graph, others);
}

Graph read_graph_of(const SnapshotStreams& streams, const ReferenceStreams& references) {
  Graph all;
  all.columns = read_block_columns(streams, std::nullopt);
  const auto blocks = static_cast<BlockNumber>(all.columns.sizes.size());
  all.roots = checked_roots(references, blocks);
  const ReferenceGraph graph = read_graph(references);
  require_block_count(graph.blocks(), blocks);
  BlockSet not_leaked = reachable_blocks(graph, targets_of(all.roots));
  const BlockSet garbage = garbage_of(streams, references, graph, not_leaked);
  all.garbage_heads = heads_of(graph, garbage);
  for (BlockNumber block = 0; block < garbage.blocks(); ++block) {
    if (garbage.contains(block)) not_leaked.insert(block);
  }
  all.leaked_heads = sources_of_rest(graph, not_leaked);
  all.types = read_types(references, blocks);
  all.references = graph.references();
  all.reference_counts = LargeArray<uint32_t>(blocks);
  for (BlockNumber block = 0; block < blocks; ++block) {
    all.reference_counts[block] = static_cast<uint32_t>(graph.targets(block).size());
  }
  return all;
}

// "48 bytes", "1.0 KiB to 2.0 KiB": few enough names, whatever the sizes are.
std::string size_name(uint64_t bytes) {
  constexpr uint64_t kExact = 1024;
  if (bytes < kExact) return block_size_label(bytes);
  const uint64_t least = std::bit_floor(bytes);
  return block_size_label(least) + " to " + block_size_label(2 * least);
}

class GraphFile {
 public:
  GraphFile(const ReferenceReportInput& input, const Graph& graph, Writer& out)
      : input_(input), graph_(graph), out_(out), word_(word_size(input.metadata.process.machine)) {}

  void write() {
    const uint64_t blocks = graph_.columns.sizes.size();
    const uint64_t edges = kFirstPlaceNode - 1 + places() + graph_.leaked_heads.size() +
                           graph_.garbage_heads.size() + graph_.roots.size() + graph_.references;
    out_.write(
        fmt::format("{{\"snapshot\":{{\"meta\":{},\"node_count\":{},\"edge_count\":{},"
                    "\"trace_function_count\":0}},\n\"nodes\":[",
                    kMeta, first_block() + blocks, edges));
    write_nodes();
    out_.write("],\n\"edges\":[");
    write_edges();
    out_.write(
        "],\n\"trace_function_infos\":[],\"trace_tree\":[],\"samples\":[],\"locations\":[],\n"
        "\"strings\":[");
    const char* between = "";
    std::string text;
    for (const std::string& name : names_.all()) {
      text = between;
      append_json_string(text, name);
      out_.write(text);
      between = ",\n";
    }
    out_.write("]}\n");
  }

 private:
  uint64_t places() const { return input_.references.places.size(); }
  uint64_t first_block() const { return kFirstPlaceNode + places(); }

  void put_node(Numbers& nodes, NodeType type, const std::string& name, uint64_t size,
                uint64_t edges) {
    nodes.put({type, names_.number_of(name), 2 * next_node_ + 1, size, edges, 0, 0});
    ++next_node_;
  }

  void write_nodes() {
    Numbers nodes(out_);
    put_node(nodes, kSynthetic, "", 0, kFirstPlaceNode - 1);
    put_node(nodes, kSynthetic, "(GC roots)", 0, places());
    put_node(nodes, kSynthetic, "(leaked)", 0, graph_.leaked_heads.size());
    put_node(nodes, kSynthetic, "(garbage)", 0, graph_.garbage_heads.size());
    auto root = graph_.roots.begin();
    for (uint32_t place = 0; place < places(); ++place) {
      const auto begin = root;
      while (root != graph_.roots.end() && root->place == place) ++root;
      put_node(nodes, kSynthetic, root_label(input_.metadata, input_.references.places[place]), 0,
               static_cast<uint64_t>(root - begin));
    }
    write_blocks(nodes);
  }

  void write_blocks(Numbers& nodes) {
    std::vector<uint64_t> type_names;
    for (TypeNumber type = 0; type < input_.references.types.size(); ++type) {
      type_names.push_back(names_.number_of(type_label(input_, type)));
    }
    const uint64_t own_name = names_.number_of("(malloc's own)");
    std::unordered_map<uint64_t, uint64_t> size_names;
    for (BlockNumber block = 0; block < graph_.columns.sizes.size(); ++block) {
      uint64_t size = graph_.columns.sizes[block];
      const TypeNumber type = graph_.types[block];
      NodeType node_type = kObject;
      uint64_t name = 0;
      if (graph_.columns.is_mallocs_own(block)) {
        node_type = kHidden;
        name = own_name;
        size = 0;
      } else if (type != 0 && type < type_names.size()) {
        name = type_names[type];
      } else {
        node_type = kNative;
        const uint64_t size_class = size < 1024 ? size : std::bit_floor(size);
        const auto [entry, is_new] = size_names.try_emplace(size_class, 0);
        if (is_new) entry->second = names_.number_of(size_name(size));
        name = entry->second;
      }
      nodes.put({node_type, name, 2 * next_node_ + 1, size, graph_.reference_counts[block], 0, 0});
      ++next_node_;
    }
  }

  void write_edges() {
    Numbers edges(out_);
    for (uint64_t i = 0; i + 1 < kFirstPlaceNode; ++i) {
      edges.put({kElementEdge, i, (kGcRootsNode + i) * kNodeFields});
    }
    for (uint64_t place = 0; place < places(); ++place) {
      edges.put({kElementEdge, place, (kFirstPlaceNode + place) * kNodeFields});
    }
    put_heads(edges, graph_.leaked_heads);
    put_heads(edges, graph_.garbage_heads);
    for (const Root& root : graph_.roots) {
      edges.put({kElementEdge, root.offset, node_of(root.target)});
    }
    BlockEdges blocks(edges, first_block(), word_);
    input_.references.read_references(blocks);
  }

  void put_heads(Numbers& edges, const std::vector<BlockNumber>& heads) {
    for (uint64_t i = 0; i < heads.size(); ++i) {
      edges.put({kElementEdge, i, node_of(heads[i])});
    }
  }

  uint64_t node_of(BlockNumber block) const { return (first_block() + block) * kNodeFields; }

  class BlockEdges final : public ReferenceSink {
   public:
    BlockEdges(Numbers& edges, uint64_t first_block, unsigned word)
        : edges_(edges), first_block_(first_block), word_(word) {}
    void on_references(const ReferenceBatch& batch) override {
      for (size_t i = 0; i < batch.targets.size(); ++i) {
        edges_.put({kElementEdge, uint64_t{batch.offsets[i]} * word_,
                    (first_block_ + batch.targets[i]) * kNodeFields});
      }
    }

   private:
    Numbers& edges_;
    uint64_t first_block_;
    unsigned word_;
  };

  const ReferenceReportInput& input_;
  const Graph& graph_;
  Writer& out_;
  unsigned word_;
  Names names_;
  uint64_t next_node_ = 0;
};

}  // namespace

void export_heapsnapshot(const SnapshotStreams& streams, const ReferenceReportInput& input,
                         Writer& out) {
  const Graph graph = read_graph_of(streams, input.references);
  GraphFile(input, graph, out).write();
}

}  // namespace heapsnap
