#include "analysis/ruby_objects.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "analysis/owning_roots.h"
#include "base/error.h"

namespace heapsnap {

namespace {

constexpr uint32_t kClassWord = 1;  // of a slot

// Keeps of each slot what its second word leads to.
class ClassWords final : public ReferenceSink {
 public:
  ClassWords(BlockNumber first_slot, LargeArray<BlockNumber>& classes)
      : first_slot_(first_slot), classes_(classes) {}

  void on_references(const ReferenceBatch& batch) override {
    size_t at = 0;
    for (size_t i = 0; i < batch.counts.size(); at += batch.counts[i++]) {
      const uint64_t block = batch.first + uint64_t{i};
      if (batch.counts[i] == 0 || block < first_slot_) continue;
      const uint64_t slot = block - first_slot_;
      if (slot < classes_.size() && batch.offsets[at] == kClassWord) {
        classes_[slot] = batch.targets[at];
      }
    }
  }

 private:
  BlockNumber first_slot_;
  LargeArray<BlockNumber>& classes_;
};

// "Cache::STORE" is a variable of Cache, "Cache.@@seen" and "Cache.@list" are, "STORE" is one of
// Object; "$queue" is none of a class.
std::string_view holder_of(std::string_view variable) {
  if (variable.starts_with('$')) return {};
  const size_t dot = variable.find(".@");
  if (dot != std::string_view::npos) return variable.substr(0, dot);
  const size_t colons = variable.rfind("::");
  return colons == std::string_view::npos ? "Object" : variable.substr(0, colons);
}

bool is_constant(std::string_view variable) {
  return !variable.starts_with('$') && variable.find(".@") == std::string_view::npos;
}

bool owns_blocks(const BlockType& type) {
  return type.builtin != "IMEMO" || std::ranges::count(kOwningImemos, type.part) != 0;
}

// The lower, the longer it lasts; and what has a name before what has none.
unsigned rank_of(const RootPlace& place) {
  switch (place.kind) {
    case RootKind::kGlobal: return 0;
    case RootKind::kLocal: return 1;
    case RootKind::kVariable: return place.name.empty() ? 3 : 2;
    case RootKind::kThreadLocal: return place.name.empty() ? 5 : 4;
    case RootKind::kMapping: return 6;
    case RootKind::kStack: return 7;
    case RootKind::kRegister: return 8;
  }
  return 8;
}

}  // namespace

RubyObjects::RubyObjects(const SnapshotStreams& streams, const ReferenceStreams& references)
    : references_(references) {
  columns_ = read_block_columns(streams, std::nullopt);
  const auto blocks = static_cast<BlockNumber>(columns_.sizes.size());
  graph_ = read_graph(references);
  require_block_count(graph_.blocks(), blocks);
  const BlockNumber slots = slots_of(streams);
  if (slots > blocks) {
    throw Error(ErrorKind::kBadInput, "the slots of language runtimes",
                "there are more of them than blocks");
  }
  first_slot_ = blocks - slots;
  roots_ = checked_roots(references, blocks);
  sort_roots();
  types_ = read_types(references, blocks);
  read_addresses(streams);
  read_classes();
  for (BlockNumber block = first_slot_; block < blocks; ++block) {
    if (is_object(block)) ++objects_;
  }
  name_by_constants();
  name_by_types();
  find_constants();
  search_ = LargeArray<uint32_t>(blocks);
}

void RubyObjects::sort_roots() {
  std::stable_sort(roots_.begin(), roots_.end(), [this](const Root& a, const Root& b) {
    return rank_of(references_.places[a.place]) < rank_of(references_.places[b.place]);
  });
}

void RubyObjects::start_passes(uint8_t most) {
  most_passes_ = most;
  passes_ = LargeArray<uint8_t>(graph_.blocks());
  counted_ = BlockSet(graph_.blocks());
}

void RubyObjects::read_addresses(const SnapshotStreams& streams) {
  addresses_ = LargeArray<uint64_t>(graph_.blocks() - first_slot_);
  each_snapshot_block(streams, [this](const SnapshotBlock& block) {
    if (block.is_slot && block.number - first_slot_ < addresses_.size()) {
      addresses_[block.number - first_slot_] = block.address.value();
    }
  });
}

void RubyObjects::read_classes() {
  class_of_ = LargeArray<BlockNumber>(addresses_.size());
  for (size_t slot = 0; slot < class_of_.size(); ++slot) class_of_[slot] = kNoBlock;
  ClassWords words(first_slot_, class_of_);
  references_.read_references(words);
  for (size_t slot = 0; slot < class_of_.size(); ++slot) {
    // What the interpreter keeps among objects has something else there.
    const auto block = static_cast<BlockNumber>(first_slot_ + slot);
    if (class_of_[slot] != kNoBlock &&
        (!is_object(block) || type_of(block).builtin == "IMEMO" || !is_module(class_of_[slot]))) {
      class_of_[slot] = kNoBlock;
    }
  }
}

bool RubyObjects::is_module(BlockNumber block) const {
  return is_object(block) && is_class_object(type_of(block));
}

void RubyObjects::name_by_constants() {
  std::set<std::string_view> of_types;
  for (const BlockType& type : references_.types) of_types.insert(type.name);
  const auto is_better = [&of_types](const std::string& name, const std::string& known) {
    const bool is_of_type = of_types.contains(name);
    if (is_of_type != of_types.contains(known)) return is_of_type;
    return name.size() != known.size() ? name.size() < known.size() : name < known;
  };
  for (const Root& root : roots_) {
    const RootPlace& place = references_.places[root.place];
    if (place.kind != RootKind::kGlobal || !is_constant(place.name)) continue;
    if (!is_module(root.target)) continue;
    class_at_.emplace(place.name, root.target);
    std::string& name = name_of_[root.target];
    if (name.empty() || is_better(place.name, name)) name = place.name;
  }
}

// Those without a constant: "#<Class:0x00007f0a0f3b1c58>".
void RubyObjects::name_by_types() {
  for (const BlockType& type : references_.types) {
    const size_t at = type.name.find(":0x");
    if (type.builtin.empty() || !type.name.starts_with("#<") || at == std::string::npos) continue;
    uint64_t address = 0;
    const char* const end = type.name.data() + type.name.size();
    const auto parsed = std::from_chars(type.name.data() + at + 3, end, address, 16);
    if (parsed.ec != std::errc() || std::string_view(parsed.ptr, end) != ">") continue;
    const uint64_t* const first = addresses_.data();
    const uint64_t* const last = first + addresses_.size();
    const uint64_t* const slot = std::lower_bound(first, last, address);
    if (slot == last || *slot != address) continue;
    const auto block = static_cast<BlockNumber>(first_slot_ + (slot - first));
    if (!is_module(block) || !name_of_.try_emplace(block, type.name).second) continue;
    class_at_.emplace(type.name, block);
  }
}

void RubyObjects::find_constants() {
  for (const Root& root : roots_) {
    const RootPlace& place = references_.places[root.place];
    if (place.kind != RootKind::kGlobal) continue;
    const auto holder = class_at_.find(std::string(holder_of(place.name)));
    if (holder != class_at_.end()) constants_.emplace_back(holder->second, root.target);
  }
  std::sort(constants_.begin(), constants_.end());
}

void RubyObjects::follow(std::span<const BlockNumber> targets) {
  const auto may_pass = [this](BlockNumber block) {
    return passes_[block] < most_passes_ || type_of(block).source == TypeSource::kRuntime;
  };
  const auto look_at = [&](BlockNumber target) {
    if (is_object(target)) {
      found_.push_back(target);
    } else if (target < first_slot_ && search_[target] != searches_ && may_pass(target) &&
               !columns_.is_mallocs_own(target)) {
      search_[target] = searches_;
      passes_[target] += passes_[target] < kMostPasses ? 1 : 0;
      waiting_.push_back(target);
    }
  };
  for (const BlockNumber target : targets) look_at(target);
  while (!waiting_.empty()) {
    const BlockNumber block = waiting_.back();
    waiting_.pop_back();
    if (is_counting_ && counted_.insert(block)) bytes_ += columns_.sizes[block];
    for (const BlockNumber target : graph_.targets(block)) look_at(target);
  }
}

void RubyObjects::sort_found() {
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
}

RubyObjectRow RubyObjects::row_of(BlockNumber block) {
  found_.clear();
  bytes_ = 0;
  ++searches_;
  is_counting_ = owns_blocks(type_of(block));
  follow(graph_.targets(block));
  is_counting_ = false;
  const auto [first, last] =
      std::equal_range(constants_.begin(), constants_.end(), std::pair(block, BlockNumber{0}),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto each = first; each != last; ++each) follow({&each->second, 1});
  sort_found();
  const BlockNumber of_class = class_of_[block - first_slot_];
  std::erase(found_, of_class);
  RubyObjectRow row;
  row.block = block;
  row.at = address_of(block);
  row.slot_bytes = columns_.sizes[block];
  row.bytes = row.slot_bytes + bytes_;
  row.type = &type_of(block);
  row.of_class = of_class;
  const auto name = name_of_.find(block);
  if (name != name_of_.end()) row.name = name->second;
  row.references = found_;
  return row;
}

bool RubyObjects::next_root(size_t& at, RubyRoot& root) {
  if (at == roots_.size()) return false;
  const uint32_t place = roots_[at].place;
  found_.clear();
  ++searches_;
  for (; at < roots_.size() && roots_[at].place == place; ++at) follow({&roots_[at].target, 1});
  sort_found();
  root = {&references_.places[place], found_};
  return true;
}

}  // namespace heapsnap
