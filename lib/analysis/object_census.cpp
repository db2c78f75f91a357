#include "analysis/object_census.h"

#include <algorithm>

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
