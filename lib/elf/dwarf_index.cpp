#include "elf/dwarf_index.h"

#include <dwarf.h>

#include <algorithm>

#include "base/clock.h"

namespace heapsnap {

namespace {

constexpr int kDeepestScope = 32;
constexpr size_t kMostScopes = 4 << 20;
constexpr size_t kMostVariables = 4 << 20;
constexpr const char* kUnnamedNamespace = "(anonymous namespace)";
constexpr uint64_t kFirstHash = 0xcbf29ce484222325;

uint64_t with_byte(uint64_t hash, uint8_t byte) {
  constexpr uint64_t kPrime = 0x100000001b3;
  return (hash ^ byte) * kPrime;
}

// FNV-1a. Compilers and demanglers differ in spaces: "map<int, int> >".
uint64_t hash_of_name(uint64_t scope, std::string_view name) {
  uint64_t hash = with_byte(scope, ':');
  for (const char letter : name) {
    if (letter != ' ') hash = with_byte(hash, static_cast<uint8_t>(letter));
  }
  return hash;
}

uint64_t salted(uint64_t hash, const void* unit) {
  auto rest = reinterpret_cast<uintptr_t>(unit);
  for (; rest != 0; rest >>= 8) hash = with_byte(hash, static_cast<uint8_t>(rest));
  return hash;
}

// The parts between the "::" that are not between brackets.
template <typename Visit>
void each_part(std::string_view name, Visit visit) {
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const char letter = name[i];
    if (letter == '<' || letter == '(') ++depth;
    if (letter == '>' || letter == ')') --depth;
    if (depth == 0 && letter == ':' && name.substr(i, 2) == "::") {
      visit(name.substr(begin, i - begin));
      begin = i + 2;
      ++i;
    }
  }
  visit(name.substr(begin));
}

const void* const kNoEnd = reinterpret_cast<const void*>(UINTPTR_MAX);

}  // namespace

bool DwarfBudget::spend() {
  constexpr uint64_t kBetweenLooks = 256;
  if (is_spent_) return false;
  if (entries_ == 0) {
    is_spent_ = true;
    return false;
  }
  --entries_;
  if (deadline_ns_ != 0 && spent_++ % kBetweenLooks == 0) {
    is_spent_ = monotonic_ns() > deadline_ns_;
  }
  return !is_spent_;
}

void DwarfIndex::add(const DwarfImage& image) {
  image.each_unit([this](const DwarfEntry& unit) {
    if (!budget_.spend() || scopes_.size() >= kMostScopes) return false;
    const auto number = static_cast<uint32_t>(scopes_.size());
    first_scope_ = number;
    scopes_.push_back({unit.address(), kNoEnd, nullptr, kNoScope, false, kFirstHash, kFirstHash});
    add_children(unit, number, 0);
    return !budget_.is_spent();
  });
}

void DwarfIndex::add_children(const DwarfEntry& parent, uint32_t scope, int depth) {
  if (depth == kDeepestScope) return;
  DwarfEntry child = parent.first_child();
  while (child && budget_.spend()) {
    const DwarfEntry next = child.next_sibling();
    if (!add_entry(child, next ? next.address() : scopes_[scope].end, scope, depth)) return;
    child = next;
  }
}

bool DwarfIndex::add_entry(const DwarfEntry& entry, const void* end, uint32_t scope, int depth) {
  switch (entry.tag()) {
    case DW_TAG_namespace: add_namespace(entry, end, scope, depth); break;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type: add_class(entry, end, scope, depth); break;
    case DW_TAG_variable: add_variable(entry); break;
    default: break;
  }
  return scopes_.size() < kMostScopes;
}

