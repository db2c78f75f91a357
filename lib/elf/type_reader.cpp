#include "elf/type_reader.h"

#include <dwarf.h>

#include <algorithm>

#include "elf/node_types.h"

namespace heapsnap {

namespace {

constexpr int kDeepestType = 32;
constexpr size_t kMostPointersOfType = 4096;

}  // namespace

// The pointers of a variable of that type.
DebugType TypeReader::layout_of(const DwarfEntry& type) {
  DebugType layout;
  collect(type, 0, {}, 0, layout);
  sort_pointers(layout);
  return layout;
}

// The number of a class; its members are read later.
uint64_t TypeReader::size_of(const DwarfEntry& type, int depth) const {
  const DwarfEntry inner = peeled_type(type);
  if (!inner || depth == kDeepestType) return 0;
  if (is_aggregate_type(inner.tag()) && inner.has(DW_AT_declaration)) {
    const DwarfEntry definition = index_.definition_of(inner);
    return definition ? size_of_type(definition) : 0;
  }
  if (inner.tag() != DW_TAG_array_type) return size_of_type(inner);
  uint64_t size = 0;
  const bool is_sound = !__builtin_mul_overflow(inner.element_count().value_or(0),
                                                size_of(inner.type(), depth + 1), &size);
  return is_sound ? size : 0;
}

DebugTypeNumber TypeReader::number_of(const DwarfEntry& entry, const char* alias) {
  const DwarfEntry definition = index_.definition_of(entry);
  if (!definition) return declared_number(entry);
  const auto [known, is_new] = number_of_.try_emplace(definition.address(), 0);
  if (!is_new) return known->second;
  known->second =
      add_type(index_.qualified_name(definition, definition.name() == nullptr ? alias : nullptr));
  if (known->second != 0) waiting_.push_back({known->second, definition});
  return known->second;
}

DebugTypeNumber TypeReader::declared_number(const DwarfEntry& entry) {
  std::string name = index_.qualified_name(entry);
  if (name.empty()) return 0;
  const auto known = state_.declared.find(name);
  if (known != state_.declared.end()) return known->second;
  const DebugTypeNumber number = add_type(name);
  if (number != 0) state_.declared.emplace(std::move(name), number);
  return number;
}

// What other files have only declared, and this one too, perhaps.
void TypeReader::define_declared() {
  for (auto at = state_.declared.begin(); at != state_.declared.end();) {
    const DwarfEntry found = index_.find_class(at->first);
    if (!found || number_of_.count(found.address()) != 0) {
      ++at;
      continue;
    }
    number_of_.emplace(found.address(), at->second);
    waiting_.push_back({at->second, found});
    at = state_.declared.erase(at);
  }
}

DebugTypeNumber TypeReader::add_type(const std::string& name) {
  TypeGraph& graph = state_.graph;
  if (graph.types.size() >= state_.limits.types || state_.name_bytes > state_.limits.name_bytes) {
    state_.is_full = true;
    return 0;
  }
  DebugType type;
  type.name = short_type_name(name);
  state_.name_bytes += type.name.size();
  graph.types.push_back(std::move(type));
  return static_cast<DebugTypeNumber>(graph.types.size() - 1);
}

void TypeReader::build_all() {
  while (!waiting_.empty()) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    build(next.number, next.entry);
  }
}

void TypeReader::build(DebugTypeNumber number, const DwarfEntry& entry) {
  DebugType layout;
  unions_ = 0;
  collect(entry, 0, {}, 0, layout);
  sort_pointers(layout);
  DebugType& type = state_.graph.types[number];
  type.size = size_of_type(entry);
  type.has_vptr = layout.has_vptr;
  type.is_open_ended = layout.is_open_ended;
  type.is_beginning = index_.is_beginning(entry);
  type.first = layout.first == number ? 0 : layout.first;
  type.pointers = std::move(layout.pointers);
}

void TypeReader::sort_pointers(DebugType& type) {
  std::stable_sort(
      type.pointers.begin(), type.pointers.end(),
      [](const PointerMember& a, const PointerMember& b) { return a.offset < b.offset; });
}

