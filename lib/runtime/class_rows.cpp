#include "runtime/class_rows.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace heapsnap {

void ClassRows::take(uint32_t runtime, RuntimeModel& model) {
  const auto first = static_cast<ptrdiff_t>(model.classes.size());
  for (auto& [name, row] : by_name_) {
    row.runtime = runtime;
    row.name = name;
    model.classes.push_back(std::move(row));
  }
  by_name_.clear();
  std::stable_sort(model.classes.begin() + first, model.classes.end(),
                   [](const RuntimeClass& a, const RuntimeClass& b) {
                     return a.bytes + a.owned_bytes > b.bytes + b.owned_bytes;
                   });
}

}  // namespace heapsnap
