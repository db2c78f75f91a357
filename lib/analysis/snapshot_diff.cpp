#include "analysis/snapshot_diff.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analysis/bounded_sum.h"
#include "analysis/context_census.h"
#include "analysis/heap_summary.h"
#include "analysis/leak_census.h"
#include "analysis/memory_in_use.h"
#include "analysis/object_census.h"
#include "analysis/program_build.h"
#include "analysis/rss_account.h"
#include "analysis/stack_census.h"
#include "analysis/stack_groups.h"
#include "analysis/type_census.h"

namespace heapsnap {

namespace {

// Levels below a root; of several roots together, the first one is what names them.
constexpr uint8_t kDeepestBlocks = 4;
// What only grows comes first if it grows by this share of what grows most.
constexpr double kLeastStaircase = 0.01;
constexpr const char* kWithoutStack = "blocks without a known stack";
constexpr const char* kSharedLeaks = "held by several leaked blocks";

double bytes_of(const std::optional<Tally>& value) {
  return value ? static_cast<double>(value->bytes) : 0;
}

// Of an estimate.
uint64_t whole(double number) {
  constexpr double kMost = 4e18;
  return number > 0 ? static_cast<uint64_t>(std::min(std::round(number), kMost)) : 0;
}

// Fits and counts the steps. `time_s`: as the values, empty where the order is none of time.
void judge(DiffRow& row, const std::vector<double>& time_s) {
  const auto is_known = [](const auto& value) { return value.has_value(); };
  const auto first = std::find_if(row.values.begin(), row.values.end(), is_known);
  if (first == row.values.end()) return;
  std::vector<TimedValue> by_time;
  std::vector<TimedValue> by_step;
  const std::optional<Tally>* before = nullptr;
  size_t steps = 0;
  bool shrank = false;
  for (size_t i = 0; i < row.values.size(); ++i) {
    const std::optional<Tally>& value = row.values[i];
    if (!value) continue;
    if (before != nullptr) {
      ++steps;
      row.steps_up += value->bytes > (*before)->bytes ? 1 : 0;
      shrank |= value->bytes < (*before)->bytes;
    }
    by_step.push_back({static_cast<double>(by_step.size()), bytes_of(value), 0});
    if (!time_s.empty()) by_time.push_back({time_s[i], bytes_of(value), 0});
    before = &value;
  }
  row.growth = bytes_of(*before) - bytes_of(*first);
  row.more_blocks = static_cast<int64_t>((*before)->count - (*first)->count);
  row.only_grows = steps >= 2 && !shrank && 2 * row.steps_up > steps;
  row.slope = fit_slope(by_time);
  if (const auto fitted = fit_slope(by_step)) row.per_step = fitted->per_second;
}

bool changes(const DiffRow& row) {
  const std::optional<Tally>* before = nullptr;
  for (const std::optional<Tally>& value : row.values) {
    if (!value) continue;
    if (before != nullptr && **before != *value) return true;
    before = &value;
  }
  return false;
}

// What only grows, by its slope; what grew; then what shrank: each with the largest change first.
void rank(const std::vector<DiffRow>& rows, std::vector<uint32_t>& order) {
  double most = 0;
  for (const uint32_t row : order) most = std::max(most, std::abs(rows[row].growth));
  const auto measure = [&](uint32_t index) {
    const DiffRow& row = rows[index];
    const bool is_first = row.only_grows && row.growth >= kLeastStaircase * most;
    const double slope = row.slope ? row.slope->per_second : row.per_step.value_or(0);
    return std::tuple(is_first, is_first ? slope : 0.0, row.growth > 0, std::abs(row.growth));
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto left = measure(a);
    const auto right = measure(b);
    if (left != right) return left > right;
    return rows[a].name < rows[b].name;
  });
}

// The rows of a table that changed, and which are below which.
void collect_rows(const DiffTable& table, const std::vector<double>& time_s, DiffSection& section) {
  std::unordered_map<uint64_t, uint32_t> index_of;
  std::vector<std::pair<uint8_t, uint64_t>> keys;
  for (const auto& [key, row] : table.rows()) keys.emplace_back(row.depth, key);
  std::sort(keys.begin(), keys.end());
  for (const auto& [depth, key] : keys) {
    const DiffTableRow& found = table.rows().at(key);
    DiffRow row;
    row.name = found.name;
    row.sizes = found.sizes;
    row.values = found.values;
    for (size_t i = 0; i < row.values.size(); ++i) {
      if (section.lacks[i] != DiffLack::kNone) row.values[i].reset();
    }
    if (!changes(row)) {
      section.unchanged += depth == 0 ? 1 : 0;
      continue;
    }
    const auto above = index_of.find(found.above);
    if (depth != 0 && above == index_of.end()) continue;  // what holds it stays the same
    judge(row, time_s);
    const auto index = static_cast<uint32_t>(section.rows.size());
    index_of.emplace(key, index);
    section.rows.push_back(std::move(row));
    (depth == 0 ? section.ranked : section.rows[above->second].held).push_back(index);
  }
  rank(section.rows, section.ranked);
  for (DiffRow& row : section.rows) rank(section.rows, row.held);
}

std::string arena_name(const HeapModel& heap, size_t index) {
  const Arena& arena = heap.arenas[index];
  if (!arena.is_main) return "arena " + std::to_string(index);
  return heap.instances.size() < 2
             ? "main_arena"
             : "main_arena of " + unversioned_name(heap.instances[arena.instance].module);
}

}  // namespace