void TypeReader::add_pointer(DebugType& to, const PointerMember& member) {
  if (to.pointers.size() >= kMostPointersOfType || state_.pointers >= state_.limits.pointers) {
    state_.is_full = state_.pointers >= state_.limits.pointers;
    return;
  }
  ++state_.pointers;
  to.pointers.push_back(member);
  to.pointers.back().to.in_union |= unions_ != 0;
}

// Adds the pointers of an object of that type at `base`.
void TypeReader::collect(const DwarfEntry& wanted, uint64_t base, const Context& context, int depth,
                         DebugType& to) {
  if (depth == kDeepestType || !state_.budget.spend()) return;
  const DwarfEntry type = peeled_type(wanted);
  if (!type) return;
  switch (type.tag()) {
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
      add_pointer(to, {base, 1, 0, pointee_of(type.type(), context, depth)});
      break;
    case DW_TAG_array_type: collect_array(type, base, context, depth, to); break;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type: collect_class(type, base, context, depth, to); break;
    default: break;
  }
}

void TypeReader::collect_array(const DwarfEntry& array, uint64_t base, const Context& context,
                               int depth, DebugType& to) {
  const DwarfEntry element = array.type();
  const uint64_t stride = size_of(element);
  const auto count = array.element_count();
  if (stride == 0 || !count || *count == 0) return;
  DebugType one;
  collect(element, 0, context, depth + 1, one);
  for (const PointerMember& member : one.pointers) {
    if (member.count <= 1) {
      add_pointer(to, {base + member.offset, *count, stride, member.to});
      continue;
    }
    for (uint64_t i = 0; i < std::min<uint64_t>(*count, kMostPointersOfType); ++i) {
      add_pointer(to, {base + i * stride + member.offset, member.count, member.stride, member.to});
    }
  }
}

void TypeReader::collect_class(const DwarfEntry& wanted, uint64_t base, const Context& outer,
                               int depth, DebugType& to) {
  const DwarfEntry type = index_.definition_of(wanted);
  if (!type) return;
  if (const DwarfEntry element = element_of_buffer(type)) {
    return collect(element, base, {}, depth + 1, to);
  }
  const bool is_union = type.tag() == DW_TAG_union_type;
  unions_ += is_union ? 1 : 0;
  collect_members(type, base, context_in(type, outer), depth, to);
  unions_ -= is_union ? 1 : 0;
}

void TypeReader::collect_members(const DwarfEntry& type, uint64_t base, const Context& context,
                                 int depth, DebugType& to) {
  const uint64_t size = size_of_type(type);
  type.for_each_child([&](const DwarfEntry& child) {
    if (!state_.budget.spend()) return false;
    const int tag = child.tag();
    if (tag != DW_TAG_member && tag != DW_TAG_inheritance) return true;
    // Static members have no offset. Nor do virtual base classes have one that is known.
    if (child.has(DW_AT_external) || child.has(DW_AT_declaration)) return true;
    const auto offset = child.offset_in_whole();
    if (!offset || *offset > size) return true;
    const char* const name = child.name();
    if (name != nullptr && std::string_view(name).starts_with("_vptr")) {
      if (base + *offset == 0) to.has_vptr = true;
      return true;
    }
    collect_member(child.type(), base + *offset, size - *offset, context, depth, to);
    return true;
  });
}

void TypeReader::collect_member(const DwarfEntry& type, uint64_t at, uint64_t up_to_end,
                                const Context& context, int depth, DebugType& to) {
  const DwarfEntry inner = peeled_type(type);
  if (!inner) return;
  // "char text[]", and "char text[1]" of old.
  constexpr uint64_t kMostPadding = 8;
  if (depth == 0 && inner.tag() == DW_TAG_array_type && up_to_end <= kMostPadding &&
      inner.element_count().value_or(0) <= 1) {
    to.is_open_ended = true;
  }
  if (depth == 0 && at == 0 && to.first == 0 && is_aggregate_type(inner.tag()) &&
      inner.tag() != DW_TAG_union_type && inner.name() != nullptr) {
    to.first = number_of(inner, nullptr);
  }
  collect(inner, at, context, depth + 1, to);
}

