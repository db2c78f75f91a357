#include "analysis/stack_groups.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "tracking/function_name.h"

namespace heapsnap {

namespace {

constexpr std::string_view kNoModule = "code of no file";
constexpr std::string_view kNoStack = "no call stack";

// Groups are numbered as they are met.
class Groups {
 public:
  // Of what a frame belongs to; `passed` is null where that is no function.
  size_t number_of(std::string_view name, const PassedFrames* passed) {
    const auto [entry, is_new] = numbers_.try_emplace(std::string(name), groups_.size());
    if (is_new) {
      groups_.push_back({.name = entry->first, .is_function = passed != nullptr});
      roles_.push_back(passed == nullptr ? FrameRole::kOwn : passed->role_of(name));
    }
    return entry->second;
  }
  StackGroup& operator[](size_t number) { return groups_[number]; }
  size_t size() const { return groups_.size(); }
  FrameRole role(size_t number) const { return roles_[number]; }
  void pass_over(size_t number) { roles_[number] = FrameRole::kWayToMalloc; }
  std::vector<StackGroup> take() && { return std::move(groups_); }

 private:
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<StackGroup> groups_;
  std::vector<FrameRole> roles_;
};

// A frame's group, and its role there.
struct Key {
  size_t group = 0;
  std::optional<FrameRole> role{};  // nothing: that of the group
};

std::string_view module_name(const TrackerRecord& tracker, int32_t module) {
  if (module < 0) return kNoModule;
  const std::string& path = tracker.modules[static_cast<size_t>(module)].path;
  return path.empty() ? std::string_view("the program") : std::string_view(path);
}

// What one stack is made of, innermost first.
struct Frames {
  std::vector<size_t> groups;
  std::vector<FrameRole> roles;
};

// Every stack that did something, frame by frame.
template <typename KeysOf>
class StackVisits {
 public:
  StackVisits(const StackCensus& census, const RecordedStacks& recorded, const Groups& groups,
              KeysOf keys_of)
      : census_(census),
        recorded_(recorded),
        groups_(groups),
        keys_of_(keys_of),
        keys_(recorded.stacks.nodes.size()) {}

  // Calls visit(figures, site, frames).
  template <typename Visit>
  void each(Visit visit) {
    for (size_t id = 0; id < census_.stacks.size(); ++id) {
      const AllocationSite& site = recorded_.stacks.sites[id];
      if (census_.stacks[id].blocks_found == 0 && site.allocations == 0) continue;
      frames_.groups.clear();
      frames_.roles.clear();
      recorded_.stacks.walk(site.node, [&](uint32_t node) {
        if (keys_[node].empty()) keys_[node] = keys_of_(recorded_.stacks.nodes[node]);
        for (const Key& key : keys_[node]) {
          frames_.groups.push_back(key.group);
          frames_.roles.push_back(key.role.value_or(groups_.role(key.group)));
        }
      });
      visit(census_.stacks[id], site, frames_);
    }
  }

 private:
  const StackCensus& census_;
  const RecordedStacks& recorded_;
  const Groups& groups_;
  KeysOf keys_of_;
  std::vector<std::vector<Key>> keys_;  // by node
  Frames frames_;
};

template <typename Visits>
void add_up(Visits& visits, Groups& groups) {
  std::unordered_set<size_t> met;
  visits.each([&](const StackFigures& figures, const AllocationSite& site, const Frames& frames) {
    const bool is_empty = frames.groups.empty();
    const size_t number =
        is_empty ? groups.number_of(kNoStack, nullptr) : frames.groups[charged_frame(frames.roles)];
    StackGroup& to = groups[number];
    to.live_bytes += figures.live_bytes;
    to.live_blocks += figures.live_blocks;
    to.allocations += site.allocation_count();
    to.frees += site.free_count();
    to.allocated_bytes += static_cast<double>(site.allocated_bytes);
    to.freed_bytes += static_cast<double>(site.freed_bytes);
    if (is_empty) to.live_bytes_below += figures.live_bytes;
    met.clear();
    for (const size_t group : frames.groups) {
      if (met.insert(group).second) groups[group].live_bytes_below += figures.live_bytes;
    }
  });
}

// Finds functions that look like ways to malloc.
class CommonAllocators {
 public:
  explicit CommonAllocators(size_t groups) : functions_(groups) {}

  void look_at(const AllocationSite& site, const Frames& frames) {
    std::optional<size_t> inner;
    for (size_t i = 0; i < frames.groups.size(); ++i) {
      const size_t group = frames.groups[i];
      if (!is_own(frames.roles[i]) || group == inner) continue;
      if (inner) {
        functions_[*inner].callers.insert(group);
        functions_[group].called.insert(*inner);
        functions_[group].indirect += site.allocation_count();
      } else if (site.allocations != 0) {
        functions_[group].direct += site.allocation_count();
        functions_[group].sizes.insert(static_cast<uint64_t>(
            static_cast<double>(site.allocated_bytes) / site.allocation_count()));
      }
      inner = group;
    }
  }