const char* to_string(DiffBy by) {
  switch (by) {
    case DiffBy::kOwner: return "owner";
    case DiffBy::kType: return "type";
    case DiffBy::kStack: return "stack";
    case DiffBy::kLeak: return "leak";
    case DiffBy::kSize: return "size";
    case DiffBy::kArena: return "arena";
    case DiffBy::kAccount: return "rss";
    case DiffBy::kClass: return "class";
    case DiffBy::kContext: return "context";
  }
  return "unknown";
}

NameScope scope_of(const std::vector<Process>& processes) {
  for (const Process& process : processes) {
    const Process& first = processes.front();
    if (is_other_build({first.exe, first.build_id}, {process.exe, process.build_id})) {
      return NameScope::kSeveralBuilds;
    }
  }
  return NameScope::kOneBuild;
}

const DiffSection* SnapshotDiff::section(DiffBy by) const {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [by](const DiffSection& section) { return section.by == by; });
  return found == sections.end() ? nullptr : &*found;
}

const DiffRow& SnapshotDiff::measured(std::optional<DiffBy> by) const {
  if (by) {
    if (const DiffSection* const found = section(*by)) return found->total;
  }
  const bool has_blocks = std::any_of(in_use.values.begin(), in_use.values.end(),
                                      [](const auto& value) { return value && value->count != 0; });
  return has_blocks ? in_use : resident;
}

SnapshotDiffBuilder::SnapshotDiffBuilder(const std::vector<DiffBy>& wanted, NameScope scope,
                                         PassedFrames passed, ThreadNames threads)
    : scope_(scope), threads_(threads), passed_(std::move(passed)) {
  for (const DiffBy by : wanted) sections_.push_back({by, DiffTable(), {}, {}});
}

void SnapshotDiffBuilder::add_owners(Section& section, const DiffInput& input) {
  const ReferenceStreams& references = *input.references;
  const OwnerTree tree = make_owner_tree(input.streams, references);
  const RootNames roots(*input.streams.metadata, scope_, threads_);
  KeyedSums sums;
  struct Place {
    uint64_t key = 0;
    uint8_t depth = 0;
  };
  std::vector<Place> places(tree.nodes.size());
  const auto name_of = [&](uint32_t index) {
    const OwnerNode& node = tree.nodes[index];
    if (node.kind == OwnerNode::Kind::kPlace) return roots.of(tree.places[node.place]);
    if (node.kind == OwnerNode::Kind::kAll) return std::string(kSeveralRoots);
    if (node.kind == OwnerNode::Kind::kSeveral) {
      return roots.of(tree.places[tree.groups[node.place].front()]) + " and others";
    }
    return blocks_name(node, references.types);
  };
  // Above all groups, as what each is led by may be another root in the next snapshot.
  places[0].key = KeyedSums::key_of(kSeveralRoots);
  for (uint32_t i = 1; i < tree.nodes.size(); ++i) {
    const OwnerNode& node = tree.nodes[i];
    const bool is_at_top = node.kind == OwnerNode::Kind::kPlace;
    if (node.retained.count == 0) continue;
    if (node.parent == 0 && !is_at_top) sums.add(places[0].key, node.retained, 0);
    if (!is_at_top && places[node.parent].key == 0) continue;  // too deep
    const auto depth = static_cast<uint8_t>(is_at_top ? 0 : places[node.parent].depth + 1);
    if (depth > kDeepestBlocks) continue;
    const uint64_t above = is_at_top ? 0 : places[node.parent].key;
    const uint64_t key = KeyedSums::key_of(name_of(i), above);
    places[i] = {key, depth};
    sums.add(key, node.retained, i, above, depth, sizes_to_say(node));
  }
  section.table.add(sums, [&](uint32_t index) {
    const OwnerNode& node = tree.nodes[index];
    return node.kind == OwnerNode::Kind::kPlace ? roots.shown(tree.places[node.place])
                                                : name_of(index);
  });
  Tally total = tree.in_use;
  for (const Tally& held_by_none : {tree.leaked, tree.garbage}) {
    total.bytes -= held_by_none.bytes;
    total.count -= held_by_none.count;
  }
  section.totals.emplace_back(total);
  snapshots_.back().leaked = tree.leaked;
  snapshots_.back().garbage = tree.garbage;
}

