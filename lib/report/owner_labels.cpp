#include "report/owner_labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/diff_names.h"
#include "references/local_name.h"
#include "references/storage_kind.h"
#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

// Of more roots than these, names say little of the rest: the first one is where to look.
constexpr size_t kFew = 8;
// Roots of a group that are named one by one.
constexpr size_t kMostNamed = 16;

}  // namespace

std::string kind_of_blocks(const ReferenceReportInput& input, const OwnerNode& node) {
  const std::string type = type_label(input, node.type);
  return type.empty() ? block_sizes_label(node.least_size, node.most_size) : type;
}

std::string where_held(const ReferenceReportInput& input, const OwnerNode& node,
                       const OwnerNode& holder) {
  if (node.held_at == OwnerNode::kNotDirectly) return "";
  if (node.held_at != OwnerNode::kElement) return fmt::format(", held at +{:#x}", node.held_at);
  const std::vector<BlockType>& types = input.references.types;
  const bool is_object =
      holder.type != 0 && holder.type < types.size() && !holds_elements(types[holder.type]);
  return is_object ? "" : ", in an array";
}

uint32_t OwnerLabels::threads_of(uint32_t place) const {
  return place < threads_.size() ? std::max(threads_[place], 1U) : 1;
}

std::string OwnerLabels::of_place(uint32_t place, size_t width) const {
  std::string label = root_label(metadata_, places_[place], threads_of(place));
  if (display_width(label) <= width) return label;
  return cut_name(short_root_label(metadata_, places_[place], threads_of(place)), width);
}

std::string OwnerLabels::others_of_several(const std::vector<uint32_t>& group, size_t named) const {
  const size_t more = group.size() - named;
  if (more == 0) return " together";
  // Of a variable, or of whatever else a root may be.
  const bool are_variables =
      group.size() <= kFew &&
      std::all_of(group.begin() + static_cast<ptrdiff_t>(named), group.end(), [&](uint32_t one) {
        const RootKind kind = places_[one].kind;
        return kind == RootKind::kVariable || kind == RootKind::kThreadLocal ||
               kind == RootKind::kGlobal || kind == RootKind::kLocal;
      });
  return fmt::format(" and {}, together", are_variables
                                              ? count_text(more, "more variable", "more variables")
                                              : count_text(more, "more root", "more roots"));
}

std::string OwnerLabels::several_of(const std::vector<uint32_t>& group, size_t named) const {
  std::string text;
  for (size_t i = 0; i < named; ++i) {
    const bool is_last = i + 1 == group.size();
    text += i == 0 ? "" : is_last ? " and " : ", ";
    text += short_root_label(metadata_, places_[group[i]], threads_of(group[i]));
  }
  return text + others_of_several(group, named);
}

std::string OwnerLabels::of_several(uint32_t number, size_t width) const {
  const std::vector<uint32_t>& group = groups_.at(number);
  const size_t most_named = group.size() > kFew ? 1 : 3;
  for (size_t named = std::min(most_named, group.size()); named > 0; --named) {
    std::string label = several_of(group, named);
    if (display_width(label) <= width) return label;
  }
  constexpr size_t kLeastName = 12;
  const std::string first =
      short_root_label(metadata_, places_[group.front()], threads_of(group.front()));
  const std::string more = fmt::format(" and {} more, together", count_text(group.size() - 1));
  // A whole name, which can be searched for, says more than what the others are.
  if (display_width(first + more) <= width) return first + more;
  for (const std::string& others : {others_of_several(group, 1), more}) {
    if (display_width(others) + kLeastName > width) continue;
    return cut_name(first, width - display_width(others)) + others;
  }
  return cut_name(kSeveralRoots, width);
}

std::string OwnerLabels::names_of_several(uint32_t number, size_t width) const {
  const std::vector<uint32_t>& group = groups_.at(number);
  const bool may_be_whole = group.size() <= kMostNamed;
  if (may_be_whole && of_several(number, width) == several_of(group, group.size())) return {};
  const size_t named = std::min(kMostNamed, group.size());
  std::string text;
  for (size_t i = 0; i < named; ++i) {
    if (i != 0) text += ", ";
    text += short_root_label(metadata_, places_[group[i]], threads_of(group[i]));
  }
  const size_t more = group.size() - named;
  return more == 0 ? text : text + fmt::format(" and {} more", count_text(more));
}

void OwnerLabels::write_json_place(JsonWriter& json, uint32_t place) const {
  const uint32_t threads = threads_of(place);
  if (threads == 1) return write_json_root(json, places_[place]);
  RootPlace of_all = places_[place];
  of_all.tid = 0;
  of_all.begin = Address();
  if (of_all.kind == RootKind::kLocal) of_all.name = local_without_line(of_all.name);
  write_json_root(json, of_all);
  json.member("threads", threads);
  json.member("thread_family", thread_family_of(metadata_, places_[place].tid));
}

void OwnerLabels::write_json_several(JsonWriter& json, uint32_t number) const {
  const std::vector<uint32_t>& group = groups_.at(number);
  json.member("root", "");
  json.member("kind", "several");
  json.member("root_count", group.size());
  json.key("roots");
  json.begin_array();
  for (size_t i = 0; i < std::min(kMostNamed, group.size()); ++i) {
    json.begin_object();
    write_json_place(json, group[i]);
    json.end_object();
  }
  json.end_array();
}

}  // namespace heapsnap
