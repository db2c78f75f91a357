#include "elf/struct_layout.h"

#include <dwarf.h>

#include <set>

#include "elf/dwarf_image.h"
#include "elf/dwarf_index.h"

namespace heapsnap {

namespace {

// References between entries can form circles in damaged DWARF.
constexpr int kDeepestMember = 32;
// In all structs that are wanted, and the nameless ones in them. With two nameless members in each,
// a circle of the permitted depth would have four billion.
constexpr uint64_t kMostMembers = 65'536;

// Where types are: not lines, nor places of variables, nor ranges of code.
constexpr std::string_view kSectionsOfTypes[] = {"info",     "types",       "abbrev", "str",
                                                 "line_str", "str_offsets", "addr"};

// Follows the types of members.
class MemberReader {
 public:
  // nullopt if there are too many members for structs.
  std::optional<StructLayout> layout_of(const DwarfEntry& aggregate, uint64_t size) {
    StructLayout layout{.size = size, .members = {}};
    add_members(aggregate, 0, 0, layout);
    if (budget_.is_spent()) return std::nullopt;
    return layout;
  }
  DwarfEntry peeled(const DwarfEntry& type) {
    const DwarfEntry inner = peeled_type(type);
    if (type && !inner) lacks_types_ = true;
    return inner;
  }

  // Whether a reference led to no entry.
  bool lacks_types() const { return lacks_types_; }

 private:
  void add_members(const DwarfEntry& aggregate, uint64_t base, int depth, StructLayout& layout) {
    if (depth == kDeepestMember) return;
    aggregate.for_each_child([&](const DwarfEntry& child) {
      if (child.tag() != DW_TAG_member) return true;
      if (!budget_.spend()) return false;
      const auto offset = child.offset_in_whole();
      if (!offset) return true;
      const DwarfEntry type = child.type();
      if (!type && child.refers(DW_AT_type)) lacks_types_ = true;
      if (const char* name = child.name()) {
        layout.members.emplace(name, StructLayout::Member{base + *offset, size_of(type)});
      } else if (const auto inner = peeled(type); inner && is_aggregate_type(inner.tag())) {
        add_members(inner, base + *offset, depth + 1, layout);
      }
      return true;
    });
  }
  uint64_t size_of(const DwarfEntry& type) {
    const uint64_t size = size_of_type(type);
    if (type && size == 0) lacks_types_ = lacks_types_ || lacks_type_inside(type);
    return size;
  }
  static bool lacks_type_inside(DwarfEntry type) {
    for (int depth = 0; depth < kDeepestMember; ++depth) {
      const DwarfEntry inner = peeled_type(type);
      if (!inner) return true;
      if (inner.tag() != DW_TAG_array_type) return false;
      type = inner.type();
      if (!type) return true;
    }
    return true;
  }

  bool lacks_types_ = false;
  DwarfBudget budget_{kMostMembers, 0};
};

class StructSearch {
 public:
  explicit StructSearch(const std::vector<std::string>& names)
      : wanted_(names.begin(), names.end()) {}

  bool is_done() const { return wanted_.empty(); }
  bool lacks_types() const { return members_.lacks_types(); }

  void search(const DwarfImage& image) {
    if (is_done()) return;
    image.each_unit([this](const DwarfEntry& unit) {
      unit.for_each_child([this](const DwarfEntry& entry) {
        consider(entry);
        return !is_done();
      });
      return !is_done();
    });
  }

  std::map<std::string, StructLayout, std::less<>> take() { return std::move(found_); }

 private:
  void consider(const DwarfEntry& entry) {
    const int tag = entry.tag();
    if (!is_aggregate_type(tag) && tag != DW_TAG_typedef) return;
    const char* name = entry.name();
    const auto wanted = name == nullptr ? wanted_.end() : wanted_.find(name);
    if (wanted == wanted_.end()) return;
    const DwarfEntry aggregate = tag == DW_TAG_typedef ? members_.peeled(entry) : entry;
    if (!aggregate || !is_aggregate_type(aggregate.tag()) || aggregate.has(DW_AT_declaration)) {
      return;
    }
    const auto size = aggregate.number(DW_AT_byte_size);
    if (!size) return;
    auto layout = members_.layout_of(aggregate, *size);
    if (!layout) return;
    found_.emplace(*wanted, *std::move(layout));
    wanted_.erase(wanted);
  }

  MemberReader members_;
  std::set<std::string, std::less<>> wanted_;
  std::map<std::string, StructLayout, std::less<>> found_;
};

}  // namespace

std::map<std::string, StructLayout, std::less<>> read_struct_layouts(
    const ElfImage& debug_file, const std::vector<std::string>& struct_names,
    std::optional<uint64_t> code) {
  if (!has_debug_information(debug_file)) return {};
  if (code && debug_file.section(".gnu_debugaltlink") == nullptr) {
    StructSearch search(struct_names);
    const auto unit = DwarfImage::open(debug_file, kSectionsOfTypes, code);
    if (unit) search.search(*unit);
    if (search.is_done() && !search.lacks_types()) return search.take();
  }
  StructSearch search(struct_names);
  // Closed after the image that refers to it.
  const auto alternate = DwarfImage::open_alternate(debug_file, kSectionsOfTypes);
  const auto image = DwarfImage::open(debug_file, kSectionsOfTypes);
  if (!image) return {};
  if (alternate) image->set_alternate(*alternate);
  search.search(*image);
  if (alternate) search.search(*alternate);
  return search.take();
}

}  // namespace heapsnap