void DwarfIndex::add_namespace(const DwarfEntry& entry, const void* end, uint32_t scope,
                               int depth) {
  const char* name = entry.name();
  const bool is_unnamed = name == nullptr;
  if (is_unnamed) name = kUnnamedNamespace;
  const Scope& parent = scopes_[scope];
  uint64_t hash = hash_of_name(parent.hash, name);
  if (is_unnamed) hash = salted(hash, entry.address());
  const uint64_t plain = hash_of_name(parent.plain_hash, name);
  const bool is_in_unnamed = is_unnamed || parent.is_unnamed;
  scopes_.push_back({entry.address(), end, name, scope, is_in_unnamed, hash, plain});
  add_children(entry, static_cast<uint32_t>(scopes_.size() - 1), depth + 1);
}

void DwarfIndex::add_class(const DwarfEntry& entry, const void* end, uint32_t scope, int depth) {
  const char* const name = entry.name();
  if (name == nullptr) return;
  if (const DwarfEntry declared = entry.referred(DW_AT_specification)) {
    scope = scope_at(declared.address());
    if (scope == kNoScope) return;
  }
  const DwarfEntry child = entry.first_child();
  const uint64_t hash = hash_of_name(scopes_[scope].hash, name);
  const bool is_known = definitions_.count(hash) != 0;
  if (!is_known && entry.has(DW_AT_declaration)) return;
  const uint64_t plain = hash_of_name(scopes_[scope].plain_hash, name);
  const bool is_in_unnamed = scopes_[scope].is_unnamed;
  if (!is_known) {
    definitions_.emplace(hash, entry);
    if (is_in_unnamed) {
      const auto [other, is_first] = of_unnamed_.emplace(plain, entry);
      if (!is_first) other->second = {};
    }
    note_beginning(entry);
  }
  if (!child) return;
  scopes_.push_back({entry.address(), end, name, scope, is_in_unnamed, hash, plain});
  // What is in it has been seen in the first unit that defines it.
  if (!is_known) add_children(entry, static_cast<uint32_t>(scopes_.size() - 1), depth + 1);
}

// The type of its first base class or, where it has none, of its first member.
void DwarfIndex::note_beginning(const DwarfEntry& aggregate) {
  bool has_base = false;
  aggregate.for_each_child([&](const DwarfEntry& child) {
    if (!budget_.spend()) return false;
    const int tag = child.tag();
    if (tag == DW_TAG_inheritance) {
      has_base = true;
    } else if (tag != DW_TAG_member) {
      return true;
    }
    if (tag == DW_TAG_member && has_base) return false;
    const DwarfEntry type = peeled_type(child.type());
    if (type && is_aggregate_type(type.tag())) beginnings_.push_back(type);
    return tag == DW_TAG_inheritance;
  });
}

void DwarfIndex::add_variable(const DwarfEntry& entry) {
  if (variables_.size() + thread_locals_.size() >= kMostVariables) return;
  const DwarfEntry::Place place = entry.place(DW_AT_location);
  using Kind = DwarfEntry::Place::Kind;
  if (place.kind == Kind::kAddress) variables_.push_back({place.value, entry});
  if (place.kind == Kind::kThreadLocal) thread_locals_.push_back({place.value, entry});
}

void DwarfIndex::add_variables_of_functions(const DwarfImage& image) {
  image.each_unit([this](const DwarfEntry& unit) {
    add_statics(unit, false, 0);
    return !budget_.is_spent();
  });
}

void DwarfIndex::add_statics(const DwarfEntry& parent, bool is_in_function, int depth) {
  if (depth == kDeepestScope) return;
  parent.for_each_child([&](const DwarfEntry& child) {
    if (!budget_.spend()) return false;
    switch (child.tag()) {
      case DW_TAG_variable:
        if (is_in_function) add_variable(child);
        break;
      case DW_TAG_subprogram:
      case DW_TAG_lexical_block:
      case DW_TAG_inlined_subroutine: add_statics(child, true, depth + 1); break;
      case DW_TAG_namespace: add_statics(child, is_in_function, depth + 1); break;
      default: break;
    }
    return true;
  });
}

