// Memory contexts in the account of resident memory: parts of what malloc has in use, in rows of
// their own.
//
//   used by the program (malloc)              what is left of the account's row
//   PostgreSQL contexts: CacheMemoryContext   the largest groups
//   PostgreSQL contexts: others               the other groups together
//
// Together they are the account's two rows again, kProgram and kMmapped.
#pragma once

#include <string>
#include <vector>

#include "analysis/rss_account.h"
#include "runtime/runtime_model.h"

namespace heapsnap {

struct ContextAccount {
  struct Row {
    std::string name;       // of the group; empty: the others
    uint64_t contexts = 0;  // in it
    RssAccount::Amount amount;
    bool operator==(const Row&) const = default;
  };
  std::vector<Row> rows;       // none: there are no contexts
  RssAccount::Amount program;  // what is left of RssRow::kProgram
  RssAccount::Amount mmapped;  // of RssRow::kMmapped
};

ContextAccount account_contexts(const RssAccount& account, const RuntimeModel& model);

}  // namespace heapsnap
