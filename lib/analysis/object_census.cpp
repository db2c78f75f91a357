#include "analysis/object_census.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "analysis/bounded_sum.h"

namespace heapsnap {

namespace {

void add(ObjectCensus::Sum& sum, const RuntimeClass& row) {
  sum.count = bounded_sum(sum.count, row.count);
  sum.bytes = bounded_sum(sum.bytes, all_bytes(row));
  sum.malloc_bytes = bounded_sum(sum.malloc_bytes, row.malloc_bytes);
}

uint64_t measure_of(const RuntimeClass& row, ObjectCensus::Order order) {
  switch (order) {
    case ObjectCensus::Order::kBytes: break;
    case ObjectCensus::Order::kCount: return row.count;
    case ObjectCensus::Order::kOwn: return row.bytes;
  }
  return all_bytes(row);
}

}  // namespace

uint64_t all_bytes(const RuntimeClass& row) {
  return bounded_sum(row.bytes, row.owned_bytes);
}

void add_retained(const TypeCensus& blocks, const std::vector<BlockType>& types,
                  ObjectCensus& census) {
  std::unordered_map<std::string_view, uint64_t> retained;
  for (const TypeRow& row : blocks.types) {
    if (types[row.type].source == TypeSource::kRuntime) {
      retained[types[row.type].name] = row.retained.bytes;
    }
  }
  if (retained.empty()) return;
  std::unordered_map<std::string_view, uint32_t> runtime_of;
  std::vector<uint64_t> of_classes;
  for (const RuntimeClass& row : census.classes) {
    if (runtime_of.try_emplace(row.name, row.runtime).first->second != row.runtime) return;
    const auto found = retained.find(row.name);
    of_classes.push_back(found == retained.end() ? 0 : found->second);
  }
  census.retained_bytes = std::move(of_classes);
}

uint64_t slot_rest(const RuntimeModel& model, size_t runtime) {
  const Runtime& known = model.runtimes[runtime];
  if (known.kind != RuntimeKind::kPython) return 0;
  ObjectCensus::Sum sum;
  for (const RuntimeClass& row : model.classes) {
    if (row.runtime == runtime) add(sum, row);
  }
  const uint64_t in_slots = sum.bytes - std::min(sum.bytes, sum.malloc_bytes);
  return known.used_bytes - std::min(known.used_bytes, in_slots);
}

bool lacks_large_objects(const Runtime& runtime, const HeapModel& heap) {
  return runtime.kind == RuntimeKind::kPython && runtime.why_not.empty() &&
         heap.foreign_answers_malloc;
}

ObjectCensus take_object_census(const RuntimeModel& model, ObjectCensus::Order order) {
  ObjectCensus census;
  census.classes = model.classes;
  std::stable_sort(census.classes.begin(), census.classes.end(),
                   [order](const RuntimeClass& a, const RuntimeClass& b) {
                     return measure_of(a, order) > measure_of(b, order);
                   });
  census.sums.resize(model.runtimes.size());
  for (const RuntimeClass& row : model.classes) {
    add(census.sums[row.runtime], row);
    add(census.all, row);
  }
  return census;
}

}  // namespace heapsnap
