#include "elf/struct_layout.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/error.h"
#include "elf/dwarf_copy.h"
#include "elf/elf_headers.h"
#include "elf/elf_notes.h"
#include "elf/unpacked_size.h"

namespace heapsnap {

namespace {

// References between DIEs can form circles in damaged DWARF.
constexpr int kDeepest = 32;

// Where types are: not lines, nor places of variables, nor ranges of code.
constexpr std::string_view kSectionsOfTypes[] = {"info",     "types",       "abbrev", "str",
                                                 "line_str", "str_offsets", "addr"};

// An ELF file in memory of our own, and its DWARF.
class DwarfImage {
 public:
  // Null when it has no DWARF, or more than there is memory for. With the unit of the code at
  // `address` only, where one is given: null when that is not known.
  static std::unique_ptr<DwarfImage> open(const ElfImage& file,
                                          std::optional<uint64_t> address = std::nullopt) {
    const auto bytes = file.file_bytes();
    if (bytes.size() > kMostUnpackedBytes || unpacked_size(file) > kMostUnpackedBytes) {
      return nullptr;
    }
    auto image = std::make_unique<DwarfImage>();
    image->copy_ = address ? copy_unit_for_dwarf(file, kSectionsOfTypes, *address)
                           : copy_for_dwarf(file, kSectionsOfTypes);
    if (image->copy_.bytes == nullptr || elf_version(EV_CURRENT) == EV_NONE) return nullptr;
    image->elf_.reset(
        elf_memory(reinterpret_cast<char*>(image->copy_.bytes.get()), image->copy_.size));
    if (!image->elf_) return nullptr;
    image->dwarf_.reset(dwarf_begin_elf(image->elf_.get(), DWARF_C_READ, nullptr));
    return image->dwarf_ ? std::move(image) : nullptr;
  }

  Dwarf* dwarf() const { return dwarf_.get(); }