// Of what nodes keep an element in, uninitialized: the element's type.
DwarfEntry TypeReader::element_of_buffer(const DwarfEntry& type) {
  const char* const name = type.name();
  if (name == nullptr || !is_element_buffer(name)) return {};
  DwarfEntry element;
  type.for_each_child([&](const DwarfEntry& child) {
    if (!state_.budget.spend()) return false;
    if (child.tag() != DW_TAG_template_type_parameter) return true;
    element = child.type();
    return false;
  });
  return element;
}

TypeReader::Context TypeReader::context_in(const DwarfEntry& type, const Context& outer) {
  const char* const name = type.name();
  if (name == nullptr) return outer;
  const ContainerClass container = container_class(name);
  if (container.kind == ContainerClass::Kind::kNone || !index_.is_of_std(type)) return outer;
  // A std::string of the old ABI is a pointer to behind the beginning of a block.
  if (container.role == PointerRole::kText && size_of_type(type) <= sizeof(uint64_t)) return outer;
  Context context;
  context.role = container.role;
  context.node_base = container.node_base;
  if (container.kind == ContainerClass::Kind::kNode) context.node = type;
  for (const std::string& node : container.nodes) {
    if (!context.node) context.node = index_.find_class(node);
  }
  return context;
}

Pointee TypeReader::pointee_of(const DwarfEntry& wanted, const Context& context, int depth) {
  const char* alias = nullptr;
  DwarfEntry type = wanted;
  for (int i = 0; i < kDeepestType && type && is_alias_of_type(type.tag()); ++i) {
    if (type.tag() == DW_TAG_typedef) alias = type.name();
    type = type.type();
  }
  if (!type || depth == kDeepestType) return {};
  switch (type.tag()) {
    case DW_TAG_base_type:
    case DW_TAG_enumeration_type: {
      const DebugTypeNumber number = scalar_number(type);
      const bool is_plain = number == 0 || context.role == PointerRole::kBuckets;
      return {number, is_plain ? PointerRole::kObject : context.role};
    }
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type: {
      const Context inner{PointerRole::kObject, context.node_base, context.node};
      const Pointee to = pointee_of(type.type(), inner, depth + 1);
      const DebugTypeNumber number = pointer_number(to, size_of_type(type));
      return {number, number == 0 ? PointerRole::kObject : context.role};
    }
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type: return pointee_class(type, alias, context);
    default: return {};
  }
}

Pointee TypeReader::pointee_class(const DwarfEntry& type, const char* alias,
                                  const Context& context) {
  const char* const name = type.name();
  if (name != nullptr && !context.node_base.empty() && context.node_base == name &&
      index_.is_of_std(type)) {
    return {context.node ? number_of(context.node, nullptr) : 0, PointerRole::kObject};
  }
  if (name == nullptr && alias == nullptr) return {};
  const bool are_several =
      context.role == PointerRole::kArray || context.role == PointerRole::kElements;
  const DebugTypeNumber number = number_of(type, alias);
  return {number, number != 0 && are_several ? context.role : PointerRole::kObject};
}

DebugTypeNumber TypeReader::scalar_number(const DwarfEntry& type) {
  const std::string name = index_.qualified_name(type);
  const uint64_t size = size_of_type(type);
  if (name.empty() || size == 0) return 0;
  const auto known = state_.scalars.find(name);
  if (known != state_.scalars.end()) return known->second;
  const DebugTypeNumber number = add_type(name);
  if (number == 0) return 0;
  state_.graph.types[number].size = size;
  state_.graph.types[number].is_scalar = true;
  state_.scalars.emplace(name, number);
  return number;
}

DebugTypeNumber TypeReader::pointer_number(const Pointee& to, uint64_t size) {
  if (size == 0) return 0;
  const auto [known, is_new] = state_.pointer_types.try_emplace({to.type, to.role}, 0);
  if (!is_new) return known->second;
  const std::string name = to.type == 0 ? "void" : state_.graph.types[to.type].name;
  known->second = add_type(name + "*");
  if (known->second == 0) return 0;
  DebugType& type = state_.graph.types[known->second];
  type.size = size;
  type.pointers.push_back({0, 1, 0, to});
  return known->second;
}

void TypeReader::finish() {
  build_all();
  define_declared();
  build_all();
}

}  // namespace heapsnap
