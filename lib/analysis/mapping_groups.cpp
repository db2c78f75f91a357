#include "analysis/mapping_groups.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "analysis/language_runtime.h"

namespace heapsnap {

namespace {

using Amount = RssAccount::Amount;

constexpr uint64_t kLargestGuard = 32 << 10;
constexpr uint64_t kDefaultStack = 8 << 20;  // ulimit -s of most systems
constexpr uint64_t kFewStacks = 2;
constexpr uint64_t kLeastArena = 64 << 10;
constexpr uint64_t kFewArenas = 4;
constexpr uint64_t kLeastLarge = 1 << 20;
constexpr uint64_t kLeastGroupShare = 100;  // one part in a hundred of all groups

bool takes_more(const MappingGroup& a, const MappingGroup& b) {
  return std::tie(a.amount.resident, a.amount.swapped) >
         std::tie(b.amount.resident, b.amount.swapped);
}

void add(Amount& to, const Amount& amount) {
  to.resident += amount.resident;
  to.swapped += amount.swapped;
}

bool is_unnamed_private(const Mapping& mapping) {
  return mapping.path.empty() && mapping.is_anonymous() && mapping.is_private_writable();
}

// The guard page below a stack: no access, and the stack begins where it ends. 0: there is none.
uint64_t guard_below(const std::vector<Mapping>& mappings, size_t index) {
  if (index == 0) return 0;
  const Mapping& guard = mappings[index - 1];
  const bool has_access = guard.readable || guard.writable || guard.executable;
  const bool is_guard = !has_access && guard.is_anonymous() &&
                        guard.range.size() <= kLargestGuard &&
                        guard.range.end == mappings[index].range.begin;
  return is_guard ? guard.range.size() : 0;
}

// What an anonymous mapping is taken for: groups are made of equal ones.
struct Likeness {
  MappingKind kind = MappingKind::kOthers;
  std::string name = {};
  std::string evidence = {};
  uint64_t size = 0;  // kSameSize
  uint64_t unit = 0;
  auto operator<=>(const Likeness&) const = default;
};

class Recognition {
 public:
  Recognition(const SnapshotMetadata& metadata, const HeapSummary& summary,
              const RssAccount& account)
      : metadata_(metadata),
        summary_(summary),
        account_(account),
        runtimes_(mapped_runtimes(metadata.mappings)) {
    stack_sizes_[kDefaultStack] = kFewStacks;
    for (size_t i = 0; i < metadata.mappings.size(); ++i) note_stack(i);
    for (size_t i = 0; i < metadata.mappings.size(); ++i) {
      if (is_arena_like(i)) ++arena_sizes_[own_size(i)];
    }
  }

  // Bytes of a mapping that are neither malloc's nor a runtime's whose heap is known.
  uint64_t own_size(size_t index) const {
    uint64_t heap = 0;
    for (const PageBytes& bytes : summary_.shares[index]) heap += bytes.total();
    heap += account_.rests[index].runtime_bytes;
    const uint64_t size = metadata_.mappings[index].range.size();
    return size - std::min(size, heap);
  }

  Likeness likeness_of(size_t index) const {
    const Mapping& mapping = metadata_.mappings[index];
    if (mapping.is_anonymous_hugetlb()) return {.kind = MappingKind::kHugePages};
    if (!mapping.path.empty() && !is_foreign_brk(mapping)) {
      return {.kind = MappingKind::kNamed, .name = mapping.path};
    }
    if (mapping.executable) return {.kind = MappingKind::kCode};
    if (is_stack_like(index)) return {.kind = MappingKind::kStacks};
    for (const LanguageRuntime& runtime : runtimes_) {
      if (looks_managed_by(runtime, mapping, own_size(index))) {
        return {
            .kind = kind_of(runtime.language), .evidence = runtime.module, .unit = runtime.unit};
      }
    }
    if (metadata_.heap.foreign_answers_malloc && mapping.is_private_writable()) {
      return {.kind = MappingKind::kAllocator, .evidence = metadata_.heap.foreign_allocator};
    }
    if (is_arena_like(index) && arena_sizes_.at(own_size(index)) >= kFewArenas) {
      return {.kind = MappingKind::kSameSize, .size = own_size(index)};
    }
    return {};
  }

 private:
  static MappingKind kind_of(Language language) {
    switch (language) {
      case Language::kPython: return MappingKind::kPython;
      case Language::kRuby: return MappingKind::kRuby;
      case Language::kV8: return MappingKind::kV8;
      case Language::kJava: break;
    }
    return MappingKind::kJava;
  }

  // An allocator that answers malloc has the program break to itself.
  bool is_foreign_brk(const Mapping& mapping) const {
    return metadata_.heap.foreign_answers_malloc && mapping.path == "[heap]";
  }

  // The size with the guard page is what a program asks for, or its default.
  void note_stack(size_t index) {
    const Mapping& mapping = metadata_.mappings[index];
    const uint64_t guard = guard_below(metadata_.mappings, index);
    if (guard == 0 || !is_unnamed_private(mapping) || mapping.executable) return;
    const bool is_known = account_.rests[index].row == RssRow::kStacks;
    stack_sizes_[guard + mapping.range.size()] += is_known ? kFewStacks : 1;
  }
  bool is_stack_like(size_t index) const {
    const uint64_t guard = guard_below(metadata_.mappings, index);
    if (guard == 0 || !is_unnamed_private(metadata_.mappings[index])) return false;
    const auto found = stack_sizes_.find(guard + metadata_.mappings[index].range.size());
    return found != stack_sizes_.end() && found->second >= kFewStacks;
  }