void SnapshotDiffBuilder::add_types(Section& section, const DiffInput& input) {
  const ReferenceStreams& references = *input.references;
  const TypeCensus census = take_type_census(input.streams, references);
  const RootNames roots(*input.streams.metadata, scope_, threads_);
  const auto types = static_cast<uint32_t>(census.types.size());
  const auto name_of = [&](uint32_t row) {
    return row < types ? references.types[census.types[row].type].name
                       : context_name(census.unknown[row - types].context, references, roots);
  };
  KeyedSums sums;
  for (uint32_t row = 0; row < types + census.unknown.size(); ++row) {
    const TypeRow& found = row < types ? census.types[row] : census.unknown[row - types];
    sums.add(KeyedSums::key_of(name_of(row)), found.own, row);
  }
  section.table.add(sums, name_of);
  section.totals.emplace_back(census.in_use);
}

SnapshotDiffBuilder::Stacks SnapshotDiffBuilder::stacks_of(const DiffInput& input) const {
  const RecordedStacks& recorded = *input.recorded;
  const TrackerRecord& tracker = *input.streams.metadata->tracker;
  StackCensus census = take_stack_census(input.streams, recorded.stacks);
  PassedFrames passed = passed_;
  pass_over_unnamed(census, recorded, tracker, passed);
  return {std::move(census), DiffStackNames(recorded, tracker, scope_, std::move(passed))};
}

void SnapshotDiffBuilder::add_stacks(Section& section, Stacks& stacks) {
  const StackCensus& census = stacks.census;
  DiffStackNames& names = stacks.names;
  constexpr uint32_t kNoStack = UINT32_MAX;
  constexpr uint32_t kFunction = 1U << 31;  // of an example: the function of that stack
  KeyedSums sums;
  Tally total;
  for (uint32_t stack = 0; stack < census.stacks.size(); ++stack) {
    const StackFigures& figures = census.stacks[stack];
    if (figures.blocks_found == 0) continue;
    const Tally tally{whole(figures.live_blocks), whole(figures.live_bytes)};
    const DiffStackNames::Keys keys = names.keys_of(stack);
    sums.add(keys.function, tally, stack | kFunction);
    sums.add(keys.stack, tally, stack, keys.function, 1);
    total += tally;
  }
  Tally without = census.without_stack;
  without.count -= census.passed_over.count;
  without.bytes -= census.passed_over.bytes;
  without += census.strange;
  if (without.count != 0) sums.add(KeyedSums::key_of(kWithoutStack), without, kNoStack);
  total += without;
  section.table.add(sums, [&](uint32_t stack) {
    if (stack == kNoStack) return std::string(kWithoutStack);
    return (stack & kFunction) != 0 ? names.function_of(stack & ~kFunction) : names.of(stack);
  });
  section.totals.emplace_back(total);
}

