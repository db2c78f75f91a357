// What the rows of the account of resident memory are called.
#pragma once

#include "analysis/rss_account.h"

namespace heapsnap {

// "free in bins", "thread stacks"
const char* rss_row_text(RssRow row);

}  // namespace heapsnap