void DwarfIndex::seal() {
  first_scope_ = 0;
  std::vector<uint32_t> order(scopes_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [this](uint32_t a, uint32_t b) { return scopes_[a].begin < scopes_[b].begin; });
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<Scope> sorted;
  sorted.reserve(scopes_.size());
  for (const uint32_t number : order) {
    Scope scope = scopes_[number];
    if (scope.parent != kNoScope) scope.parent = place[scope.parent];
    sorted.push_back(scope);
  }
  scopes_ = std::move(sorted);
  for (const DwarfEntry& entry : beginnings_) {
    if (const uint64_t hash = name_hash(entry); hash != 0) is_beginning_[hash] = true;
  }
  beginnings_ = {};
}

uint32_t DwarfIndex::scope_of(const DwarfEntry& entry) const {
  const DwarfEntry declared = entry.referred(DW_AT_specification);
  return scope_at(declared ? declared.address() : entry.address());
}

uint32_t DwarfIndex::scope_at(const void* address) const {
  const auto first = scopes_.begin() + static_cast<ptrdiff_t>(first_scope_);
  const auto after = std::upper_bound(
      first, scopes_.end(), address,
      [](const void* wanted, const Scope& scope) { return wanted <= scope.begin; });
  auto number = static_cast<uint32_t>(after - scopes_.begin());
  if (number == first_scope_) return kNoScope;
  --number;
  while (number != kNoScope && scopes_[number].end <= address) number = scopes_[number].parent;
  return number;
}

DwarfEntry DwarfIndex::defined(uint64_t hash) const {
  const auto found = definitions_.find(hash);
  return found == definitions_.end() ? DwarfEntry{} : found->second;
}

DwarfEntry DwarfIndex::find_class(std::string_view qualified_name) const {
  uint64_t hash = kFirstHash;
  each_part(qualified_name, [&hash](std::string_view part) { hash = hash_of_name(hash, part); });
  const auto unnamed = of_unnamed_.find(hash);
  return unnamed != of_unnamed_.end() ? unnamed->second : defined(hash);
}

DwarfEntry DwarfIndex::definition_of(const DwarfEntry& entry) const {
  const bool is_declared = entry.has(DW_AT_declaration);
  const uint64_t hash = name_hash(entry);
  const DwarfEntry first = hash == 0 ? DwarfEntry{} : defined(hash);
  if (is_declared) return first;
  // A class of a function may have the name of another one, and each unit of C its own structs.
  const bool is_same = first && size_of_type(first) == size_of_type(entry) &&
                       first.number(DW_AT_decl_line) == entry.number(DW_AT_decl_line);
  return is_same ? first : entry;
}

uint64_t DwarfIndex::name_hash(const DwarfEntry& entry) const {
  const char* const name = entry.name();
  if (name == nullptr) return 0;
  const uint32_t scope = scope_of(entry);
  return hash_of_name(scope == kNoScope ? kFirstHash : scopes_[scope].hash, name);
}

std::string DwarfIndex::qualified_name(const DwarfEntry& entry, const char* name) const {
  const char* const own = name == nullptr ? entry.name() : name;
  if (own == nullptr) return {};
  std::string result = own;
  uint32_t scope = scope_of(entry);
  for (int depth = 0; depth < kDeepestScope && scope != kNoScope; ++depth) {
    if (scopes_[scope].name != nullptr) result = scopes_[scope].name + ("::" + result);
    scope = scopes_[scope].parent;
  }
  return result;
}

bool DwarfIndex::is_of_std(const DwarfEntry& entry) const {
  uint32_t scope = scope_of(entry);
  const char* outermost = nullptr;
  for (int depth = 0; depth < kDeepestScope && scope != kNoScope; ++depth) {
    if (scopes_[scope].name != nullptr) outermost = scopes_[scope].name;
    scope = scopes_[scope].parent;
  }
  return outermost != nullptr && std::string_view(outermost) == "std";
}

bool DwarfIndex::is_beginning(const DwarfEntry& entry) const {
  return is_beginning_.count(name_hash(entry)) != 0;
}

}  // namespace heapsnap