void SnapshotDiffBuilder::add_leaks(Section& section, const DiffInput& input, Stacks* stacks) {
  const LeakCensus census = take_leak_census(input.streams, *input.references);
  DiffStackNames* const names = stacks == nullptr ? nullptr : &stacks->names;
  constexpr uint32_t kShared = UINT32_MAX;
  const auto name_of = [&](uint32_t group) {
    if (group == kShared) return std::string(kSharedLeaks);
    return leak_name(census.groups[group], input.references->types, names);
  };
  KeyedSums sums;
  for (uint32_t i = 0; i < census.groups.size(); ++i) {
    const LeakGroup& group = census.groups[i];
    // The name of a stack may be too long to be whole.
    const uint64_t key =
        group.stack != 0 && names != nullptr
            ? KeyedSums::key_of(to_string(group.kind), names->keys_of(group.stack).stack)
            : KeyedSums::key_of(name_of(i));
    sums.add(key, {group.retained_blocks, group.retained_bytes}, i);
  }
  if (census.held_by_several.count != 0) {
    sums.add(KeyedSums::key_of(kSharedLeaks), census.held_by_several, kShared);
  }
  section.table.add(sums, name_of);
  section.totals.emplace_back(census.all);
  snapshots_.back().leaked = census.all;
  snapshots_.back().garbage = census.garbage;
}

void SnapshotDiffBuilder::add_sizes(Section& section, const std::vector<SizeClass>& sizes) {
  const auto name_of = [&](uint32_t index) { return size_class_name(sizes[index]); };
  KeyedSums sums;
  Tally total;
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    sums.add(KeyedSums::key_of(name_of(i)), sizes[i].used, i);
    total += sizes[i].used;
  }
  section.table.add(sums, name_of);
  section.totals.emplace_back(total);
}

void SnapshotDiffBuilder::add_classes(Section& section, const RuntimeModel& model) {
  const auto name_of = [&](uint32_t row) { return model.classes[row].name; };
  KeyedSums sums;
  Tally total;
  for (uint32_t i = 0; i < model.classes.size(); ++i) {
    const RuntimeClass& row = model.classes[i];
    const Tally tally{row.count, all_bytes(row)};
    const auto kind = static_cast<uint64_t>(model.runtimes[row.runtime].kind);
    sums.add(KeyedSums::key_of(row.name, kind), tally, i);
    total += tally;
  }
  section.table.add(sums, name_of);
  section.totals.emplace_back(total);
}

void SnapshotDiffBuilder::add_contexts(Section& section, const RuntimeModel& model) {
  const std::vector<ContextName> names = contexts_by_name(model);
  const auto name_of = [&](uint32_t row) { return names[row].name; };
  KeyedSums sums;
  Tally total;
  for (uint32_t i = 0; i < names.size(); ++i) {
    const Tally tally{names[i].count, names[i].bytes};
    sums.add(KeyedSums::key_of(names[i].name), tally, i);
    total.count = bounded_sum(total.count, tally.count);
    total.bytes = bounded_sum(total.bytes, tally.bytes);
  }
  section.table.add(sums, name_of);
  section.totals.emplace_back(total);
}

void SnapshotDiffBuilder::add_arenas(Section& section, const SnapshotMetadata& metadata) {
  const HeapModel& heap = metadata.heap;
  const auto name_of = [&](uint32_t index) { return arena_name(heap, index); };
  KeyedSums sums;
  Tally total;
  for (uint32_t i = 0; i < heap.arenas.size(); ++i) {
    const Tally tally{1, heap.arenas[i].system_mem};
    sums.add(KeyedSums::key_of(name_of(i)), tally, i);
    total += tally;
  }
  section.table.add(sums, name_of);
  section.totals.emplace_back(total);
}

