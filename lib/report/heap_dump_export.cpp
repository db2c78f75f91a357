#include "report/heap_dump_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "report/json_writer.h"

namespace heapsnap {

namespace {

std::string quoted(std::string_view text) {
  std::string result;
  append_json_string(result, text);
  return result;
}

// The array, a document a line; one that has too many elements goes on in the next line.
class Documents {
 public:
  Documents(Writer& out, uint64_t most) : out_(out), most_(most) { out_.write("["); }

  void begin(const std::string& id) {
    id_ = id;
    parts_ = 0;
    elements_ = 0;
    out_.write(fmt::format("{}{{\"id\":{}", is_first_ ? "" : ",", id_));
    is_first_ = false;
  }
  void member(std::string_view name, std::string_view json) {
    out_.write(fmt::format(",\"{}\":{}", name, json));
  }
  // Elements of an array, or members of an object, of which `bracket` is the first character.
  void open(std::string_view name, char bracket) {
    name_ = name;
    bracket_ = bracket;
    write_open();
  }
  void element(std::string_view json) {
    if (elements_ == most_) go_on();
    ++elements_;
    if (!is_empty_) out_.write(",");
    is_empty_ = false;
    out_.write(json);
  }
  void close() { out_.write(bracket_ == '[' ? "]" : "}"); }
  void end() { out_.write("}\n"); }
  void finish() { out_.write("]\n"); }

 private:
  void go_on() {
    close();
    end();
    const std::string_view plain = std::string_view(id_).substr(id_.front() == '"' ? 1 : 0);
    const std::string_view text = plain.substr(0, plain.find('"'));
    out_.write(fmt::format(",{{\"id\":\"{}:{}\",\"of\":{}", text, ++parts_, id_));
    elements_ = 0;
    write_open();
  }
  void write_open() {
    is_empty_ = true;
    out_.write(fmt::format(",\"{}\":{}", name_, bracket_));
  }

  Writer& out_;
  uint64_t most_;
  bool is_first_ = true;
  std::string id_;  // as JSON
  std::string name_;
  char bracket_ = '[';
  bool is_empty_ = true;
  uint64_t parts_ = 0;
  uint64_t elements_ = 0;
};

class HeapDump {
 public:
  HeapDump(RubyObjects& objects, Documents& documents) : objects_(objects), documents_(documents) {}

  void write_roots() {
    std::vector<BlockNumber> registers;
    std::vector<BlockNumber> stack;
    std::vector<BlockNumber> globals;
    objects_.each_root([&](const RubyRoot& root) {
      const RootKind kind = root.place->kind;
      if (kind == RootKind::kGlobal) return;
      const bool is_of_call = kind == RootKind::kStack || kind == RootKind::kLocal;
      std::vector<BlockNumber>& all = kind == RootKind::kRegister ? registers
                                      : is_of_call                ? stack
                                                                  : globals;
      all.insert(all.end(), root.references.begin(), root.references.end());
    });
    documents_.begin("\"_ROOTS_\"");
    write_ids("registers", registers);
    write_ids("stack", stack);
    write_ids("globals", globals);
    documents_.open("classes", '{');
    for (const auto& [name, block] : objects_.classes()) {
      documents_.element(quoted(name) + ":" + id(block));
    }
    documents_.close();
    documents_.open("variables", '[');
    objects_.each_root([&](const RubyRoot& root) {
      if (root.place->kind != RootKind::kGlobal) return;
      for (const BlockNumber block : root.references) {
        documents_.element(
            fmt::format("{{\"name\":{},\"ref\":{}}}", quoted(root.place->name), id(block)));
      }
    });
    documents_.close();
    documents_.end();
  }

  void write_objects() {
    objects_.each_object([this](const RubyObjectRow& row) {
      const BlockType& type = *row.type;
      documents_.begin(id(row.block));
      documents_.member("bt", quoted("T_" + type.builtin));
      documents_.member("class", row.of_class == kNoBlock ? "null" : id(row.of_class));
      documents_.member("class_name", quoted(type.name));
      if (!type.part.empty()) documents_.member("type_name", quoted(type.part));
      if (!row.name.empty()) documents_.member("name", quoted(row.name));
      documents_.member("size", std::to_string(row.bytes));
      documents_.open("refs", '[');
      for (const BlockNumber block : row.references) documents_.element(id(block));
      documents_.close();
      documents_.end();
    });
  }

 private:
  std::string id(BlockNumber block) const {
    return std::to_string(objects_.address_of(block).value());
  }
  void write_ids(std::string_view name, std::vector<BlockNumber>& blocks) {
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    documents_.open(name, '[');
    for (const BlockNumber block : blocks) documents_.element(id(block));
    documents_.close();
  }

  RubyObjects& objects_;
  Documents& documents_;
};

}  // namespace

void export_heap_dump(RubyObjects& objects, Writer& out, uint64_t most) {
  Documents documents(out, most);
  HeapDump dump(objects, documents);
  dump.write_roots();
  dump.write_objects();
  documents.finish();
}

}  // namespace heapsnap
