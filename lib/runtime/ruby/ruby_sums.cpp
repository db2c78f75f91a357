#include "runtime/ruby/ruby_sums.h"

#include "runtime/class_rows.h"

namespace heapsnap {

void RubySums::add_object(const RubyOwner& owner, uint64_t bytes) {
  for (Sum* const sum : {&class_sum(owner), &type_sum(owner.type)}) {
    ++sum->count;
    sum->bytes += bytes;
  }
}

void RubySums::add_owned(const RubyOwner& owner, uint64_t bytes, bool is_in_malloc) {
  for (Sum* const sum : {&class_sum(owner), &type_sum(owner.type)}) {
    sum->owned_bytes += bytes;
    if (is_in_malloc) sum->malloc_bytes += bytes;
  }
}

void RubySums::take(uint32_t runtime, const RubyClasses& classes, const RubyTypes& types,
                    RuntimeModel& model) const {
  ClassRows rows("(other classes)");
  const auto add = [&](const std::string& name, const Sum& sum) {
    RuntimeClass& row = rows[name];
    row.count += sum.count;
    row.tracked += sum.count;  // the collector knows all
    row.bytes += sum.bytes;
    row.owned_bytes += sum.owned_bytes;
    row.malloc_bytes += sum.malloc_bytes;
  };
  for (const auto& one : classes.all()) {
    if (one->number < classes_.size() && classes_[one->number].count != 0) {
      add(one->name, classes_[one->number]);
    }
  }
  for (size_t i = 0; i < internal_.size(); ++i) {
    if (internal_[i].count != 0) add(types.internal_name(i), internal_[i]);
  }
  rows.take(runtime, model);
  for (size_t i = 0; i < types_.size(); ++i) {
    const Sum& sum = types_[i];
    if (sum.count == 0 && sum.dead == 0) continue;
    const RubyTypes::Type& type = types.all()[i];
    model.types.push_back({runtime, RubyValue::type_name(type.builtin), type.part, sum.count,
                           sum.dead, sum.bytes, sum.owned_bytes, sum.malloc_bytes});
  }
}

}  // namespace heapsnap