void SnapshotDiffBuilder::add(const DiffInput& input) {
  const SnapshotMetadata& metadata = *input.streams.metadata;
  const HeapSummary summary = summarize(input.streams);
  const RssAccount account = account_rss(metadata, summary);
  const bool is_resident = account.basis == RssBasis::kResident;
  DiffSnapshot snapshot;
  snapshot.process = metadata.process;
  snapshot.method = metadata.freeze.method;
  if (snapshot.process.rss == 0 && is_resident) snapshot.process.rss = account.total.resident;
  if (input.references == nullptr) {
    const bool has_reason = metadata.references && !metadata.references->why_not.empty();
    snapshot.why_no_references =
        has_reason ? metadata.references->why_not : "it was taken without them";
  }
  snapshot.in_use = memory_in_use(input.streams, input.references != nullptr);
  in_use_.emplace_back(snapshot.in_use);
  resident_.emplace_back();
  if (snapshot.process.rss != 0) resident_.back() = Tally{0, snapshot.process.rss};
  snapshots_.push_back(std::move(snapshot));

  std::optional<Stacks> stacks;
  const auto known_stacks = [&]() -> Stacks* {
    if (!stacks && input.recorded != nullptr) stacks.emplace(stacks_of(input));
    return stacks ? &*stacks : nullptr;
  };
  for (Section& section : sections_) {
    const bool needs_references =
        section.by == DiffBy::kOwner || section.by == DiffBy::kType || section.by == DiffBy::kLeak;
    DiffLack lack = DiffLack::kNone;
    if (needs_references && input.references == nullptr) lack = DiffLack::kReferences;
    if (section.by == DiffBy::kStack && input.recorded == nullptr) lack = DiffLack::kStacks;
    if (section.by == DiffBy::kAccount && !is_resident) lack = DiffLack::kResidency;
    if (section.by == DiffBy::kClass && metadata.runtimes.classes.empty()) {
      lack = DiffLack::kObjects;
    }
    if (section.by == DiffBy::kContext && metadata.runtimes.contexts.empty()) {
      lack = DiffLack::kContexts;
    }
    section.lacks.push_back(lack);
    if (lack != DiffLack::kNone) {
      section.table.add_unknown();
      section.totals.emplace_back();
      continue;
    }
    switch (section.by) {
      case DiffBy::kOwner: add_owners(section, input); break;
      case DiffBy::kType: add_types(section, input); break;
      case DiffBy::kStack: add_stacks(section, *known_stacks()); break;
      case DiffBy::kLeak: add_leaks(section, input, known_stacks()); break;
      case DiffBy::kSize: add_sizes(section, summary.used_sizes); break;
      case DiffBy::kArena: add_arenas(section, metadata); break;
      case DiffBy::kClass: add_classes(section, metadata.runtimes); break;
      case DiffBy::kContext: add_contexts(section, metadata.runtimes); break;
      case DiffBy::kAccount: {
        KeyedSums sums;
        const auto name_of = [](uint32_t row) {
          return std::string(to_string(static_cast<RssRow>(row)));
        };
        for (uint32_t row = 0; row < kRssRowCount; ++row) {
          const uint64_t resident = account[static_cast<RssRow>(row)].resident;
          sums.add(KeyedSums::key_of(name_of(row)), {0, resident}, row);
        }
        section.table.add(sums, name_of);
        section.totals.emplace_back(Tally{0, account.total.resident});
        break;
      }
    }
  }
}

SnapshotDiff SnapshotDiffBuilder::finish() {
  SnapshotDiff diff;
  diff.snapshots = std::move(snapshots_);
  diff.is_one_build = scope_ == NameScope::kOneBuild;
  diff.is_one_process = true;
  diff.is_in_time = true;
  const DiffSnapshot& first = diff.snapshots.front();
  std::vector<double> time_s;
  for (size_t i = 0; i < diff.snapshots.size(); ++i) {
    const Process& process = diff.snapshots[i].process;
    diff.is_one_process &= is_same_process(first.process, process);
    if (i > 0) {
      diff.is_in_time &= diff.snapshots[i - 1].process.taken_at_ns < process.taken_at_ns;
    }
    // From the first one on, so that nothing is lost to rounding.
    const auto passed = static_cast<int64_t>(process.taken_at_ns - first.process.taken_at_ns);
    time_s.push_back(static_cast<double>(passed) / 1e9);
  }
  if (!diff.is_in_time) time_s.clear();
  diff.in_use.name = "in use";
  diff.in_use.values = std::move(in_use_);
  judge(diff.in_use, time_s);
  diff.resident.name = "resident";
  diff.resident.values = std::move(resident_);
  judge(diff.resident, time_s);
  for (Section& each : sections_) {
    DiffSection section;
    section.by = each.by;
    section.lacks = std::move(each.lacks);
    section.left_out = each.table.left_out();
    const auto known = static_cast<size_t>(
        std::count(section.lacks.begin(), section.lacks.end(), DiffLack::kNone));
    section.steps = known == 0 ? 0 : known - 1;
    section.total.name = "total";
    section.total.values = std::move(each.totals);
    judge(section.total, time_s);
    if (section.is_comparable()) collect_rows(each.table, time_s, section);
    diff.sections.push_back(std::move(section));
  }
  return diff;
}

}  // namespace heapsnap