  // For how many functions a function allocates, if it calls nothing else that allocates (one
  // without a name: seldom) and its blocks are of many sizes; else 0.
  size_t callers_of_common(size_t group, bool has_name) const {
    const Function& function = functions_[group];
    // Ruby's also starts the garbage collector now and then, which allocates, too.
    const bool is_innermost =
        has_name ? function.called.empty() : function.direct >= kMostlyDirect * function.indirect;
    if (!is_innermost || function.sizes.size() < kMany) return 0;
    // A function that does nothing but call this one may stand for its own callers: xmalloc that
    // calls do_xmalloc.
    std::unordered_set<size_t> beyond;
    for (const size_t caller : function.callers) {
      const Function& outer = functions_[caller];
      if (outer.called.size() == 1 && outer.sizes.empty()) {
        beyond.insert(outer.callers.begin(), outer.callers.end());
      } else {
        beyond.insert(caller);
      }
    }
    const size_t callers = std::max(function.callers.size(), beyond.size());
    return callers < kMany ? 0 : callers;
  }

 private:
  static constexpr size_t kMany = 8;
  static constexpr double kMostlyDirect = 9;

  // Of those that are not passed over.
  struct Function {
    std::unordered_set<size_t> callers;
    std::unordered_set<size_t> called;
    double direct = 0;                   // allocations that are charged to it
    double indirect = 0;                 // others below it
    std::unordered_set<uint64_t> sizes;  // on average, of each stack that is charged to it
  };
  std::vector<Function> functions_;  // by group
};

}  // namespace

FunctionGroups group_by_function(const StackCensus& census, const RecordedStacks& recorded,
                                 const TrackerRecord& tracker, const PassedFrames& passed) {
  Groups groups;
  StackVisits visits(census, recorded, groups, [&](const CallNode& node) {
    std::vector<Key> keys;
    for (const SourceFrame& frame : recorded.symbols.at(node.module, node.return_address)) {
      const std::string& name = recorded.symbols.text(frame.function);
      if (name.empty()) continue;
      keys.push_back({groups.number_of(name, &passed)});
      if (frame.language != FrameLanguage::kNative) {
        keys.back().role = passed.role_of(name, frame.language);
      }
    }
    if (keys.empty()) {
      const std::string module(module_name(tracker, node.module));
      keys.push_back({groups.number_of("functions without a name in " + module, nullptr)});
    }
    return keys;
  });
  visits.each([](const StackFigures&, const AllocationSite&, const Frames&) {});  // numbers all
  FunctionGroups result;
  std::vector<std::pair<size_t, size_t>> named;  // group, callers
  // A function that calls a way to malloc may be one itself: xstrdup calls xmalloc.
  constexpr int kMostRounds = 3;
  for (int round = 0; round <= kMostRounds; ++round) {
    CommonAllocators allocators(groups.size());
    visits.each([&](const StackFigures&, const AllocationSite& site, const Frames& frames) {
      allocators.look_at(site, frames);
    });
    const size_t passed_before = result.passed.size();
    named.clear();
    for (size_t group = 0; group < groups.size(); ++group) {
      if (!groups[group].is_function) continue;
      const bool has_name = !is_name_of_start(groups[group].name);
      const size_t callers = allocators.callers_of_common(group, has_name);
      if (callers == 0) continue;
      if (has_name) {
        named.emplace_back(group, callers);
      } else if (round < kMostRounds && !passed.is_kept(groups[group].name)) {
        groups.pass_over(group);
        result.passed.push_back({groups[group].name, callers});
      }
    }
    if (result.passed.size() == passed_before) break;
  }
  add_up(visits, groups);
  for (const auto& [group, callers] : named) {
    if (groups[group].live_bytes <= census.live_bytes / 2) continue;
    result.suspect = CommonAllocator{groups[group].name, callers};
  }
  result.groups = std::move(groups).take();
  return result;
}

void pass_over_unnamed(const StackCensus& census, const RecordedStacks& recorded,
                       const TrackerRecord& tracker, PassedFrames& passed) {
  for (const CommonAllocator& one : group_by_function(census, recorded, tracker, passed).passed) {
    passed.add(plain_name(one.name));
  }
}

std::vector<StackGroup> group_by_module(const StackCensus& census, const RecordedStacks& recorded,
                                        const TrackerRecord& tracker, const PassedFrames& passed) {
  Groups groups;
  StackVisits visits(census, recorded, groups, [&](const CallNode& node) {
    // Several roles where functions were inlined.
    std::vector<Key> keys;
    const std::string_view module = module_name(tracker, node.module);
    for (const SourceFrame& frame : recorded.symbols.at(node.module, node.return_address)) {
      // What an interpreter runs is in a file of its source.
      const std::string& file = recorded.symbols.text(frame.file);
      const bool is_file = frame.language != FrameLanguage::kNative && !file.empty();
      keys.push_back({groups.number_of(is_file ? file : module, nullptr),
                      passed.role_of(recorded.symbols.text(frame.function), frame.language)});
    }
    if (keys.empty()) keys.push_back({groups.number_of(module, nullptr)});
    return keys;
  });
  add_up(visits, groups);
  return std::move(groups).take();
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