 private:
  struct End {
    void operator()(Elf* elf) const { elf_end(elf); }
    void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
  };
  // In this order: each is used by the one after it until that is closed.
  DwarfCopy copy_;
  std::unique_ptr<Elf, End> elf_;
  std::unique_ptr<Dwarf, End> dwarf_;
};

std::optional<uint64_t> unsigned_attribute(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_attr_integrate(die, name, &attribute) == nullptr ||
      dwarf_formudata(&attribute, &value) != 0) {
    return std::nullopt;
  }
  return value;
}

bool is_alias(int tag) {
  return tag == DW_TAG_typedef || tag == DW_TAG_const_type || tag == DW_TAG_volatile_type ||
         tag == DW_TAG_restrict_type || tag == DW_TAG_atomic_type;
}

// Calls `visit` with each child until it gives false. Siblings must lie further on: a
// DW_AT_sibling that points back would never end.
template <typename Visitor>
void for_each_child(Dwarf_Die* parent, Visitor visit) {
  Dwarf_Die child;
  if (dwarf_child(parent, &child) != 0) return;
  while (visit(&child)) {
    const Dwarf_Off offset = dwarf_dieoffset(&child);
    if (dwarf_siblingof(&child, &child) != 0 || dwarf_dieoffset(&child) <= offset) return;
  }
}

// Number of elements of an array type; nothing when a dimension has no bound.
std::optional<uint64_t> element_count(Dwarf_Die* array) {
  std::optional<uint64_t> count = 1;
  for_each_child(array, [&count](Dwarf_Die* child) {
    if (dwarf_tag(child) != DW_TAG_subrange_type) return true;
    auto length = unsigned_attribute(child, DW_AT_count);
    if (!length) {
      const auto upper = unsigned_attribute(child, DW_AT_upper_bound);
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

// clang leaves DW_AT_byte_size out of pointers.
uint64_t address_size(Dwarf_Die* die) {
  uint8_t size = 0;
  const int status =
      dwarf_cu_info(die->cu, nullptr, nullptr, nullptr, nullptr, nullptr, &size, nullptr);
  return status == 0 ? size : 0;
}

bool is_aggregate(int tag) {
  return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

// Offset of a member in its struct. DWARF 2 gives an expression that adds a constant.
std::optional<uint64_t> member_offset(Dwarf_Die* member) {
  Dwarf_Attribute attribute;
  if (dwarf_attr(member, DW_AT_data_member_location, &attribute) != nullptr) {
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
  if (const auto bit = unsigned_attribute(member, DW_AT_data_bit_offset)) return *bit / 8;
  return 0;  // of a union
}

// Follows the types of members.
class TypeReader {
 public:
  // Follows typedefs and qualifiers.
  std::optional<Dwarf_Die> peeled(std::optional<Dwarf_Die> type) {
    for (int depth = 0; type && depth < kDeepest; ++depth) {
      if (!is_alias(dwarf_tag(&*type))) return type;
      type = type_of(&*type);
    }
    return std::nullopt;
  }

  void add_members(Dwarf_Die* aggregate, uint64_t base, int depth, StructLayout& layout) {
    if (depth == kDeepest) return;
    for_each_child(aggregate, [&](Dwarf_Die* child) {
      if (dwarf_tag(child) != DW_TAG_member) return true;
      const auto offset = member_offset(child);
      if (!offset) return true;
      const auto type = type_of(child);
      if (const char* name = dwarf_diename(child)) {
        layout.members.emplace(name, StructLayout::Member{base + *offset, type_size(type)});
      } else if (auto inner = peeled(type); inner && is_aggregate(dwarf_tag(&*inner))) {
        add_members(&*inner, base + *offset, depth + 1, layout);
      }
      return true;
    });
  }

  // Whether a reference led to no entry.
  bool lacks_types() const { return lacks_types_; }

 private:
  std::optional<Dwarf_Die> type_of(Dwarf_Die* die) {
    Dwarf_Attribute attribute;
    Dwarf_Die type;
    if (dwarf_attr_integrate(die, DW_AT_type, &attribute) == nullptr) return std::nullopt;
    if (dwarf_formref_die(&attribute, &type) == nullptr || dwarf_tag(&type) == DW_TAG_invalid) {
      lacks_types_ = true;
      return std::nullopt;
    }
    return type;
  }

  // Bytes of a type; 0 when unknown.
  uint64_t type_size(std::optional<Dwarf_Die> type, int depth = 0) {
    type = peeled(type);
    if (!type || depth == kDeepest) return 0;
    if (const auto size = unsigned_attribute(&*type, DW_AT_byte_size)) return *size;
    if (dwarf_tag(&*type) == DW_TAG_pointer_type) return address_size(&*type);
    if (dwarf_tag(&*type) != DW_TAG_array_type) return 0;
    const auto count = element_count(&*type);
    uint64_t size = 0;
    if (!count || __builtin_mul_overflow(*count, type_size(type_of(&*type), depth + 1), &size)) {
      return 0;
    }
    return size;
  }

  bool lacks_types_ = false;
};

class StructSearch {
 public:
  explicit StructSearch(const std::vector<std::string>& names)
      : wanted_(names.begin(), names.end()) {}

  bool is_done() const { return wanted_.empty(); }
  bool lacks_types() const { return types_.lacks_types(); }

  void search(Dwarf* dwarf) {
    Dwarf_CU* unit = nullptr;
    Dwarf_Die unit_die;
    while (!is_done() &&
           dwarf_get_units(dwarf, unit, &unit, nullptr, nullptr, &unit_die, nullptr) == 0) {
      for_each_child(&unit_die, [this](Dwarf_Die* die) {
        consider(die);
        return !is_done();
      });
    }
  }

  std::map<std::string, StructLayout, std::less<>> take() { return std::move(found_); }

 private:
  void consider(Dwarf_Die* die) {
    const int tag = dwarf_tag(die);
    if (!is_aggregate(tag) && tag != DW_TAG_typedef) return;
    const char* name = dwarf_diename(die);
    const auto wanted = name == nullptr ? wanted_.end() : wanted_.find(name);
    if (wanted == wanted_.end()) return;
    auto aggregate = tag == DW_TAG_typedef ? types_.peeled(*die) : std::optional<Dwarf_Die>(*die);
    if (!aggregate || !is_aggregate(dwarf_tag(&*aggregate)) ||
        dwarf_hasattr(&*aggregate, DW_AT_declaration)) {
      return;
    }
    const auto size = unsigned_attribute(&*aggregate, DW_AT_byte_size);
    if (!size) return;
    StructLayout layout{.size = *size, .members = {}};
    types_.add_members(&*aggregate, 0, 0, layout);
    found_.emplace(*wanted, std::move(layout));
    wanted_.erase(wanted);
  }

  TypeReader types_;
  std::set<std::string, std::less<>> wanted_;
  std::map<std::string, StructLayout, std::less<>> found_;
};

// The file that .gnu_debugaltlink names: a path, relative to the folder of the debug file, and the
// build-id. libdw itself would look by build-id only when the image comes from memory.
std::unique_ptr<DwarfImage> open_alternate(const ElfImage& debug_file) {
  const ElfSection* section = debug_file.section(".gnu_debugaltlink");
  if (section == nullptr) return nullptr;
  const auto bytes = clipped(debug_file.file_bytes(), section->file_offset, section->size);
  std::string path(text_at(bytes, 0, bytes.size()));
  if (path.empty()) return nullptr;
  const auto id = bytes.subspan(path.size() + 1);
  const std::string& from = debug_file.name();
  if (!path.starts_with('/')) path = from.substr(0, from.rfind('/') + 1) + path;
  try {
    const auto alternate = ElfImage::from_file(MappedFile::open(path), path);
    if (alternate.build_id() != hex_text(id)) return nullptr;
    return DwarfImage::open(alternate);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

std::map<std::string, StructLayout, std::less<>> read_struct_layouts(
    const ElfImage& debug_file, const std::vector<std::string>& struct_names,
    std::optional<uint64_t> code) {
  if (debug_file.section(".debug_info") == nullptr &&
      debug_file.section(".zdebug_info") == nullptr) {
    return {};
  }
  if (code && debug_file.section(".gnu_debugaltlink") == nullptr) {
    StructSearch search(struct_names);
    const auto unit = DwarfImage::open(debug_file, code);
    if (unit) search.search(unit->dwarf());
    if (search.is_done() && !search.lacks_types()) return search.take();
  }
  StructSearch search(struct_names);
  // Closed after the image that refers to it.
  const auto alternate = open_alternate(debug_file);
  const auto image = DwarfImage::open(debug_file);
  if (!image) return {};
  if (alternate) dwarf_setalt(image->dwarf(), alternate->dwarf());
  search.search(image->dwarf());
  if (alternate) search.search(alternate->dwarf());
  return search.take();
}

}  // namespace heapsnap
