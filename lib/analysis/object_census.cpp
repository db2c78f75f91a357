#include "analysis/object_census.h"

#include <algorithm>

namespace heapsnap {

namespace {

uint64_t sum_of(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

void add(ObjectCensus::Sum& sum, const RuntimeClass& row) {
  sum.count = sum_of(sum.count, row.count);
  sum.bytes = sum_of(sum.bytes, all_bytes(row));
  sum.malloc_bytes = sum_of(sum.malloc_bytes, row.malloc_bytes);
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
  return sum_of(row.bytes, row.owned_bytes);
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
