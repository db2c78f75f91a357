#include "analysis/stack_groups.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace heapsnap {

namespace {

constexpr std::string_view kNoModule = "code of no file";

// Groups are numbered as they are met.
class Groups {
 public:
  size_t number_of(std::string_view name) {
    const auto [entry, is_new] = numbers_.try_emplace(std::string(name), groups_.size());
    if (is_new) groups_.push_back({.name = entry->first});
    return entry->second;
  }
  StackGroup& operator[](size_t number) { return groups_[number]; }
  std::vector<StackGroup> take() && { return std::move(groups_); }

 private:
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<StackGroup> groups_;
};

std::string_view module_name(const TrackerRecord& tracker, int32_t module) {
  if (module < 0) return kNoModule;
  const std::string& path = tracker.modules[static_cast<size_t>(module)].path;
  return path.empty() ? std::string_view("the program") : std::string_view(path);
}

// What a frame is grouped by, and whether it explains anything.
struct Key {
  size_t group = 0;
  bool is_wrapper = false;
};

template <typename KeysOf>
std::vector<StackGroup> group(const StackCensus& census, const RecordedStacks& recorded,
                              Groups& groups, KeysOf keys_of) {
  std::vector<std::vector<Key>> keys(recorded.stacks.nodes.size());
  std::unordered_set<size_t> met;
  for (size_t id = 0; id < census.stacks.size(); ++id) {
    const StackFigures& figures = census.stacks[id];
    const AllocationSite& site = recorded.stacks.sites[id];
    if (figures.blocks_found == 0 && site.allocations == 0) continue;
    met.clear();
    const Key* self = nullptr;
    const Key* innermost = nullptr;
    recorded.stacks.walk(site.node, [&](uint32_t node) {
      if (keys[node].empty()) keys[node] = keys_of(recorded.stacks.nodes[node]);
      for (const Key& key : keys[node]) {
        if (innermost == nullptr) innermost = &key;
        if (self == nullptr && !key.is_wrapper) self = &key;
        if (met.insert(key.group).second) {
          groups[key.group].live_bytes_below += figures.live_bytes;
        }
      }
    });
    if (self == nullptr) self = innermost;
    const size_t number = self == nullptr ? groups.number_of("no call stack") : self->group;
    StackGroup& to = groups[number];
    to.live_bytes += figures.live_bytes;
    to.live_blocks += figures.live_blocks;
    to.allocations += site.allocation_count();
    to.frees += site.free_count();
    to.allocated_bytes += static_cast<double>(site.allocated_bytes);
    to.freed_bytes += static_cast<double>(site.freed_bytes);
    if (self == nullptr) to.live_bytes_below += figures.live_bytes;
  }
  return std::move(groups).take();
}

bool is_wrapper_place(const SymbolBook& symbols, std::span<const SourceFrame> frames) {
  return !frames.empty() && std::all_of(frames.begin(), frames.end(), [&](const auto& frame) {
    return is_allocation_wrapper(symbols.text(frame.function));
  });
}

}  // namespace

bool is_allocation_wrapper(std::string_view function) {
  constexpr std::array<std::string_view, 17> kBegins = {"operator new",
                                                        "std::__new_allocator<",
                                                        "__gnu_cxx::new_allocator<",
                                                        "std::allocator<",
                                                        "std::allocator_traits<",
                                                        "__gnu_cxx::__alloc_traits<",
                                                        "std::_Vector_base<",
                                                        "std::__allocate_guarded",
                                                        "std::__shared_count<",
                                                        "std::_Deque_base<",
                                                        "std::_Rb_tree<",
                                                        "std::__detail::_Hashtable_alloc<",
                                                        "std::_Hashtable<",
                                                        "std::__cxx11::basic_string<",
                                                        "std::__cxx11::_List_base<",
                                                        "std::_Sp_counted_ptr",
                                                        "std::vector<"};
  constexpr std::array<std::string_view, 17> kWhole = {
      "malloc",         "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc",
      "posix_memalign", "valloc", "pvalloc", "xmalloc",      "xcalloc",  "xrealloc",
      "xstrdup",        "strdup", "strndup", "g_malloc",     "g_malloc0"};
  // The name of a template's instance stands behind its return type.
  const std::string_view before_arguments = function.substr(0, function.find('('));
  const size_t name = before_arguments.find(" std::");
  if (name != std::string_view::npos && before_arguments.find('<') > name) {
    function.remove_prefix(name + 1);
  }
  return std::find(kWhole.begin(), kWhole.end(), function) != kWhole.end() ||
         std::any_of(kBegins.begin(), kBegins.end(),
                     [&](std::string_view begin) { return function.starts_with(begin); });
}

std::vector<StackGroup> group_by_function(const StackCensus& census, const RecordedStacks& recorded,
                                          const TrackerRecord& tracker) {
  Groups groups;
  return group(census, recorded, groups, [&](const CallNode& node) {
    std::vector<Key> keys;
    for (const SourceFrame& frame : recorded.symbols.at(node.module, node.return_address)) {
      const std::string& name = recorded.symbols.text(frame.function);
      if (!name.empty()) keys.push_back({groups.number_of(name), is_allocation_wrapper(name)});
    }
    if (keys.empty()) {
      keys.push_back({groups.number_of("functions without a name in " +
                                       std::string(module_name(tracker, node.module))),
                      false});
    }
    return keys;
  });
}

std::vector<StackGroup> group_by_module(const StackCensus& census, const RecordedStacks& recorded,
                                        const TrackerRecord& tracker) {
  Groups groups;
  return group(census, recorded, groups, [&](const CallNode& node) {
    const auto frames = recorded.symbols.at(node.module, node.return_address);
    return std::vector<Key>{{groups.number_of(module_name(tracker, node.module)),
                             is_wrapper_place(recorded.symbols, frames)}};
  });
}

double measure_of(const StackGroup& group, StackOrder order) {
  switch (order) {
    case StackOrder::kLiveBytes: return group.live_bytes;
    case StackOrder::kLiveBlocks: return group.live_blocks;
    case StackOrder::kRate: return group.allocations;
    case StackOrder::kChurn: break;
  }
  return group.allocated_bytes + group.freed_bytes;
}

void rank_groups(std::vector<StackGroup>& groups, StackOrder order, size_t limit) {
  const auto measure = [order](const StackGroup& one) {
    return std::pair(measure_of(one, order), one.live_bytes_below);
  };
  std::stable_sort(groups.begin(), groups.end(), [&](const StackGroup& a, const StackGroup& b) {
    return measure(a) > measure(b);
  });
  if (limit != 0 && groups.size() > limit) groups.resize(limit);
}

}  // namespace heapsnap
