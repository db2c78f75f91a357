#include "analysis/context_census.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analysis/bounded_sum.h"

namespace heapsnap {

namespace {

// One row of each name and runtime, made where there is none yet.
template <typename Row>
class RowsByName {
 public:
  Row& row(const RuntimeContext& context) {
    const auto [found, is_new] =
        numbers_.try_emplace({context.runtime, context.name}, rows_.size());
    if (is_new) {
      Row& made = rows_.emplace_back();
      made.runtime = context.runtime;
      made.name = context.name;
    }
    return rows_[found->second];
  }
  std::vector<Row> take() { return std::move(rows_); }

 private:
  std::map<std::pair<uint32_t, std::string>, size_t> numbers_;
  std::vector<Row> rows_;
};

void add(RuntimeArea::Amount& to, const RuntimeArea::Amount& amount) {
  to.bytes = bounded_sum(to.bytes, amount.bytes);
  to.resident = bounded_sum(to.resident, amount.resident);
  to.swapped = bounded_sum(to.swapped, amount.swapped);
}

auto order_of(const ContextGroup& group) {
  return std::tuple(bounded_sum(group.in_heaps.resident, group.in_mappings.resident),
                    bounded_sum(group.in_heaps.bytes, group.in_mappings.bytes));
}

}  // namespace

std::vector<ContextName> contexts_by_name(const RuntimeModel& model) {
  RowsByName<ContextName> by_name;
  for (const RuntimeContext& context : model.contexts) {
    ContextName& row = by_name.row(context);
    ++row.count;
    row.bytes = bounded_sum(row.bytes, context.bytes);
    row.free_bytes = bounded_sum(row.free_bytes, context.free_bytes);
    row.used_chunks = bounded_sum(row.used_chunks, context.used_chunks);
    row.uncounted += context.counts_chunks ? 0 : 1;
  }
  std::vector<ContextName> rows = by_name.take();
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ContextName& a, const ContextName& b) { return a.bytes > b.bytes; });
  return rows;
}

std::vector<ContextGroup> context_groups(const RuntimeModel& model) {
  RowsByName<ContextGroup> groups;
  std::vector<size_t> heads(
      model.contexts.size());  // of each context: the one that names its group
  for (size_t i = 0; i < model.contexts.size(); ++i) {
    const RuntimeContext& context = model.contexts[i];
    heads[i] = context.level <= 1 ? i : heads[static_cast<size_t>(context.parent)];
    ContextGroup& group = groups.row(model.contexts[heads[i]]);
    ++group.count;
    add(group.in_heaps, context.in_heaps);
    add(group.in_mappings, context.in_mappings);
  }
  std::vector<ContextGroup> rows = groups.take();
  std::stable_sort(rows.begin(), rows.end(), [](const ContextGroup& a, const ContextGroup& b) {
    return order_of(a) > order_of(b);
  });
  return rows;
}

}  // namespace heapsnap