  bool is_arena_like(size_t index) const {
    const Mapping& mapping = metadata_.mappings[index];
    return account_.rests[index].row == RssRow::kOtherAnonymous && is_unnamed_private(mapping) &&
           own_size(index) >= kLeastArena && own_size(index) == mapping.range.size();
  }

  const SnapshotMetadata& metadata_;
  const HeapSummary& summary_;
  const RssAccount& account_;
  std::vector<LanguageRuntime> runtimes_;
  std::map<uint64_t, uint64_t> stack_sizes_;  // guard page included: how many
  std::map<uint64_t, uint64_t> arena_sizes_;
};

// Orders them and adds what is too much, or too little, to the group of all others.
std::vector<MappingGroup> largest(std::vector<MappingGroup> groups, MappingGroup others,
                                  size_t most) {
  std::stable_sort(groups.begin(), groups.end(), takes_more);
  uint64_t all = others.amount.resident;
  for (const MappingGroup& group : groups) all += group.amount.resident;
  const auto is_too_much = [&] {
    return groups.size() > most ||
           (!groups.empty() && groups.back().amount.resident < all / kLeastGroupShare);
  };
  for (; is_too_much(); groups.pop_back()) {
    others.count += groups.back().count;
    add(others.amount, groups.back().amount);
  }
  if (others.amount != Amount{}) groups.push_back(std::move(others));
  return groups;
}

}  // namespace

const char* to_string(MappingKind kind) {
  switch (kind) {
    case MappingKind::kNamed: return "named";
    case MappingKind::kHugePages: return "hugetlb";
    case MappingKind::kCode: return "code";
    case MappingKind::kStacks: return "stacks";
    case MappingKind::kPython: return "pymalloc";
    case MappingKind::kRuby: return "ruby";
    case MappingKind::kV8: return "v8";
    case MappingKind::kJava: return "java";
    case MappingKind::kAllocator: return "allocator";
    case MappingKind::kSameSize: return "same-size";
    case MappingKind::kLarge: return "large";
    case MappingKind::kFile: return "file";
    case MappingKind::kOthers: return "others";
  }
  return "unknown";
}

RestGroups group_rests(const SnapshotMetadata& metadata, const HeapSummary& summary,
                       const RssAccount& account) {
  constexpr size_t kMostMappings = 6;
  constexpr size_t kMostFiles = 3;
  return {group_other_memory(metadata, summary, account, kMostMappings),
          group_by_file(metadata, account, RssRow::kFiles, kMostFiles),
          group_by_file(metadata, account, RssRow::kFileData, kMostFiles),
          group_by_file(metadata, account, RssRow::kShared, kMostFiles)};
}

std::vector<MappingGroup> group_other_memory(const SnapshotMetadata& metadata,
                                             const HeapSummary& summary, const RssAccount& account,
                                             size_t most) {
  const Recognition recognition(metadata, summary, account);
  std::map<Likeness, MappingGroup> by_likeness;
  std::vector<MappingGroup> groups;
  MappingGroup others;
  for (size_t i = 0; i < metadata.mappings.size(); ++i) {
    const RssAccount::Rest& rest = account.rests[i];
    if (rest.row != RssRow::kOtherAnonymous || rest.amount == Amount{}) continue;
    const uint64_t size = recognition.own_size(i);
    const Likeness likeness = recognition.likeness_of(i);
    if (likeness.kind == MappingKind::kOthers && rest.amount.resident >= kLeastLarge) {
      groups.push_back(
          {.kind = MappingKind::kLarge, .count = 1, .size = size, .amount = rest.amount});
      continue;
    }
    const bool is_other = likeness.kind == MappingKind::kOthers;
    MappingGroup& group = is_other ? others : by_likeness[likeness];
    if (group.count == 0) {
      group.kind = likeness.kind;
      group.name = likeness.name;
      group.evidence = likeness.evidence;
      group.unit = likeness.unit;
      group.size = size;
    }
    ++group.count;
    if (group.size != size) group.size = 0;
    add(group.amount, rest.amount);
  }
  others.size = 0;
  for (auto& [likeness, group] : by_likeness) groups.push_back(std::move(group));
  return largest(std::move(groups), std::move(others), most);
}

std::vector<MappingGroup> group_by_file(const SnapshotMetadata& metadata, const RssAccount& account,
                                        RssRow row, size_t most) {
  std::map<std::string_view, Amount> by_name;
  for (size_t i = 0; i < metadata.mappings.size(); ++i) {
    const RssAccount::Rest& rest = account.rests[i];
    // A mapping of no file whose row that is: the executable's .bss.
    const std::string& path =
        rest.row == RssRow::kFileData ? metadata.process.exe : metadata.mappings[i].path;
    if (rest.row == row && rest.amount != Amount{}) add(by_name[path], rest.amount);
    if (row == RssRow::kFileData && rest.private_pages != Amount{}) {
      add(by_name[path], rest.private_pages);
    }
  }
  std::vector<MappingGroup> groups;
  for (const auto& [name, amount] : by_name) {
    groups.push_back(
        {.kind = MappingKind::kFile, .name = std::string(name), .count = 1, .amount = amount});
  }
  return largest(std::move(groups), {}, most);
}

}  // namespace heapsnap
