#include "analysis/object_counts.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

namespace {

bool is_in(std::string_view name, std::string_view space) {
  if (space.empty() || !name.starts_with(space)) return false;
  return name.size() == space.size() || name.substr(space.size()).starts_with("::");
}

}  // namespace

ObjectCounts count_objects(const RuntimeModel& model, uint32_t runtime,
                           std::span<const std::string> namespaces) {
  ObjectCounts counts;
  for (const RuntimePages& row : model.pages) {
    if (row.runtime != runtime) continue;
    counts.free_slots += row.free_slots;
    counts.total_slots += row.free_slots + row.used_slots;
  }
  std::array<uint64_t, RubyValue::kTypes> by_type{};
  for (const RuntimeType& row : model.types) {
    if (row.runtime != runtime) continue;
    for (unsigned i = 0; i < RubyValue::kTypes; ++i) {
      const char* const name = RubyValue::type_name(static_cast<RubyType>(i));
      if (name != nullptr && row.name == name) by_type[i] += row.count + row.unswept;
    }
  }
  for (unsigned i = 0; i < RubyValue::kTypes; ++i) {
    if (by_type[i] == 0) continue;
    counts.basic_types.emplace_back(
        std::string("T_") + RubyValue::type_name(static_cast<RubyType>(i)), by_type[i]);
  }
  for (const RuntimeClass& row : model.classes) {
    const bool is_wanted =
        row.runtime == runtime &&
        std::any_of(namespaces.begin(), namespaces.end(),
                    [&row](const std::string& space) { return is_in(row.name, space); });
    if (is_wanted && row.count != 0) counts.user_types.emplace_back(row.name, row.count);
  }
  std::sort(counts.user_types.begin(), counts.user_types.end());
  return counts;
}

}  // namespace heapsnap
