#include "analysis/context_census.h"

#include <doctest/doctest.h>

#include "analysis/context_account.h"

using namespace heapsnap;

namespace {

int32_t add_context(RuntimeModel& model, int32_t parent, const std::string& name, uint64_t bytes) {
  RuntimeContext context;
  context.parent = parent;
  context.level = parent < 0 ? 0 : model.contexts[static_cast<size_t>(parent)].level + 1;
  context.kind = ContextKind::kAllocSet;
  context.name = name;
  context.bytes = bytes;
  context.free_bytes = bytes / 4;
  context.used_chunks = 10;
  context.counts_chunks = true;
  context.in_heaps = {bytes + 8, bytes / 2, bytes / 8};
  model.contexts.push_back(context);
  return static_cast<int32_t>(model.contexts.size()) - 1;
}

RuntimeModel server_contexts() {
  RuntimeModel model;
  model.runtimes.resize(1);
  const int32_t top = add_context(model, -1, "TopMemoryContext", 80000);
  add_context(model, top, "MessageContext", 8192);
  const int32_t cache = add_context(model, top, "CacheMemoryContext", 60000);
  const int32_t index = add_context(model, cache, "index info", 1024);
  add_context(model, cache, "index info", 40000);
  add_context(model, index, "deeper", 512);
  return model;
}

}  // namespace

TEST_CASE("contexts of one name are one row, wherever they are") {
  RuntimeModel model = server_contexts();
  model.contexts[4].counts_chunks = false;
  model.contexts[4].used_chunks = 0;
  const std::vector<ContextName> rows = contexts_by_name(model);
  REQUIRE(rows.size() == 5);
  CHECK(rows[0] == ContextName{0, "TopMemoryContext", 1, 80000, 20000, 10, 0});
  CHECK(rows[1] == ContextName{0, "CacheMemoryContext", 1, 60000, 15000, 10, 0});
  CHECK(rows[2] == ContextName{0, "index info", 2, 41024, 10256, 10, 1});
  CHECK(rows[4].name == "deeper");
}

TEST_CASE("a group is a context below the top with all below it; the top is one alone") {
  const std::vector<ContextGroup> rows = context_groups(server_contexts());
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].name == "CacheMemoryContext");
  CHECK(rows[0].count == 4);
  CHECK(rows[0].in_heaps == RuntimeArea::Amount{101536 + 4 * 8, 50768, 12692});
  CHECK(rows[0].in_mappings == RuntimeArea::Amount{});
  CHECK(rows[1].name == "TopMemoryContext");
  CHECK(rows[1].count == 1);
  CHECK(rows[2].name == "MessageContext");
}

TEST_CASE("where nothing is known to be resident, groups are ordered by bytes") {
  RuntimeModel model = server_contexts();
  for (RuntimeContext& context : model.contexts) {
    context.in_heaps.resident = context.in_heaps.swapped = 0;
  }
  model.contexts[1].in_mappings.bytes = 1 << 20;
  CHECK(context_groups(model)[0].name == "MessageContext");
}

TEST_CASE("rows of contexts and what is left are the account's rows again") {
  RssAccount account;
  account[RssRow::kProgram] = {200000, 50000};
  account[RssRow::kMmapped] = {4096, 0};
  RuntimeModel model = server_contexts();
  add_context(model, 0, "small", 64);
  model.contexts[1].in_mappings = {100000, 5000, 0};  // more than the kernel's counter has
  const ContextAccount found = account_contexts(account, model);
  REQUIRE(found.rows.size() == 4);
  CHECK(found.rows[0] == ContextAccount::Row{"CacheMemoryContext", 4, {50768, 12692}});
  CHECK(found.rows[1] == ContextAccount::Row{"TopMemoryContext", 1, {40000, 10000}});
  CHECK(found.rows[2] == ContextAccount::Row{"MessageContext", 1, {4096 + 4096, 1024}});
  CHECK(found.rows[3] == ContextAccount::Row{"", 1, {32, 8}});
  RssAccount::Amount sum = found.program;
  sum.resident += found.mmapped.resident;
  for (const ContextAccount::Row& row : found.rows) {
    sum.resident += row.amount.resident;
    sum.swapped += row.amount.swapped;
  }
  CHECK(sum == RssAccount::Amount{200000 + 4096, 50000});

  account.basis = RssBasis::kVirtual;
  CHECK(account_contexts(account, model).rows[1].amount.resident == 80008);
  CHECK(account_contexts(account, RuntimeModel()).rows.empty());
}

TEST_CASE("sums of damaged snapshots stop at the largest number") {
  RuntimeModel model = server_contexts();
  for (RuntimeContext& context : model.contexts) {
    context.bytes = UINT64_MAX;
    context.in_heaps = {UINT64_MAX, UINT64_MAX, 0};
  }
  for (const ContextName& row : contexts_by_name(model)) CHECK(row.bytes == UINT64_MAX);
  for (const ContextGroup& row : context_groups(model)) {
    CHECK(row.in_heaps.resident == UINT64_MAX);
  }
}
