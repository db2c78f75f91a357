// Counts of Ruby's objects as the JSON that HeapDump.count_objects of the gem heap_dump gives:
//
//   {
//       "total_slots": 56419,
//       "free_slots": 12384,
//       "basic_types": {
//           "T_OBJECT": 1945,
//           ...
//       },
//       "user_types": {
//           "Shop::Basket": 3
//       }
//   }
#pragma once

#include "analysis/object_counts.h"
#include "report/writer.h"

namespace heapsnap {

void print_object_counts(Writer& out, const ObjectCounts& counts);

}  // namespace heapsnap
