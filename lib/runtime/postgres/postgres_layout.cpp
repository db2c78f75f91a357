#include "runtime/postgres/postgres_layout.h"

namespace heapsnap {

namespace {

constexpr PostgresLayout kPostgresLayouts[] = {
#include "runtime/postgres/postgres_layouts.inc"
};

}  // namespace

const PostgresLayout* postgres_layout(unsigned major) {
  for (const PostgresLayout& layout : kPostgresLayouts) {
    if (layout.major == major) return &layout;
  }
  return nullptr;
}

}  // namespace heapsnap
