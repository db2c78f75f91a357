#include "elf/dwarf_entry.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

#include <bit>

namespace heapsnap {

namespace {

constexpr int kMostAliases = 32;
constexpr int kMostDimensions = 32;
constexpr int kMostOrigins = 17;  // as many as dwarf_attr_integrate(3) looks at

static_assert(sizeof(DwarfEntry::Parts) == sizeof(Dwarf_Die));

Dwarf_Die die_of(const DwarfEntry::Parts& parts) {
  return std::bit_cast<Dwarf_Die>(parts);
}

DwarfEntry entry_of(const Dwarf_Die& die) {
  return DwarfEntry::from_parts(std::bit_cast<DwarfEntry::Parts>(die));
}

bool has_expression(Dwarf_Attribute& attribute) {
  switch (dwarf_whatform(&attribute)) {
    case DW_FORM_exprloc:
    case DW_FORM_block:
    case DW_FORM_block1:
    case DW_FORM_block2:
    case DW_FORM_block4: return true;
    default: return false;
  }
}

// Whether all values end within the unit, of the entry that has the attribute: this one, or one
// that it follows.
bool ends_within_unit(DwarfEntry entry, unsigned attribute) {
  const auto go_on = [](Dwarf_Attribute*, void*) -> int { return DWARF_CB_OK; };
  for (int i = 0; i < kMostOrigins && entry; ++i) {
    Dwarf_Die die = die_of(entry.parts());
    if (dwarf_hasattr(&die, attribute) != 0) return dwarf_getattrs(&die, go_on, nullptr, 0) == 1;
    entry = entry.origin();
  }
  return false;
}

}  // namespace

int DwarfEntry::tag() const {
  Dwarf_Die die = die_of(parts_);
  return dwarf_tag(&die);
}

const char* DwarfEntry::name() const {
  return text(DW_AT_name);
}

// dwarf_formstring(3) gives a DW_FORM_string as it is, also one that nothing ends before the end of
// the section.
const char* DwarfEntry::text(unsigned attribute) const {
  Dwarf_Die die = die_of(parts_);
  Dwarf_Attribute found;
  if (dwarf_attr_integrate(&die, attribute, &found) == nullptr ||
      (dwarf_whatform(&found) == DW_FORM_string && !ends_within_unit(*this, attribute))) {
    return nullptr;
  }
  return dwarf_formstring(&found);
}

bool DwarfEntry::has(unsigned attribute) const {
  Dwarf_Die die = die_of(parts_);
  return dwarf_hasattr(&die, attribute) != 0;
}

std::optional<uint64_t> DwarfEntry::number(unsigned attribute) const {
  Dwarf_Die die = die_of(parts_);
  Dwarf_Attribute found;
  Dwarf_Word value = 0;
  if (dwarf_attr_integrate(&die, attribute, &found) == nullptr ||
      dwarf_formudata(&found, &value) != 0) {
    return std::nullopt;
  }
  return value;
}

DwarfEntry DwarfEntry::referred(unsigned attribute) const {
  Dwarf_Die die = die_of(parts_);
  Dwarf_Attribute found;
  Dwarf_Die other;
  if (dwarf_attr_integrate(&die, attribute, &found) == nullptr ||
      dwarf_formref_die(&found, &other) == nullptr || dwarf_tag(&other) == DW_TAG_invalid) {
    return {};
  }
  return entry_of(other);
}

DwarfEntry DwarfEntry::origin() const {
  Dwarf_Die die = die_of(parts_);
  Dwarf_Attribute found;
  Dwarf_Die other;
  if ((dwarf_attr(&die, DW_AT_abstract_origin, &found) == nullptr &&
       dwarf_attr(&die, DW_AT_specification, &found) == nullptr) ||
      dwarf_formref_die(&found, &other) == nullptr) {
    return {};
  }
  return entry_of(other);
}

bool DwarfEntry::refers(unsigned attribute) const {
  Dwarf_Die die = die_of(parts_);
  Dwarf_Attribute found;
  return dwarf_attr_integrate(&die, attribute, &found) != nullptr;
}

// A type in a unit of its own (-fdebug-types-section) may be referred to by what only names it.
DwarfEntry DwarfEntry::type() const {
  const DwarfEntry found = referred(DW_AT_type);
  if (!found || !found.has(DW_AT_signature)) return found;
  const DwarfEntry by_signature = found.referred(DW_AT_signature);
  return by_signature ? by_signature : found;
}

DwarfEntry DwarfEntry::first_child() const {
  Dwarf_Die die = die_of(parts_);
  Dwarf_Die child;
  if (dwarf_child(&die, &child) != 0) return {};
  return entry_of(child);
}

// Siblings must lie further on: a DW_AT_sibling that points back would never end.
DwarfEntry DwarfEntry::next_sibling() const {
  Dwarf_Die die = die_of(parts_);
  Dwarf_Die next;
  if (dwarf_siblingof(&die, &next) != 0 || next.addr <= die.addr) return {};
  return entry_of(next);
}

uint64_t DwarfEntry::address_size() const {
  const Dwarf_Die die = die_of(parts_);
  uint8_t size = 0;
  const int status =
      dwarf_cu_info(die.cu, nullptr, nullptr, nullptr, nullptr, nullptr, &size, nullptr);
  return status == 0 ? size : 0;
}

std::optional<uint64_t> DwarfEntry::element_count() const {
  std::optional<uint64_t> count = 1;
  for_each_child([&count](const DwarfEntry& child) {
    if (child.tag() != DW_TAG_subrange_type) return true;
    auto length = child.number(DW_AT_count);
    if (!length) {
      const auto upper = child.number(DW_AT_upper_bound);
      if (upper && *upper != UINT64_MAX) length = *upper + 1;
    }
    uint64_t product = 0;
    if (!length || __builtin_mul_overflow(*count, *length, &product)) {
      count.reset();
      return false;
    }
    count = product;
    return true;
  });
  return count;
}

// DWARF 2 gives an expression that adds a constant.
std::optional<uint64_t> DwarfEntry::offset_in_whole() const {
  Dwarf_Die die = die_of(parts_);
  Dwarf_Attribute attribute;
  if (dwarf_attr(&die, DW_AT_data_member_location, &attribute) != nullptr) {
    Dwarf_Word value = 0;
    if (dwarf_formudata(&attribute, &value) == 0) return value;
    Dwarf_Op* operations = nullptr;
    size_t count = 0;
    if (dwarf_getlocation(&attribute, &operations, &count) == 0 && count == 1 &&
        operations->atom == DW_OP_plus_uconst) {
      return operations->number;
    }
    return std::nullopt;
  }
  if (const auto bit = number(DW_AT_data_bit_offset)) return *bit / 8;
  return 0;  // of a union
}

bool DwarfEntry::has_code_at(uint64_t address) const {
  Dwarf_Die die = die_of(parts_);
  return dwarf_haspc(&die, address) == 1;
}

DwarfEntry::Place DwarfEntry::place(unsigned attribute) const {
  using Kind = Place::Kind;
  Dwarf_Die die = die_of(parts_);
  Dwarf_Attribute found;
  Dwarf_Op* operations = nullptr;
  size_t count = 0;
  if (dwarf_attr(&die, attribute, &found) == nullptr || !has_expression(found) ||
      dwarf_getlocation(&found, &operations, &count) != 0 || count == 0) {
    return {};
  }
  const Dwarf_Op& first = operations[0];
  if (count == 2 && (operations[1].atom == DW_OP_form_tls_address ||
                     operations[1].atom == DW_OP_GNU_push_tls_address)) {
    switch (first.atom) {
      case DW_OP_addr:
      case DW_OP_const4u:
      case DW_OP_const8u:
      case DW_OP_constu: return {Kind::kThreadLocal, first.number};
      default: break;
    }
    Dwarf_Attribute value;
    Dwarf_Addr offset = 0;
    if ((first.atom == DW_OP_constx || first.atom == DW_OP_GNU_const_index) &&
        dwarf_getlocation_attr(&found, &first, &value) == 0 &&
        dwarf_formaddr(&value, &offset) == 0) {
      return {Kind::kThreadLocal, offset};
    }
    return {};
  }
  if (count != 1) return {};
  switch (first.atom) {
    case DW_OP_addr: return {Kind::kAddress, first.number};
    case DW_OP_fbreg: return {Kind::kFrame, first.number};
    case DW_OP_call_frame_cfa: return {Kind::kFrameStart, 0};
    case DW_OP_addrx:
    case DW_OP_GNU_addr_index: {
      Dwarf_Attribute value;
      Dwarf_Addr address = 0;
      if (dwarf_getlocation_attr(&found, &first, &value) != 0 ||
          dwarf_formaddr(&value, &address) != 0) {
        return {};
      }
      return {Kind::kAddress, address};
    }
    default: return {};
  }
}

bool is_alias_of_type(int tag) {
  return tag == DW_TAG_typedef || tag == DW_TAG_const_type || tag == DW_TAG_volatile_type ||
         tag == DW_TAG_restrict_type || tag == DW_TAG_atomic_type;
}

bool is_aggregate_type(int tag) {
  return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

DwarfEntry peeled_type(DwarfEntry type) {
  for (int depth = 0; type && depth < kMostAliases; ++depth) {
    if (!is_alias_of_type(type.tag())) return type;
    type = type.type();
  }
  return {};
}

// clang leaves DW_AT_byte_size out of pointers.
uint64_t size_of_type(DwarfEntry type) {
  uint64_t elements = 1;
  for (int depth = 0; depth < kMostDimensions; ++depth) {
    type = peeled_type(type);
    if (!type) return 0;
    auto size = type.number(DW_AT_byte_size);
    const int tag = type.tag();
    const bool is_array = tag == DW_TAG_array_type;
    if (!size && tag == DW_TAG_pointer_type) size = type.address_size();
    if (!size && is_array) size = type.element_count();
    if (!size || __builtin_mul_overflow(elements, *size, &elements)) return 0;
    if (!is_array || type.has(DW_AT_byte_size)) return elements;
    type = type.type();
  }
  return 0;
}

}  // namespace heapsnap
