// The rows of RuntimeModel::classes of one runtime, while they are added up. Classes of one name
// are one row: what the process calls them is all that is known of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/runtime_model.h"

namespace heapsnap {

class ClassRows {
 public:
  static constexpr size_t kMost = 1 << 16;

  // `rest`: what the row is called that has all classes beyond kMost.
  explicit ClassRows(const char* rest) : rest_(rest) {}

  RuntimeClass& operator[](const std::string& name) {
    const bool is_full = by_name_.size() >= kMost && !by_name_.contains(name);
    return by_name_[is_full ? rest_ : name];
  }
  // Appends them to those of `model`, in their order.
  void take(uint32_t runtime, RuntimeModel& model);

 private:
  std::string rest_;
  std::map<std::string, RuntimeClass> by_name_;
};

}  // namespace heapsnap
